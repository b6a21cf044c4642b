"""Pods that are created in a dry run, one after the other, to see what the webhook does to them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from common.errors import KubeError
from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from e2e.pods import Object, requests

_INTERVAL = 0.1  # seconds


@dataclass(slots=True)
class Creations:
    """The results so far. A pod that isn't patched keeps the requests of its template."""

    refused: list[str] = field(default_factory=list)
    unpatched: int = 0
    patched: int = 0
    patched_in_a_row: int = 0

    @property
    def failures(self) -> tuple[list[str], int]:
        """The refusals, and how many pods the webhook didn't patch: it was slow or unreachable."""
        return self.refused, self.unpatched

    def add(self, *, patched: bool) -> None:
        """Count a pod that was created."""
        self.patched += patched
        self.unpatched += not patched
        self.patched_in_a_row = self.patched_in_a_row + 1 if patched else 0


@asynccontextmanager
async def creating_pods(
    client: KubeClient, pod: Object, *, namespace: str
) -> AsyncIterator[Creations]:
    """Create a pod again and again while the context is entered."""
    creations = Creations()

    async def create() -> None:
        while True:
            try:
                made = await client.create(PODS.as_dicts(), pod, namespace=namespace, dry_run=True)
            except KubeError as error:
                creations.refused.append(str(error))
            else:
                creations.add(patched=requests(made) != requests(pod))
            await asyncio.sleep(_INTERVAL)  # the pace of a controller, not a wait for something

    task = asyncio.create_task(create())
    try:
        yield creations
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
