"""One kubelet: its node, the pods on it, and the queue of resizes that wait for room.

Without I/O. ``touched`` collects the pods that the shell has to process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from common.quantity import Quantity
from sandbox.kubelet import resizing
from sandbox.kubelet.allocation import (
    Answer,
    Room,
    Waiting,
    admit,
    admit_resize,
    retry_order,
)
from sandbox.kubelet.pod_lifecycle import Phase, PodRun, Simulation
from sandbox.kubelet.pod_resources import (
    NOTHING,
    Totals,
    total_requests,
)
from sandbox.kubelet.wire import RunnablePod
from sandbox.times import rfc3339

_DECLARED_FEATURES = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """The description of a node; CPU in millicores, memory in bytes."""

    name: str
    capacity: Totals
    reserved: Totals = NOTHING  # capacity that is not allocatable
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "10.0.0.1"

    @property
    def all_labels(self) -> Mapping[str, str]:
        """The described labels, and those of every kubelet."""
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }

    @property
    def allocatable(self) -> Totals:
        return Totals(
            max(0, self.capacity.cpu - self.reserved.cpu),
            max(0, self.capacity.memory - self.reserved.memory),
        )


class Node:
    """A simulated kubelet."""

    def __init__(self, shape: NodeShape, simulation: Simulation) -> None:
        self.shape = shape
        self.simulation = simulation
        self.pods: dict[str, PodRun] = {}  # by UID
        self.touched: set[str] = set()  # UIDs whose state may have changed
        self.frozen = False  # a stopped kubelet: nothing changes, nothing is reported
        self._queue: list[PodRun] = []

    @property
    def name(self) -> str:
        return self.shape.name

    def room(self, without: PodRun) -> Room:
        """Return the node's room for ``without``, with all other pods at their allocated values."""
        used, count = NOTHING, 0
        for pod in self.pods.values():
            if pod is not without and pod.occupies and pod.allocated:
                used += pod.occupied
                count += 1
        return Room(
            allocatable=self.shape.allocatable,
            capacity=self.shape.capacity,
            used=used,
            pods=self.shape.pods,
            used_pods=count,
        )

    # Changes from the API server

    def observe(self, pod: RunnablePod, now: datetime, *, new_ip: str) -> None:
        """Process a new or changed pod of this node; ``new_ip`` is for a new one."""
        known = self.pods.get(pod.metadata.uid)
        if known is None:
            self._take(pod, now, new_ip)
            return
        generation, faults = known.generation, known.faults
        known.observe(pod)
        if known.deleting or self.frozen:
            self.touched.add(known.uid)
            return
        if (known.generation, known.faults) != (generation, faults):
            self._respond(known, now)

    def _take(self, pod: RunnablePod, now: datetime, new_ip: str) -> None:
        run = PodRun(object=pod, simulation=self.simulation)
        run.observe(pod)
        self.pods[run.uid] = run
        self.touched.add(run.uid)
        if run.deleting:
            self._respond(run, now)
            return
        refusal = admit(total_requests(pod.spec), self.room(run))
        run.admit(now, refusal, ip=self.shape.address if pod.spec.host_network else new_ip)

    def _respond(self, pod: PodRun, now: datetime) -> None:
        """Process a spec that may request or withdraw a resize."""
        self.touched.add(pod.uid)
        if resizing.is_wanted(pod):
            if pod not in self._queue:
                self._queue.append(pod)
            self.retry(now)
        elif pod.pending is not None:
            pod.pending = None
            self._leave_queue(pod)

    def forget(self, uid: str, now: datetime) -> None:
        """Remove a pod that is gone from the API server."""
        pod = self.pods.pop(uid, None)
        self.touched.discard(uid)
        if pod is not None:
            pod.ended = True
            self._leave_queue(pod)
            self.retry(now)

    def freeze(self) -> None:
        """Stop the kubelet. Its pods are assumed to run on."""
        self.frozen = True

    def thaw(self, now: datetime) -> None:
        """Start the kubelet again, and process all pods."""
        self.frozen = False
        for pod in list(self.pods.values()):
            self._respond(pod, now)

    # Timers

    def advance(self, uid: str, now: datetime) -> None:
        """Do what is due for one pod."""
        pod = self.pods.get(uid)
        if pod is None or self.frozen:
            return
        pod.advance(now)
        resizing.actuate(pod, now)
        if pod.released:
            pod.released = False
            self.retry(now)

    def enforce_memory_limits(self, now: datetime) -> None:
        """Kill the containers that exceed their memory limit."""
        if self.frozen:
            return
        for pod in self.pods.values():
            if pod.enforce_memory_limits(now, node_memory=self.shape.capacity.memory):
                self.touched.add(pod.uid)

    def retry(self, now: datetime) -> None:
        """Retry every pending resize, in order. A blocked one doesn't block the rest."""
        if self.frozen or not self._queue:
            return
        waiting = [pod for pod in self._queue if resizing.is_wanted(pod)]
        waiting.sort(key=lambda pod: retry_order(_waiting(pod), now))
        self._queue = [
            pod
            for pod in waiting
            if resizing.is_wanted(pod) and self._try(pod, now) is Answer.DEFERRED
        ]

    def _try(self, pod: PodRun, now: datetime) -> Answer:
        reason = ""
        forced = resizing.forced_answer(pod)
        if forced is None:
            answer = admit_resize(
                total_requests(pod.object.spec), self.room(pod), minor=self.simulation.minor
            )
        else:
            answer, reason = forced
        resizing.answered(pod, answer, now, reason=reason)
        self.touched.add(pod.uid)
        return answer.answer

    def _leave_queue(self, pod: PodRun) -> None:
        if pod in self._queue:
            self._queue.remove(pod)

    # State

    @property
    def waiting(self) -> tuple[str, ...]:
        """The names of the pods with a waiting resize, in order of arrival."""
        return tuple(pod.object.metadata.name for pod in self._queue)

    @property
    def running(self) -> list[PodRun]:
        return [
            pod for pod in self.pods.values() if pod.phase is Phase.RUNNING and not pod.deleting
        ]


def _waiting(pod: PodRun) -> Waiting:
    return Waiting(
        wanted=total_requests(pod.object.spec),
        allocated=pod.occupied,
        priority=pod.object.spec.priority or 0,
        guaranteed=pod.qos == "Guaranteed",
        since=pod.pending.since if pod.pending is not None else None,
    )


def node_object(shape: NodeShape) -> dict[str, Any]:
    """Return the Node that a kubelet registers."""
    return {"metadata": {"name": shape.name, "labels": dict(shape.all_labels)}}


def node_status(
    shape: NodeShape, *, minor: int, ready: bool, since: datetime, now: datetime, port: int
) -> dict[str, Any]:
    """Return ``status`` of the Node; ``since`` is the last change of the conditions.

    ``port`` is the port of the kubelet's own endpoint.
    """
    conditions = [
        ("MemoryPressure", False, "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
        ("DiskPressure", False, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", False, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        (
            "Ready",
            ready,
            "KubeletReady" if ready else "KubeletNotReady",
            "kubelet is posting ready status" if ready else "a fault makes the kubelet not ready",
        ),
    ]
    status: dict[str, Any] = {
        "capacity": _amounts(shape.capacity, shape.pods),
        "allocatable": _amounts(shape.allocatable, shape.pods),
        "conditions": [
            {
                "type": name,
                "status": "True" if holds else "False",
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": rfc3339(now),
                "lastTransitionTime": rfc3339(since),
            }
            for name, holds, reason, message in conditions
        ],
        "addresses": [
            {"type": "InternalIP", "address": shape.address},
            {"type": "Hostname", "address": shape.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "machineID": shape.name,
            "systemUUID": shape.name,
            "bootID": shape.name,
            "kernelVersion": "0.0.0-sandbox",
            "osImage": "Sandbox",
            "containerRuntimeVersion": "sandbox://0.0.0",
            "kubeletVersion": f"v1.{minor}.0",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }
    if minor >= 36:
        status["declaredFeatures"] = list(_DECLARED_FEATURES)
    return status


def _amounts(totals: Totals, pods: int) -> dict[str, str]:
    return {
        "cpu": str(Quantity.from_milli(totals.cpu)),
        "memory": f"{totals.memory // 1024}Ki",
        "ephemeral-storage": "200Gi",
        "pods": str(pods),
    }
