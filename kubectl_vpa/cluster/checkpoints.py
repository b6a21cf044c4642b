"""The usage histories in checkpoints, of this recommender or of the reference."""

from collections.abc import Sequence

from common.errors import ConfigError, DecodeError
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.usage_model import StoredHistory
from recommender.checkpoints import checkpoint_annotations, codec
from recommender.checkpoints.stored_checkpoint import (
    STORED,
    StoredCheckpoint,
    name_of,
    place_of,
    status_of,
)
from recommender.checkpoints.window_annotation import decode_windows

_MOST_NAMED = 3  # checkpoints in a note
_UNREAD = "without checkpoints nothing can be computed; you need the right to list them"


async def read_histories(reader: Reader) -> Sequence[StoredHistory]:
    """Return the histories of all VPAs of the scope.

    Checkpoints that can't be decoded are left out, with a note.

    Raises:
        ConfigError: the checkpoints can't be listed.
    """
    unreadable: list[str] = []

    def take(found: list[StoredHistory], page: Sequence[StoredCheckpoint]) -> None:
        for checkpoint in page:
            try:
                found.append(history_of(checkpoint))
            except DecodeError as error:
                unreadable.append(f"{name_of(checkpoint)}: {error}")

    found = await reader.fold(STORED, list[StoredHistory], take)
    for text in sorted(set(unreadable))[:_MOST_NAMED]:
        reader.note(f"checkpoint {text}")
    if len(unreadable) > _MOST_NAMED:
        reader.note(f"{len(unreadable) - _MOST_NAMED} more checkpoints that can't be decoded")
    if found is None:
        raise ConfigError(_UNREAD)
    return found


def history_of(checkpoint: StoredCheckpoint) -> StoredHistory:
    """Decode a checkpoint; memory windows that can't be decoded are left out.

    Raises:
        DecodeError: the status can't be decoded.
    """
    status = status_of(checkpoint)
    details = checkpoint_annotations.read(checkpoint, status)
    vpa, container = place_of(checkpoint)
    try:
        windows = decode_windows(details.windows)
    except DecodeError:
        windows = []
    return StoredHistory(
        vpa=vpa,
        container=container,
        history=codec.decode(status),
        windows=windows,
        target=details.target,
        is_sidecar=details.sidecar,
    )
