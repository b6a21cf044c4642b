"""The log line of a patched pod."""

import logging
from typing import Any

import msgspec

from admission.pod_reviews import PodVerdict
from admission.review import AdmissionRequest
from common.api.base import Wire
from common.identity_cache import IdentityCache
from common.recommendation.resource_changes import patch_changes, summary

logger = logging.getLogger(__name__)


class _Meta(Wire, frozen=True, kw_only=True):
    name: Any = ""
    generate_name: Any = ""  # of any type: logging must not fail the patch


class _NamedPod(Wire, frozen=True, kw_only=True):
    metadata: _Meta = _Meta()


_decoder = msgspec.json.Decoder(_NamedPod)

# Equal pods share one patch, see :mod:`admission.patch_cache`.
_changes = IdentityCache[str](256)


def log_patched(request: AdmissionRequest, verdict: PodVerdict) -> None:
    """Log the VPA and the changes of a patched pod.

    A review precedes the completion of a generated name. The log shows ``%`` at its end.
    """
    if verdict.pod is None or not logger.isEnabledFor(logging.INFO):
        return
    extra: dict[str, object] = {
        "pod": f"{request.namespace}/{pod_name(request)}",
        "vpa": f"{request.namespace}/{verdict.vpa_name}",
        "changes": changes_of(verdict),
    }
    if request.dry_run is True:
        extra["dry_run"] = True
    logger.info("pod patched", extra=extra)


def changes_of(verdict: PodVerdict) -> str:
    """Return the changes of a pod's resources as text."""
    pod, patches = verdict.pod, verdict.patches
    if pod is None or not patches:
        return ""
    return _changes.get((patches,), lambda: summary(patch_changes(pod, patches)))


def pod_name(request: AdmissionRequest) -> str:
    """Return the name of a pod, or its ``generateName`` with ``%``; empty if it can't be read."""
    if request.name:
        return request.name
    try:
        meta = _decoder.decode(request.object).metadata
    except msgspec.DecodeError:
        return ""
    return str(meta.name or f"{meta.generate_name}%")
