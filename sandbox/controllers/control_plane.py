"""Controllers and scheduler with their clients, ready to run beside any API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from common.kube.client import KubeClient
from common.kube.events import EventRecorder
from common.runtime.clock import Clock
from sandbox.controllers import scheduler
from sandbox.controllers.scheduler import Scheduler
from sandbox.controllers.service import USER_AGENT, Controllers

CONTROLLERS = (
    "daemon-set-controller",
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "replicaset-controller",
    "replication-controller",
    "resourcequota-controller",
    "statefulset-controller",
)
"""The service accounts of kube-system that controllers write as, each with one writer."""


class MakeClient(Protocol):
    """Makes a client for a user; it is entered and left here."""

    def __call__(self, user_agent: str, *, user: str = "") -> KubeClient: ...


class ControlPlane:
    """What places pods and keeps workloads; ``run`` is endless."""

    def __init__(
        self, controllers: Controllers, scheduler: Scheduler, recorder: EventRecorder
    ) -> None:
        self._controllers = controllers
        self._scheduler = scheduler
        self._recorder = recorder

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once, so that work has begun."""
        return self._controllers.synced and self._scheduler.synced

    async def run(self) -> None:
        """Run controllers and scheduler until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controllers.run())
            group.create_task(self._scheduler.run())
            group.create_task(self._recorder.run())


@contextlib.asynccontextmanager
async def control_plane(make_client: MakeClient, clock: Clock) -> AsyncIterator[ControlPlane]:
    """The control plane, whose clients are open while the context is entered."""
    async with contextlib.AsyncExitStack() as stack:
        reader = await stack.enter_async_context(
            make_client(USER_AGENT, user="system:kube-controller-manager")
        )
        clients = {
            account: await stack.enter_async_context(
                make_client(USER_AGENT, user=f"system:serviceaccount:kube-system:{account}")
            )
            for account in CONTROLLERS
        }
        placing = await stack.enter_async_context(
            make_client("kube-scheduler", user="system:kube-scheduler")
        )
        recorder = EventRecorder(placing, scheduler.NAME, clock=clock)
        yield ControlPlane(
            Controllers(reader, clients.__getitem__, clock),
            Scheduler(placing, clock, recorder),
            recorder,
        )
