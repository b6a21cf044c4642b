"""Details of a checkpoint beyond the reference's fields, in annotations that the reference keeps.

They are the running memory windows, a mark for native sidecars, and the target of the VPA.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from common.api.autoscaling import CheckpointStatus
from common.errors import DecodeError
from common.patches import Operation, add, pointer, remove
from recommender.checkpoints import window_annotation
from recommender.checkpoints.stored_checkpoint import StoredCheckpoint, name_of
from recommender.checkpoints.window_annotation import NONE

logger = logging.getLogger(__name__)

SIDECAR = "vpa-recommender/native-sidecar"
TARGET = "vpa-recommender/target"
"""The annotation that names the target whose history the checkpoint holds (X123)."""

_OURS = (window_annotation.ANNOTATION, SIDECAR, TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDetails:
    """The contents of a checkpoint's annotations."""

    target: str = ""  # see ``conversion.target_name``; empty: unknown
    windows: bytes = NONE  # see recommender.checkpoints.window_annotation
    sidecar: bool = False

    def annotations(self, status: CheckpointStatus) -> dict[str, str]:
        """Return the annotations of a checkpoint with this status."""
        found = {TARGET: self.target} if self.target else {}
        if self.windows != NONE:
            found[window_annotation.ANNOTATION] = window_annotation.annotation(self.windows, status)
        if self.sidecar:
            found[SIDECAR] = "true"
        return found


NO_DETAILS = CheckpointDetails()


def read(checkpoint: StoredCheckpoint, status: CheckpointStatus) -> CheckpointDetails:
    """Return the details of a checkpoint with this status; drop windows that can't be parsed."""
    annotations = checkpoint.metadata.annotations or {}
    return CheckpointDetails(
        target=annotations.get(TARGET, ""),
        windows=_windows(checkpoint, annotations.get(window_annotation.ANNOTATION), status),
        sidecar=SIDECAR in annotations,
    )


def changes(there: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Operation]:
    """Yield the operations that set or remove our annotations; others stay."""
    if wanted and not there:
        yield add("/metadata/annotations", wanted)
        return
    for name in _OURS:
        path = pointer("metadata", "annotations", name)
        if name in wanted:
            yield add(path, wanted[name])
        elif name in there:
            yield remove(path)


def _windows(checkpoint: StoredCheckpoint, text: str | None, status: CheckpointStatus) -> bytes:
    """Return the running windows in an annotation; NONE if they belong to another status."""
    if text is None:
        return NONE
    try:
        return window_annotation.windows_of(text, status) or NONE
    except DecodeError as error:
        extra = {"checkpoint": name_of(checkpoint), "why": str(error)}
        logger.warning("running memory windows of a checkpoint not loaded", extra=extra)
        return NONE
