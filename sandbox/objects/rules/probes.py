"""The rules that probes and lifecycle hooks keep.

Source: ``validateProbe``, ``validateLifecycle`` and ``validateHandler``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_not_supported, field_required
from sandbox.objects.rules.numbers import negative_causes
from sandbox.objects.rules.ports import port_causes

Json = Mapping[str, Any]

_COUNTS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
    *("successThreshold", "failureThreshold"),
)
_SCHEMES: Final = ("HTTP", "HTTPS")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def probe_causes(probe: Json, kind: str, path: str) -> Iterator[Cause]:
    """Every broken rule of a probe; ``kind`` is its field, ``livenessProbe``."""
    yield from _handler_causes(probe, path, None)
    yield from negative_causes(probe, path, *_COUNTS)
    grace = probe.get("terminationGracePeriodSeconds")
    place = f"{path}.terminationGracePeriodSeconds"
    if isinstance(grace, int) and grace <= 0:
        yield field_invalid(place, grace, "must be greater than 0")
    if kind == "readinessProbe":
        if grace is not None:
            yield field_invalid(place, grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold", 1) != 1:
        yield field_invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def lifecycle_causes(lifecycle: Json, path: str, grace: int | None) -> Iterator[Cause]:
    """Every broken rule of the hooks of a container."""
    for name in ("postStart", "preStop"):
        handler = lifecycle.get(name)
        if handler is not None:
            yield from _handler_causes(handler, f"{path}.{name}", grace)


def _handler_causes(handler: Json, path: str, grace: int | None) -> Iterator[Cause]:
    found = ""
    for name in _HANDLERS:
        action = handler.get(name)
        if action is None:
            continue
        if found:
            yield field_forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
            continue
        found = name
        yield from _action_causes(name, action, f"{path}.{name}", grace)
    if not found:
        yield field_required(path, "must specify a handler type")


def _action_causes(name: str, action: Json, path: str, grace: int | None) -> Iterator[Cause]:
    if name == "exec":
        if not action.get("command"):
            yield field_required(f"{path}.command")
    elif name == "httpGet":
        if not action.get("path"):
            yield field_required(f"{path}.path")
        yield from port_causes(action.get("port", 0), f"{path}.port")
        scheme = action.get("scheme") or "HTTP"
        if scheme not in _SCHEMES:
            yield field_not_supported(f"{path}.scheme", scheme, _SCHEMES)
    elif name in ("tcpSocket", "grpc"):
        yield from port_causes(action.get("port", 0), f"{path}.port")
    else:
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield field_invalid(path, seconds, text)
