"""Checkpoints in the API server, with a status that may be invalid.

Source: recommender.md 1.4.
"""

import msgspec

from common.api.autoscaling import CheckpointSpec, CheckpointStatus
from common.api.base import Wire
from common.api.decoding import decode
from common.api.meta import ObjectMeta, OwnedObject
from common.errors import DecodeError
from common.kube.endpoints import CHECKPOINTS, with_type
from recommender.model.keys import Place, VpaKey


class StoredCheckpoint(Wire, frozen=True, kw_only=True):
    """A checkpoint whose status isn't decoded yet."""

    metadata: ObjectMeta
    spec: CheckpointSpec = CheckpointSpec()
    status: msgspec.Raw = msgspec.Raw(b"{}")


STORED = with_type(CHECKPOINTS, StoredCheckpoint)
NAMED = with_type(CHECKPOINTS, OwnedObject, metadata_only=True)
"""Checkpoints, of which only the metadata is requested."""

_decoder = msgspec.json.Decoder(CheckpointStatus)


def status_of(checkpoint: StoredCheckpoint) -> CheckpointStatus:
    """Decode the status of a checkpoint.

    Raises:
        DecodeError: the status has another shape.
    """
    try:
        return decode(_decoder, checkpoint.status)
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from error


def place_of(checkpoint: StoredCheckpoint) -> Place:
    """Return the VPA and container of a checkpoint, from its spec and not its name (Q6)."""
    spec = checkpoint.spec
    return VpaKey(checkpoint.metadata.namespace, spec.vpa_object_name), spec.container_name


def name_of(checkpoint: StoredCheckpoint) -> str:
    """Return the namespace and name of a checkpoint for the log."""
    return f"{checkpoint.metadata.namespace}/{checkpoint.metadata.name}"
