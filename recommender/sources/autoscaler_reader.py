"""Reads what is visible of autoscalers of nodes: NodePools, and the cluster autoscaler's status.

They are few and change seldom, so they are read once a minute and not watched: in a cluster without
Karpenter each watch of NodePools would fail.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from common.api.meta import NamedObject
from common.errors import (
    DecodeError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from recommender.nodes.autoscalers import Autoscalers
from recommender.nodes.node_pools import NodePool
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

T = TypeVar("T")

NODE_POOLS = Endpoint("karpenter.sh", "v1", "nodepools", "NodePool", NodePool, namespaced=False)
CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", NamedObject)
STATUS_NAME = "cluster-autoscaler-status"

_STATUS_NAMESPACE = "kube-system"
_FORBIDDEN = (
    "autoscalers of nodes can't be read, so targets larger than all nodes stay where auto applies"
)
_NOT_READ = "autoscalers of nodes not read, those that were read last still count"
_SECONDS = 60.0  # between two reads


class AutoscalerReader:
    """Knows the autoscalers that were visible last."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._troubles = {name: StateLog(logger) for name in (NODE_POOLS.resource, STATUS_NAME)}
        self._was_read = asyncio.Event()
        self.known = Autoscalers()

    async def wait_read(self) -> None:
        """Wait until they have been read once."""
        await self._was_read.wait()

    async def run(self) -> None:
        """Read endlessly."""
        while True:
            await self.read()
            await asyncio.sleep(_SECONDS)

    async def read(self) -> None:
        """Read once. Without the permission it is unknown; after other errors it stays."""
        before = self.known
        pools = await self._answer(NODE_POOLS.resource, self._node_pools(), before.node_pools)
        reports = await self._answer(STATUS_NAME, self._reports(), before.reports)
        self.known = Autoscalers(reports=reports, node_pools=pools)
        self._was_read.set()

    async def _node_pools(self) -> tuple[NodePool, ...]:
        try:
            listing = await self._client.list(NODE_POOLS)
        except NotFoundError:
            return ()
        found = tuple(sorted(listing.items, key=lambda pool: pool.metadata.name))
        known = self.known.node_pools
        return known if known == found else found

    async def _reports(self) -> bool:
        try:
            await self._client.get(CONFIG_MAPS, STATUS_NAME, namespace=_STATUS_NAMESPACE)
        except NotFoundError:
            return False
        return True

    async def _answer(self, what: str, reading: Awaitable[T], before: T | None) -> T | None:
        trouble = self._troubles[what]
        try:
            found = await reading
        except ForbiddenError as error:
            trouble.report(_FORBIDDEN, resource=what, error=str(error))
            return None
        except UnreachableError:
            return before  # the client logs it
        except (KubeError, DecodeError) as error:
            trouble.report(_NOT_READ, resource=what, error=str(error))
            return before
        trouble.report("")
        return found
