"""Checkpoints in the API server: reads, and writes that don't lose history.

One recommender should write a checkpoint, but for some time there can be two: an old and a new
image, one that lost its Lease without noticing, or two recommenders between which a VPA is moved.
So a write replaces only the version that was read or written last, and a checkpoint that would
lose history is read again first.

Source: recommender.md section 11.
"""

import enum
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from common.api.autoscaling import CheckpointStatus
from common.errors import (
    ConflictError,
    DecodeError,
    InvalidError,
    NotFoundError,
    ServerError,
    UnreachableError,
)
from common.kube.client import UNDECODABLE, KubeClient, PatchType
from common.kube.endpoints import CHECKPOINTS
from common.patches import Operation, add
from common.runtime.pausing import pausing
from recommender.checkpoints import checkpoint_annotations
from recommender.checkpoints.checkpoint_annotations import NO_DETAILS, CheckpointDetails
from recommender.checkpoints.codec import (
    HistoryExtent,
    decode,
    encode,
    new_object,
    object_name,
    since,
    weighs_less,
)
from recommender.checkpoints.stored_checkpoint import (
    STORED,
    StoredCheckpoint,
    name_of,
    place_of,
    status_of,
)
from recommender.metrics import RecommenderMetrics
from recommender.model.aggregates import HalfLives, History
from recommender.model.checkpoint_merge import merged_history
from recommender.model.keys import Place, VpaKey

logger = logging.getLogger(__name__)

_SLICE = 500  # checkpoints before other tasks run

_encoder = msgspec.json.Encoder(order="deterministic")


class WriteOutcome(enum.StrEnum):
    """The outcome of a write."""

    WRITTEN = "written"  # or an equal one is stored
    TAKEN = "taken"  # the object belongs to another container
    OVERTAKEN = "overtaken"  # the stored one changed and was read again: make a new draft


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDraft:
    """The contents of a checkpoint to write."""

    vpa: VpaKey
    container: str
    history: History
    details: CheckpointDetails = NO_DETAILS
    at: datetime
    forgets: bool = False  # a part expired after the last write: it may have less history


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCheckpoint:
    """The contents of a stored checkpoint."""

    vpa: VpaKey
    container: str
    history: History
    details: CheckpointDetails
    updated: datetime | None

    def is_about(self, target: str) -> bool:
        """Return True if it has the history of this target, or names no target."""
        return self.details.target in ("", target)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The result of a write; ``found`` is the checkpoint that another recommender wrote instead."""

    outcome: WriteOutcome
    found: LoadedCheckpoint | None = None


@dataclass(slots=True, kw_only=True)
class _Stored:
    """The state of a checkpoint in the API server after the last read or write."""

    version: str
    digest: int  # see _digest
    extent: HistoryExtent | None  # None: it can't be decoded
    target: str = ""  # of the history; empty: unknown
    drafted: int = 0  # digest of the draft before merging
    annotations: Mapping[str, str]


class CheckpointStore:
    """Reads and writes checkpoints; keeps their last state, so that no history is lost."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        half_lives: HalfLives,
        metrics: RecommenderMetrics,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._half_lives = half_lives
        self._metrics = metrics
        self._stored: dict[Place, _Stored] = {}
        self._unanswered: dict[Place, int] = {}  # digests of writes without a response
        self._logged: dict[Place, str] = {}  # the kind of conflict, a key of _LINES

    async def load(
        self, vpas: Collection[VpaKey], *, namespace: str = ""
    ) -> tuple[LoadedCheckpoint, ...]:
        """Return the checkpoints of these VPAs.

        The spec identifies the container, not the name (Q6). Checkpoints that can't be decoded are
        logged and left out. ``namespace`` is the namespace of all these VPAs; empty if there are
        several.

        Raises:
            KubeError: the checkpoints can't be listed.
            DecodeError: the response is not a list.
        """
        found = []
        listing = await self._client.list(STORED, namespace=namespace or self._namespace)
        async for checkpoint in pausing(listing.items, every=_SLICE):
            meta = checkpoint.metadata
            with self._metrics.object_errors.around(
                "checkpoint", CHECKPOINTS.kind, meta.namespace, meta.name
            ):
                if place_of(checkpoint)[0] in vpas:
                    read = self._remember(checkpoint)
                    if read is not None:
                        found.append(read)
        return tuple(found)

    async def write(self, draft: CheckpointDraft) -> WriteResult:
        """Write a checkpoint unless only its time would change.

        The patch tests the spec, so the checkpoint of another VPA or container stays (Q6). A
        checkpoint that changed after the last read is read again and not replaced. If the draft has
        less history than the stored one, both are merged, unless the stored history is that of
        another target (X123).

        Raises:
            KubeError: the API server refused, or didn't answer.
            DecodeError: the response is not a checkpoint.
        """
        place = (draft.vpa, draft.container)
        stored = self._stored.get(place)
        content = _content(draft, draft.history)
        if stored is None:
            return await self._create(place, content)
        if content.digest in (stored.drafted, stored.digest):
            return WriteResult(outcome=WriteOutcome.WRITTEN)
        is_same = stored.target in ("", draft.details.target)
        if stored.extent is not None and is_same and not draft.forgets:
            history = since(draft.history, stored.extent)
            if weighs_less(history, stored.extent, self._half_lives):
                there = await self._read_again(place)
                if there is None or self._stored[place].version != stored.version:
                    return WriteResult(outcome=WriteOutcome.OVERTAKEN, found=there)
                history = since(
                    merged_history(history, there.history, self._half_lives), stored.extent
                )
                stored = self._stored[place]
                self._report(place, "less")
            if history is not draft.history:
                content = _content(draft, history, drafted=content.digest)
        return await self._replace(place, stored, content)

    def places(self, names: Collection[tuple[str, str]]) -> tuple[Place, ...]:
        """Return the containers whose checkpoints have these namespaces and names."""
        if not names:
            return ()
        return tuple(
            (key, container)
            for key, container in self._stored
            if (key.namespace, object_name(key, container)) in names
        )

    def forget(self, vpas: Collection[VpaKey]) -> None:
        """Drop the state of these VPAs."""
        states: Sequence[dict[Place, Any]] = (self._stored, self._unanswered, self._logged)
        for state in states:
            for place in [place for place in state if place[0] in vpas]:
                del state[place]

    # Write

    async def _create(self, place: Place, content: "_Content") -> WriteResult:
        key, container = place
        body = new_object(key, container, content.status, content.annotations)
        try:
            answer = await self._client.create(STORED, body, namespace=key.namespace)
        except ConflictError:
            return await self._overtaken(place)
        except _UNANSWERED:
            self._unanswered[place] = content.digest
            raise
        return self._keep(place, answer, content)

    async def _replace(self, place: Place, stored: _Stored, content: "_Content") -> WriteResult:
        key, container = place
        patch = (
            Operation(op="test", path="/spec/vpaObjectName", value=key.name),
            Operation(op="test", path="/spec/containerName", value=container),
            add("/metadata/resourceVersion", stored.version),
            *checkpoint_annotations.changes(stored.annotations, content.annotations),
            add("/status", content.status),
        )
        name = object_name(key, container)
        try:
            answer = await self._client.patch(
                STORED, name, patch, patch_type=PatchType.JSON, namespace=key.namespace
            )
        except ConflictError:
            return await self._overtaken(place)
        except NotFoundError:
            del self._stored[place]
            return await self._create(place, content)
        except InvalidError:
            await self._read_again(place)
            if place in self._stored:
                raise  # it belongs to this container, so the patch failed for another reason
            return WriteResult(outcome=WriteOutcome.TAKEN)
        except _UNANSWERED:
            self._unanswered[place] = content.digest
            raise
        if stored.extent is None:
            self._report(place, "unreadable")
        return self._keep(place, answer, content)

    def _keep(self, place: Place, answer: StoredCheckpoint, content: "_Content") -> WriteResult:
        self._unanswered.pop(place, None)
        if self._logged.get(place) == "taken":
            del self._logged[place]
        self._stored[place] = _Stored(
            version=answer.metadata.resource_version,
            digest=content.digest,
            extent=HistoryExtent.of(content.history),
            target=content.details.target,
            drafted=content.drafted,
            annotations=_names(answer.metadata.annotations or {}),
        )
        return WriteResult(outcome=WriteOutcome.WRITTEN)

    async def _overtaken(self, place: Place) -> WriteResult:
        """Read a checkpoint again after a change by another recommender or an unanswered write."""
        before, unanswered = self._stored.pop(place, None), self._unanswered.pop(place, 0)
        there = await self._read_again(place)
        after = self._stored.get(place)
        if after is None:
            is_taken = self._logged.get(place) == "taken"
            return WriteResult(outcome=WriteOutcome.TAKEN if is_taken else WriteOutcome.OVERTAKEN)
        if after.digest in (before.digest if before is not None else 0, unanswered):
            return WriteResult(outcome=WriteOutcome.OVERTAKEN)
        self._metrics.checkpoint_conflicts.labels("foreign").inc()
        return WriteResult(outcome=WriteOutcome.OVERTAKEN, found=there)

    async def _read_again(self, place: Place) -> LoadedCheckpoint | None:
        """Read a checkpoint; return None if it is gone, undecodable, or of another container."""
        key, container = place
        name = object_name(key, container)
        self._stored.pop(place, None)
        # A list needs no permission that loading doesn't need.
        listing = await self._client.list(
            STORED, namespace=key.namespace, field_selector=f"metadata.name={name}"
        )
        if not listing.items:
            if listing.undecodable:
                self._report(place, "taken")  # its spec can't be decoded
            return None
        checkpoint = listing.items[0]
        if place_of(checkpoint) != place:
            self._report(place, "taken")
            return None
        return self._remember(checkpoint)

    # Read

    def _remember(self, checkpoint: StoredCheckpoint) -> LoadedCheckpoint | None:
        """Record the state of a checkpoint; return its contents, None if they can't be decoded."""
        place = key, container = place_of(checkpoint)
        meta = checkpoint.metadata
        found, digest, target = None, 0, ""
        try:
            status = status_of(checkpoint)
            history = decode(status)
        except DecodeError as error:
            extra = {"checkpoint": name_of(checkpoint), "why": str(error)}
            logger.warning("checkpoint not loaded, the next one will replace it", extra=extra)
            self._client.read_failed(CHECKPOINTS.resource, UNDECODABLE)
        else:
            details = checkpoint_annotations.read(checkpoint, status)
            digest, target = _digest(status, details), details.target
            found = LoadedCheckpoint(
                vpa=key,
                container=container,
                history=history,
                details=details,
                updated=status.last_update_time,
            )
        if meta.name == object_name(key, container):
            self._stored[place] = _Stored(
                version=meta.resource_version,
                digest=digest,
                extent=None if found is None else HistoryExtent.of(found.history),
                target=target,
                annotations=_names(meta.annotations or {}),
            )
        return found

    def _report(self, place: Place, trouble: str) -> None:
        """Count a conflict, and log the first one of its kind."""
        self._metrics.checkpoint_conflicts.labels(trouble).inc()
        if self._logged.get(place) == trouble:
            return
        self._logged[place] = trouble
        key, container = place
        extra = {"checkpoint": f"{key.namespace}/{object_name(key, container)}"}
        logger.warning(_LINES[trouble], extra=extra)


class _Content(NamedTuple):
    """The contents of a write."""

    history: History
    status: CheckpointStatus
    details: CheckpointDetails
    drafted: int  # digest of the draft
    digest: int

    @property
    def annotations(self) -> dict[str, str]:
        return self.details.annotations(self.status)


def _content(draft: CheckpointDraft, history: History, *, drafted: int = 0) -> _Content:
    """Return the contents of a draft, with this history."""
    status = encode(history, draft.at)
    digest = _digest(status, draft.details)
    return _Content(history, status, draft.details, drafted or digest, digest)


_UNANSWERED = (UnreachableError, ServerError, DecodeError)
_LINES = {
    "less": "checkpoint would have known less, what is stored was kept with it",
    "taken": "checkpoint not written, it is another container's",
    "unreadable": "checkpoint that could not be read was replaced",
}


def _names(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return the annotations without their values, which are long."""
    return dict.fromkeys(annotations, "")


def _digest(status: CheckpointStatus, details: CheckpointDetails) -> int:
    """Return a hash of the content without its time and its order."""
    undated = msgspec.structs.replace(status, last_update_time=None)
    return hash((_encoder.encode(undated), details))
