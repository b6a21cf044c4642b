"""One line for each patched pod."""

import functools
import logging
from typing import Any

import msgspec

from admission.pod_reviews import Verdict
from admission.review import AdmissionRequest
from common.api.base import Wire
from common.api.core import Pod
from common.patches import Operation
from common.recommendation.changes import patch_changes, summary

logger = logging.getLogger(__name__)


class _Meta(Wire, frozen=True, kw_only=True):
    name: Any = ""
    generate_name: Any = ""  # not checked: a log line must not cost a patch


class _Named(Wire, frozen=True, kw_only=True):
    metadata: _Meta = _Meta()


_decoder = msgspec.json.Decoder(_Named)


class _Patched:
    """A pod and its patch, the same as another one if the patch is the very same object.

    Pods that are alike share one, see :mod:`admission.remembered`.
    """

    __slots__ = ("patches", "pod")

    def __init__(self, pod: Pod, patches: tuple[Operation, ...]) -> None:
        self.pod = pod
        self.patches = patches

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Patched) and self.patches is other.patches

    def __hash__(self) -> int:
        return id(self.patches)


def log_patched(request: AdmissionRequest, verdict: Verdict) -> None:
    """Log which VPA changed what of a new pod.

    API servers ask before they complete a generated name; it then ends in a percent sign.
    """
    if verdict.pod is None or not logger.isEnabledFor(logging.INFO):
        return
    extra: dict[str, object] = {
        "pod": f"{request.namespace}/{request.name or _name(request)}",
        "vpa": f"{request.namespace}/{verdict.vpa_name}",
        "changes": _changes(_Patched(verdict.pod, verdict.patches)),
    }
    if request.dry_run is True:
        extra["dry_run"] = True
    logger.info("pod patched", extra=extra)


@functools.lru_cache(maxsize=256)
def _changes(patched: _Patched) -> str:
    return summary(patch_changes(patched.pod, patched.patches))


def _name(request: AdmissionRequest) -> str:
    meta = _decoder.decode(request.object).metadata
    return str(meta.name or f"{meta.generate_name}%")
