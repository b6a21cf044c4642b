"""Reads what is visible of autoscalers of nodes: NodePools, and the cluster autoscaler's status.

They are few and change seldom, so they are read once a minute and not watched: in a cluster without
Karpenter each watch of NodePools would fail.
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from common.errors import (
    DecodeError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from common.kube import node_autoscalers
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.kube.node_autoscalers import cluster_autoscaler_is_visible, karpenter_is_visible
from recommender.nodes.autoscalers import Autoscalers
from recommender.nodes.node_pools import NodePool, UnreadPool
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

T = TypeVar("T")

NODE_POOLS: Endpoint[NodePool] = replace(node_autoscalers.NODE_POOLS, type=NodePool)

_STATUS = node_autoscalers.STATUS_NAME
_FORBIDDEN = (
    "autoscalers of nodes can't be read, so targets larger than all nodes stay where auto applies"
)
_NOT_READ = "autoscalers of nodes not read, those that were read last still count"
_NEVER_READ = "autoscalers of nodes not read yet, trying again"
_SECONDS = 60.0  # between two reads
_FIRST_READS = 60  # at most, one each second, until all of them are answered


class AutoscalerReader:
    """Knows the autoscalers that were visible last."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._troubles = {name: StateLog(logger) for name in (NODE_POOLS.resource, _STATUS)}
        self._unanswered = set(self._troubles)
        self._answered = asyncio.Event()
        self.known = Autoscalers()

    @property
    def unanswered(self) -> frozenset[str]:
        """Return the resources that the API server has neither returned nor refused yet."""
        return frozenset(self._unanswered)

    async def wait_answered(self) -> None:
        """Wait until the API server has returned or refused all of them."""
        await self._answered.wait()

    async def run(self) -> None:
        """Read endlessly."""
        for _ in range(_FIRST_READS):
            await self.read()
            if not self._unanswered:
                break
            await asyncio.sleep(1.0)
        while True:
            await asyncio.sleep(_SECONDS)
            await self.read()

    async def read(self) -> None:
        """Read once. Without the permission it is unknown; after other errors it stays."""
        before = self.known
        pools = await self._answer(NODE_POOLS.resource, self._node_pools(), before.node_pools)
        reports = await self._answer(
            _STATUS, cluster_autoscaler_is_visible(self._client), before.reports
        )
        self.known = Autoscalers(reports=reports, node_pools=pools)
        if not self._unanswered:
            self._answered.set()

    async def _node_pools(self) -> tuple[NodePool | UnreadPool, ...] | None:
        """Return the NodePools; None if Karpenter serves them in older versions alone."""
        try:
            listing = await self._client.list(NODE_POOLS)
        except NotFoundError:
            return None if await karpenter_is_visible(self._client) else ()
        found: tuple[NodePool | UnreadPool, ...] = (
            *sorted(listing.items, key=lambda pool: pool.metadata.name),
            *map(UnreadPool, sorted(listing.undecodable)),
        )
        known = self.known.node_pools
        return known if known == found else found

    async def _answer(self, what: str, reading: Awaitable[T], before: T | None) -> T | None:
        trouble = self._troubles[what]
        try:
            found = await reading
        except ForbiddenError as error:
            trouble.report(_FORBIDDEN, resource=what, error=str(error))
            self._unanswered.discard(what)
            return None
        except UnreachableError:
            return before  # the client logs it
        except (KubeError, DecodeError) as error:
            text = _NEVER_READ if what in self._unanswered else _NOT_READ
            trouble.report(text, resource=what, error=str(error))
            return before
        trouble.report("")
        self._unanswered.discard(what)
        return found
