"""The rules that probes and lifecycle hooks keep.

Source: ``validateProbe``, ``validateLifecycle`` and ``validateHandler``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_not_supported, field_required

Json = Mapping[str, Any]

_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_COUNTS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
    *("successThreshold", "failureThreshold"),
)
_SCHEMES: Final = ("HTTP", "HTTPS")
_LARGEST_PORT: Final = 65535
_LONGEST_PORT_NAME: Final = 15
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def probe_causes(probe: Json, kind: str, path: str) -> Iterator[Cause]:
    """Every broken rule of a probe; ``kind`` is its field, ``livenessProbe``."""
    yield from _handler_causes(probe, path, None)
    for name in _COUNTS:
        count = probe.get(name)
        if isinstance(count, int) and count < 0:
            yield field_invalid(f"{path}.{name}", count, _NOT_NEGATIVE)
    grace, place = (
        probe.get("terminationGracePeriodSeconds"),
        f"{path}.terminationGracePeriodSeconds",
    )
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


def port_number_causes(port: int, path: str) -> Iterator[Cause]:
    """A number that is none of a port."""
    if not 1 <= port <= _LARGEST_PORT:
        text = f"must be between 1 and {_LARGEST_PORT}, inclusive"
        yield field_invalid(path, port, text)


def port_name_problems(name: str) -> Iterator[str]:
    """Why a name is none of a port."""
    if len(name) > _LONGEST_PORT_NAME:
        yield f"must be no more than {_LONGEST_PORT_NAME} characters"
    if re.fullmatch(r"[-a-z0-9]+", name) is None:
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if re.search(r"[a-z]", name) is None:
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


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
        yield from _port_causes(action.get("port", 0), f"{path}.port")
        scheme = action.get("scheme") or "HTTP"
        if scheme not in _SCHEMES:
            yield field_not_supported(f"{path}.scheme", scheme, _SCHEMES)
    elif name in ("tcpSocket", "grpc"):
        yield from _port_causes(action.get("port", 0), f"{path}.port")
    else:
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield field_invalid(path, seconds, text)


def _port_causes(port: int | str, path: str) -> Iterator[Cause]:
    if isinstance(port, str):
        for problem in port_name_problems(port):
            yield field_invalid(path, port, problem)
    else:
        yield from port_number_causes(port, path)
