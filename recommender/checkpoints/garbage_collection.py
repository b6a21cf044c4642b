"""Checkpoints of VPAs that are gone are deleted; one whose VPA exists never is.

Source: recommender.md 11.4.
"""

import logging
from collections.abc import Callable, Collection

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError, KubeError, NotFoundError, NotLeadingError
from common.kube.client import KubeClient
from common.kube.endpoints import CHECKPOINTS, VPAS
from recommender.checkpoints.stored import STORED, StoredCheckpoint, name_of, place_of
from recommender.model.keys import VpaKey

logger = logging.getLogger(__name__)


class CheckpointCollector:
    """Finds and deletes them, in one namespace or in all."""

    def __init__(self, client: KubeClient, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

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
        for checkpoint in (await self._client.list(STORED, namespace=self._namespace)).items:
            key, _ = place_of(checkpoint)
            if key.namespace in ignored or known(key) is not None:
                continue
            if key not in gone:
                gone[key] = await self._is_gone(key)
            if gone[key]:
                collected += await self._delete(checkpoint)
        return collected

    async def _is_gone(self, key: VpaKey) -> bool:
        if not key.name:
            return True  # an owner without a name can't exist
        try:
            await self._client.get(VPAS, key.name, namespace=key.namespace)
        except NotFoundError as error:
            # Without the name it is the resource that is not there: not yet, in a server that
            # starts. What is meant to be there then, nobody can tell.
            return error.name == key.name
        except DecodeError:
            return False  # strange, but there
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
            raise  # no other one would be deleted either
        except KubeError as error:
            extra = {"checkpoint": name_of(checkpoint), "error": str(error)}
            logger.warning("checkpoint not deleted", extra=extra)
            return 0
        return 1
