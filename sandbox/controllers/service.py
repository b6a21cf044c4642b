"""All controllers together, each under the identity of its own service account."""

import asyncio
from collections.abc import Callable

from common.kube.client import KubeClient
from common.kube.endpoints import REPLICA_SETS, REPLICATION_CONTROLLERS
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
from sandbox.controllers.stateful_sets import StatefulSets
from sandbox.controllers.view import View

Wake = Callable[[str, str], None]

USER_AGENT = "kube-controller-manager"


class Controllers:
    """Runs every controller; ``run`` is endless.

    ``client_of`` gives the open client of a controller, by the name of its service account in
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
        daemons = DaemonSets(self._actor("daemon-set-controller"))
        actor = self._actor("replicaset-controller")
        plain = self._actor("replication-controller")
        for kind, reconcile in (
            ("Deployment", Deployments(self._actor("deployment-controller")).reconcile),
            ("ReplicaSet", ReplicaSets(actor, REPLICA_SETS).reconcile),
            ("ReplicationController", ReplicaSets(plain, REPLICATION_CONTROLLERS).reconcile),
            ("StatefulSet", StatefulSets(self._actor("statefulset-controller")).reconcile),
            ("DaemonSet", daemons.reconcile),
            ("Job", Jobs(self._actor("job-controller")).reconcile),
            ("PodDisruptionBudget", Budgets(self._actor("disruption-controller")).reconcile),
            ("ResourceQuota", ResourceQuotas(self._actor("resourcequota-controller")).reconcile),
        ):
            self._view.on(kind, self._loop(kind, reconcile).add)
        for kind in ("PodDisruptionBudget", "ResourceQuota"):
            self._view.on("Pod", self._waker_of_namespace(kind))
        self._view.on("Node", self._wake_daemon_sets)

    @property
    def synced(self) -> bool:
        """Whether all caches have been filled once."""
        return self._view.synced

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
        """Wake every object of ``kind`` in the namespace of a pod that changed."""
        loop = next(one for one in self._loops if one.name == kind)

        def wake(namespace: str, _: str) -> None:
            for obj in self._view.workloads[kind].in_namespace(namespace):
                loop.add(namespace, obj["metadata"]["name"])

        return wake

    def _wake_daemon_sets(self, _namespace: str, _name: str) -> None:
        loop = next(one for one in self._loops if one.name == "DaemonSet")
        for obj in self._view.workloads["DaemonSet"].snapshot.items():
            loop.add(obj["metadata"]["namespace"], obj["metadata"]["name"])
