"""Garbage collection: deletes the checkpoints of VPAs that don't exist any more.

Source: recommender.md 11.4.
"""

import logging
from collections.abc import Collection
from datetime import timedelta

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError, KubeError, NotFoundError, NotLeadingError
from common.kube.cache import Cache
from common.kube.client import KubeClient
from common.kube.endpoints import CHECKPOINTS, VPAS
from common.runtime.clock import Clock
from recommender.checkpoints.stored_checkpoint import STORED, StoredCheckpoint, name_of, place_of
from recommender.model.keys import VpaKey

logger = logging.getLogger(__name__)


class CheckpointCollector:
    """Deletes the checkpoints of deleted VPAs, in one namespace or in all."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        ignored: Collection[str],
        every: timedelta,
        clock: Clock,
    ) -> None:
        """Initialize; checkpoints in the ``ignored`` namespaces stay."""
        self._client = client
        self._namespace = namespace
        self._ignored = ignored
        self._every = every
        self._clock = clock
        self._collected = clock.now()

    async def collect_when_due(self, vpas: Cache[VerticalPodAutoscaler]) -> None:
        """Delete the checkpoints of deleted VPAs if the last time is at least ``every`` ago."""
        now = self._clock.now()
        if timedelta() <= now - self._collected < self._every:
            return
        self._collected = now
        try:
            collected = await self._collect(vpas)
        except (KubeError, DecodeError) as error:
            logger.warning("checkpoints not collected", extra={"error": str(error)})
            return
        if collected:
            logger.info("checkpoints without a VPA deleted", extra={"count": collected})

    async def _collect(self, vpas: Cache[VerticalPodAutoscaler]) -> int:
        """Delete the checkpoints of deleted VPAs, also of those that named another recommender.

        The cache may be stale, so read a VPA that it doesn't have from the API server.
        """
        collected = 0
        gone: dict[VpaKey, bool] = {}
        for checkpoint in (await self._client.list(STORED, namespace=self._namespace)).items:
            key, _ = place_of(checkpoint)
            if key.namespace in self._ignored or vpas.get(*key) is not None:
                continue
            if key not in gone:
                gone[key] = await self._is_gone(key)
            if gone[key]:
                collected += await self._delete(checkpoint)
        return collected

    async def _is_gone(self, key: VpaKey) -> bool:
        if not key.name:
            return True  # no VPA has an empty name
        try:
            await self._client.get(VPAS, key.name, namespace=key.namespace)
        except NotFoundError as error:
            # An error without the name means that the resource is not served, for example while
            # the API server starts. Then it is unknown which VPAs exist.
            return error.name == key.name
        except DecodeError:
            return False  # it exists, but can't be decoded
        return False

    async def _delete(self, checkpoint: StoredCheckpoint) -> int:
        meta = checkpoint.metadata
        try:
            await self._client.delete(
                CHECKPOINTS,
                meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        except NotFoundError:
            return 0
        except NotLeadingError:
            raise  # all other deletions would fail too
        except KubeError as error:
            extra = {"checkpoint": name_of(checkpoint), "error": str(error)}
            logger.warning("checkpoint not deleted", extra=extra)
            return 0
        return 1
