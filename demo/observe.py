"""Observation of the demo's workloads through the Kubernetes API."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import ContainerStatus, Pod, ResourceRequirements
from common.errors import KubeError
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient
from common.kube.endpoints import POD_METRICS, PODS, VPAS
from common.quantity import parse_milli, parse_value
from demo.audit import Call, PodCalls
from demo.workloads import WORKLOADS, Amounts, PodState, WorkloadState

NAMESPACE = "demo"
_OOM_KILLED = "OOMKilled"
_NODE_CAPACITY_STATUS = 403
_INFEASIBLE = "Infeasible"


@dataclass(slots=True)
class Observer:
    """Watches pods and VPAs, and keeps counts of deleted pods."""

    client: KubeClient
    pod_calls: PodCalls
    pods: Cache[Pod] = field(init=False)
    vpas: Cache[VerticalPodAutoscaler] = field(init=False)
    _restarts: dict[str, dict[str, int]] = field(default_factory=dict)  # workload, UID -> count
    _kills: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    _infeasible: dict[str, set[str]] = field(default_factory=dict)  # workload -> UIDs

    def __post_init__(self) -> None:
        self.pods = Cache(self.client, PODS, namespace=NAMESPACE, on_change=self._count)
        self.vpas = Cache(self.client, VPAS, namespace=NAMESPACE)

    async def states(self) -> dict[str, WorkloadState]:
        """Return the current state of every workload of the demo."""
        calls = await self.pod_calls()
        return {workload.name: self._state(workload.name, calls) for workload in WORKLOADS}

    async def has_usage(self, pods: int) -> bool:
        """Return whether the metrics API reports the usage of at least this many pods."""
        try:
            listing = await self.client.list(POD_METRICS, namespace=NAMESPACE)
        except KubeError:  # it reports nothing during its first window
            return False
        return len(listing.items) >= pods

    def _state(self, workload: str, audit: Iterable[Call]) -> WorkloadState:
        calls = [entry for entry in audit if entry.name.startswith(f"{workload}-")]
        evictions = [entry for entry in calls if entry.subresource == "eviction"]
        resizes = [entry for entry in calls if entry.subresource == "resize"]
        refused = sum(entry.code == _NODE_CAPACITY_STATUS for entry in resizes)
        return WorkloadState(
            pods=tuple(
                _pod_state(pod)
                for pod in self.pods.snapshot.in_namespace(NAMESPACE)
                if _workload(pod) == workload and pod.metadata.deletion_timestamp is None
            ),
            target=self._target(workload),
            evictions=sum(entry.code < 300 for entry in evictions),
            resizes=sum(entry.code < 300 for entry in resizes),
            refused=refused + len(self._infeasible.get(workload, ())),
            oom_kills=len(self._kills.get(workload, ())),
            restarts=sum(self._restarts.get(workload, {}).values()),
        )

    def _target(self, workload: str) -> Amounts:
        vpa = self.vpas.snapshot.get(NAMESPACE, workload)
        recommendation = vpa.status.recommendation if vpa is not None else None
        for container in (recommendation and recommendation.container_recommendations) or ():
            return _amounts(container.target.get("cpu"), container.target.get("memory"))
        return Amounts()

    def _count(self, change: Change[Pod]) -> None:
        """Count restarts, OOM kills and infeasible resizes while the pod exists."""
        pod = change.new
        if pod is None:
            return
        workload = _workload(pod)
        uid = pod.metadata.uid
        for status in pod.status.container_statuses or ():
            self._restarts.setdefault(workload, {})[uid] = status.restart_count
            for killed_at in _oom_kills(status):
                self._kills.setdefault(workload, set()).add((uid, status.name, killed_at))
        if any(condition.reason == _INFEASIBLE for condition in pod.status.conditions or ()):
            self._infeasible.setdefault(workload, set()).add(uid)


def _workload(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("app", "")


def _oom_kills(status: ContainerStatus) -> list[str]:
    ended = [
        state.terminated
        for state in (status.state, status.last_state)
        if state is not None and state.terminated is not None
    ]
    return [str(end.finished_at) for end in ended if end.reason == _OOM_KILLED]


def _pod_state(pod: Pod) -> PodState:
    statuses = pod.status.container_statuses or ()
    return PodState(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        request=_requests(pod.spec.containers[0].resources),
        actual=_requests(statuses[0].resources if statuses else None),
        ready=any(
            condition.type == "Ready" and condition.status == "True"
            for condition in pod.status.conditions or ()
        ),
        restarts=sum(status.restart_count for status in statuses),
    )


def _requests(resources: ResourceRequirements | None) -> Amounts:
    requests = (resources and resources.requests) or {}
    return _amounts(requests.get("cpu"), requests.get("memory"))


def _amounts(cpu: QuantityJson, memory: QuantityJson) -> Amounts:
    return Amounts(
        cpu=None if cpu is None else parse_milli(cpu),
        memory=None if memory is None else parse_value(memory),
    )
