"""Controllers and scheduler with their clients, ready to run beside any API server.

Each controller writes as its own service account of kube-system.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from common.kube.client import KubeClient
from common.kube.events import EventRecorder
from common.runtime.clock import Clock
from sandbox.controllers.actor import Actor
from sandbox.controllers.budgets import Budgets
from sandbox.controllers.daemon_sets import DaemonSets
from sandbox.controllers.deployments import Deployments
from sandbox.controllers.jobs import Jobs
from sandbox.controllers.loop import Loop, Reconcile
from sandbox.controllers.replica_sets import ReplicaSets
from sandbox.controllers.resource_quotas import ResourceQuotas
from sandbox.controllers.scheduler import NAME as SCHEDULER
from sandbox.controllers.scheduler import Scheduler
from sandbox.controllers.stateful_sets import StatefulSets
from sandbox.controllers.view import View

Wake = Callable[[str, str], None]

USER_AGENT = "kube-controller-manager"

CONTROLLERS = (
    "daemon-set-controller",
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "statefulset-controller",
)
"""The service accounts of controllers in kube-system."""


class Controllers:
    """Runs every controller; ``run`` is endless.

    ``client_of`` returns the open client of a controller, by the name of its service account in
    kube-system; its user agent is ``USER_AGENT``. All caches read through ``reader``.
    """

    def __init__(
        self, reader: KubeClient, client_of: Callable[[str], KubeClient], clock: Clock
    ) -> None:
        self._view = View(reader)
        self._client_of = client_of
        self._clock = clock
        self._recorders: list[EventRecorder] = []
        self._loops: list[Loop] = []
        for kind, reconcile in (
            ("Deployment", Deployments(self._actor("deployment-controller")).reconcile),
            ("ReplicaSet", ReplicaSets(self._actor("replicaset-controller")).reconcile),
            ("StatefulSet", StatefulSets(self._actor("statefulset-controller")).reconcile),
            ("DaemonSet", DaemonSets(self._actor("daemon-set-controller")).reconcile),
            ("Job", Jobs(self._actor("job-controller")).reconcile),
            ("PodDisruptionBudget", Budgets(self._actor("disruption-controller")).reconcile),
            ("ResourceQuota", ResourceQuotas(self._actor("resourcequota-controller")).reconcile),
        ):
            self._view.on(kind, self._loop(kind, reconcile).add)
        for kind in ("PodDisruptionBudget", "ResourceQuota"):
            self._view.on("Pod", self._waker_of_namespace(kind))
        self._view.on("Node", self._wake_daemon_sets)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._view.run())
            for recorder in self._recorders:
                group.create_task(recorder.run())
            await self._view.wait_synced()
            for loop in self._loops:
                group.create_task(loop.run())

    def _actor(self, account: str) -> Actor:
        client = self._client_of(account)
        recorder = EventRecorder(client, account, clock=self._clock)
        self._recorders.append(recorder)
        return Actor(client, self._view, self._clock, recorder)

    def _loop(self, kind: str, reconcile: Reconcile) -> Loop:
        loop = Loop(kind, reconcile)
        self._loops.append(loop)
        return loop

    def _waker_of_namespace(self, kind: str) -> Wake:
        """Return a function that queues every object of ``kind`` in the namespace of a pod."""
        loop = next(one for one in self._loops if one.name == kind)

        def wake(namespace: str, _: str) -> None:
            for obj in self._view.workloads[kind].in_namespace(namespace):
                loop.add(namespace, obj["metadata"]["name"])

        return wake

    def _wake_daemon_sets(self, _namespace: str, _name: str) -> None:
        loop = next(one for one in self._loops if one.name == "DaemonSet")
        for obj in self._view.workloads["DaemonSet"].snapshot.items():
            loop.add(obj["metadata"]["namespace"], obj["metadata"]["name"])


class MakeClient(Protocol):
    """Creates a client for a user. The caller enters its context."""

    def __call__(self, user_agent: str, *, user: str = "") -> KubeClient: ...


@contextlib.asynccontextmanager
async def control_plane(
    make_client: MakeClient, clock: Clock
) -> AsyncIterator[Sequence[Callable[[], Awaitable[None]]]]:
    """Create controllers and scheduler; yield the endless functions that run them.

    Their clients are open while the context is entered.
    """
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
        recorder = EventRecorder(placing, SCHEDULER, clock=clock)
        yield (
            Controllers(reader, clients.__getitem__, clock).run,
            Scheduler(placing, clock, recorder).run,
            recorder.run,
        )
