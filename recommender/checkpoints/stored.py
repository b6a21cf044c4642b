"""Checkpoints as they are stored: whose each is, and a history that may be garbage.

Source: recommender.md 1.4.
"""

import msgspec

from common.api.autoscaling import CheckpointSpec, CheckpointStatus
from common.api.base import Wire
from common.api.decoding import decode
from common.api.meta import ObjectMeta, OwnedObject
from common.errors import DecodeError
from common.kube.endpoints import CHECKPOINTS, Endpoint
from recommender.model.keys import Place, VpaKey


class StoredCheckpoint(Wire, frozen=True, kw_only=True):
    """A checkpoint whose status isn't decoded yet."""

    metadata: ObjectMeta
    spec: CheckpointSpec = CheckpointSpec()
    status: msgspec.Raw = msgspec.Raw(b"{}")


STORED = Endpoint(
    CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINTS.resource, CHECKPOINTS.kind, StoredCheckpoint
)

NAMED = Endpoint(
    CHECKPOINTS.group,
    CHECKPOINTS.version,
    CHECKPOINTS.resource,
    CHECKPOINTS.kind,
    OwnedObject,
    metadata_only=True,
)
"""Checkpoints, of which nothing but the names is asked for."""

_decoder = msgspec.json.Decoder(CheckpointStatus)


def status_of(checkpoint: StoredCheckpoint) -> CheckpointStatus:
    """Return what it says.

    Raises:
        DecodeError: that has another shape.
    """
    try:
        return decode(_decoder, checkpoint.status)
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from error


def place_of(checkpoint: StoredCheckpoint) -> Place:
    """Return whose checkpoint it is, by its spec and not by its name (Q6)."""
    spec = checkpoint.spec
    return VpaKey(checkpoint.metadata.namespace, spec.vpa_object_name), spec.container_name


def name_of(checkpoint: StoredCheckpoint) -> str:
    """Its name, for the log."""
    return f"{checkpoint.metadata.namespace}/{checkpoint.metadata.name}"
