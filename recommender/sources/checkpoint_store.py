"""Checkpoints in the API server: read at start, written in every cycle, collected at times.

Source: recommender.md section 11.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import datetime

import msgspec

from common.api.autoscaling import (
    CheckpointStatus,
    VerticalPodAutoscaler,
    VerticalPodAutoscalerCheckpoint,
)
from common.errors import DecodeError, InvalidError, KubeError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import CHECKPOINTS, VPAS, Endpoint
from common.patches import Operation, add
from recommender.checkpoints import decode, new_object, object_name
from recommender.model.aggregates import History
from recommender.model.keys import VpaKey

logger = logging.getLogger(__name__)

_SLICE = 500  # checkpoints before other tasks get their turn

# The answers to our own writes are not looked at, so they need no decoding.
_ANY = Endpoint(
    CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINTS.resource, CHECKPOINTS.kind, msgspec.Raw
)


_encoder = msgspec.json.Encoder(order="deterministic")


class CheckpointStore:
    """Reads and writes checkpoints; remembers what is there, so that nothing goes out twice."""

    def __init__(self, client: KubeClient, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._stored: dict[tuple[VpaKey, str], int] = {}  # what is there, see _digest
        self._taken: set[tuple[VpaKey, str]] = set()  # names that are another container's

    async def load(
        self, vpas: Collection[VpaKey], *, namespace: str = ""
    ) -> tuple[tuple[VpaKey, str, History, datetime | None], ...]:
        """The history of each container of these VPAs, with the time of its last update.

        Whose it is, the spec says, not the name (Q6). Bad ones are logged and left out.
        ``namespace`` is where all of these VPAs are, if it is one.

        Raises:
            KubeError: the checkpoints can't be listed.
            DecodeError: the answer is no list.
        """
        found = []
        for number, checkpoint in enumerate(await self._list(namespace or self._namespace)):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            spec = checkpoint.spec
            key = VpaKey(checkpoint.metadata.namespace, spec.vpa_object_name)
            if key not in vpas:
                continue
            try:
                history = decode(checkpoint.status)
            except DecodeError as error:
                logger.warning(
                    "checkpoint not loaded",
                    extra={"checkpoint": _name(checkpoint), "why": str(error)},
                )
                continue
            self._stored[key, spec.container_name] = _digest(checkpoint.status)
            found.append((key, spec.container_name, history, checkpoint.status.last_update_time))
        return tuple(found)

    async def write(self, vpa: VpaKey, container: str, status: CheckpointStatus) -> bool:
        """Write a checkpoint unless only its date would change; whether it is up to date.

        A checkpoint of that name that belongs to another VPA or container is left alone
        (Q6): the patch tests the spec first.

        Raises:
            KubeError: the API server refused, or didn't answer.
        """
        place = (vpa, container)
        digest = _digest(status)
        if self._stored.get(place) == digest:
            return True
        name = object_name(vpa, container)
        patch = (
            Operation(op="test", path="/spec/vpaObjectName", value=vpa.name),
            Operation(op="test", path="/spec/containerName", value=container),
            add("/status", status),
        )
        try:
            await self._client.patch(
                _ANY, name, patch, patch_type=PatchType.JSON, namespace=vpa.namespace
            )
        except NotFoundError:
            created = new_object(vpa, container, status)
            await self._client.create(_ANY, created, namespace=vpa.namespace)
        except InvalidError as error:
            self._stored[place] = digest  # not again until there is something else to write
            if place not in self._taken:
                self._taken.add(place)
                logger.warning(
                    "checkpoint not written, it may be another container's",
                    extra={"checkpoint": f"{vpa.namespace}/{name}", "why": str(error)},
                )
            return False
        self._taken.discard(place)
        self._stored[place] = digest
        return True

    def forget(self, vpas: Collection[VpaKey]) -> None:
        """Drop what was remembered of VPAs other than these."""
        for place in [place for place in self._stored if place[0] not in vpas]:
            del self._stored[place]
        self._taken = {place for place in self._taken if place[0] in vpas}

    async def collect(
        self,
        known: Callable[[VpaKey], VerticalPodAutoscaler | None],
        *,
        ignored: Collection[str],
    ) -> int:
        """Delete checkpoints whose VPA is gone, whoever its recommender was; returns how many.

        ``known`` is a cache, which may be behind: the API server has the last word on a VPA
        that it doesn't hold.

        Raises:
            KubeError: the checkpoints can't be listed, or the API server is in trouble.
            DecodeError: the answer is no list.
        """
        collected = 0
        gone: dict[VpaKey, bool] = {}
        for checkpoint in await self._list(self._namespace):
            key = VpaKey(checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name)
            if key.namespace in ignored or known(key) is not None:
                continue
            if key not in gone:
                gone[key] = await self._is_gone(key)
            if gone[key]:
                collected += await self._delete(checkpoint)
        return collected

    async def _list(self, namespace: str) -> tuple[VerticalPodAutoscalerCheckpoint, ...]:
        return (await self._client.list(CHECKPOINTS, namespace=namespace)).items

    async def _is_gone(self, key: VpaKey) -> bool:
        if not key.name:
            return True  # an owner without a name can't exist
        try:
            await self._client.get(VPAS, key.name, namespace=key.namespace)
        except NotFoundError:
            return True
        except DecodeError:
            return False  # strange, but there
        return False

    async def _delete(self, checkpoint: VerticalPodAutoscalerCheckpoint) -> int:
        meta = checkpoint.metadata
        try:
            await self._client.delete(
                CHECKPOINTS, meta.name, namespace=meta.namespace, uid=meta.uid
            )
        except NotFoundError:
            return 0
        except KubeError as error:
            extra = {"checkpoint": _name(checkpoint), "error": str(error)}
            logger.warning("checkpoint not deleted", extra=extra)
            return 0
        return 1


def _digest(status: CheckpointStatus) -> int:
    """A number that is the same for the same content, whatever its date and its order."""
    undated = msgspec.structs.replace(status, last_update_time=None)
    return hash(_encoder.encode(undated))


def _name(checkpoint: VerticalPodAutoscalerCheckpoint) -> str:
    return f"{checkpoint.metadata.namespace}/{checkpoint.metadata.name}"
