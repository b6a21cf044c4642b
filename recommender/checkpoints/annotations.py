"""What a checkpoint says beside the reference's fields, in annotations that the reference keeps.

They hold the running memory windows, whether the container is a native sidecar, and the target
whose history it is.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from common.api.autoscaling import CheckpointStatus
from common.errors import DecodeError
from common.patches import Operation, add, pointer, remove
from recommender.checkpoints import running_windows
from recommender.checkpoints.running_windows import NONE
from recommender.checkpoints.stored import StoredCheckpoint, name_of

logger = logging.getLogger(__name__)

SIDECAR = "vpa-recommender/native-sidecar"
TARGET = "vpa-recommender/target"
"""The annotation that names the target whose history the checkpoint holds (X123)."""

_OURS = (running_windows.ANNOTATION, SIDECAR, TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDetails:
    """What the annotations of a checkpoint say."""

    target: str = ""  # see ``facts.target_name``; empty: unknown
    windows: bytes = NONE  # see recommender.checkpoints.running_windows
    sidecar: bool = False

    def annotations(self, status: CheckpointStatus) -> dict[str, str]:
        """Return the same as annotations of a checkpoint with this status."""
        found = {TARGET: self.target} if self.target else {}
        if self.windows != NONE:
            found[running_windows.ANNOTATION] = running_windows.annotation(self.windows, status)
        if self.sidecar:
            found[SIDECAR] = "true"
        return found


NO_DETAILS = CheckpointDetails()


def read(checkpoint: StoredCheckpoint, status: CheckpointStatus) -> CheckpointDetails:
    """Return what a checkpoint with this status says; windows that can't be read are left out."""
    annotations = checkpoint.metadata.annotations or {}
    return CheckpointDetails(
        target=annotations.get(TARGET, ""),
        windows=_windows(checkpoint, annotations.get(running_windows.ANNOTATION), status),
        sidecar=SIDECAR in annotations,
    )


def changes(there: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Operation]:
    """Put our annotations in or out; others stay."""
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
    """Return the running windows in its annotation, if they are of the status that is there."""
    if text is None:
        return NONE
    try:
        return running_windows.windows_of(text, status) or NONE
    except DecodeError as error:
        extra = {"checkpoint": name_of(checkpoint), "why": str(error)}
        logger.warning("running memory windows of a checkpoint not loaded", extra=extra)
        return NONE
