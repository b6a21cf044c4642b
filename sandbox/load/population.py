"""The objects of the load mode in their present state, as bytes."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from sandbox.load.amounts import STALE, Sized, recommendation, target, usage, with_limits
from sandbox.load.documents import DOCUMENTS
from sandbox.load.layout import CONTAINERS, PODS_ON_A_NODE, Layout, uid

FIRST_VERSION = 1000  # of unchanged objects

_AGE = timedelta(days=1)  # of pods: older than any threshold by default
_HISTORY = timedelta(days=8)
_OBSERVED = msgspec.json.encode(
    {
        "vpaObservedContainers": ", ".join(CONTAINERS),
        "vpaUpdates": "Pod resources updated by load: "
        + "; ".join(
            f"container {at}: cpu request, memory request, cpu limit, memory limit"
            for at, _ in enumerate(CONTAINERS)
        ),
    }
)


def _weights(buckets: range) -> bytes:
    """Return the weights of a checkpoint's histogram, highest in the middle of the buckets."""
    middle, reach = (buckets.start + buckets.stop) // 2, len(buckets) // 2
    return msgspec.json.encode(
        {str(one): max(1, 10_000 - 9_990 * abs(one - middle) // reach) for one in buckets}
    )


_CPU_WEIGHTS, _MEMORY_WEIGHTS = _weights(range(20, 80)), _weights(range(60))
_POD, _DEPLOYMENT, _GROUP, _VPA, _CHECKPOINT, _NODE = range(6)


class PodState(NamedTuple):
    """The identity and the state of one pod."""

    slot: int
    incarnation: int  # the number of previous pods of the slot
    version: int
    generation: int
    sized: Sized
    annotations: bytes  # JSON
    started: bytes
    resized: bytes  # the time of a resize; empty without one


class VpaState(NamedTuple):
    """A VPA and its status."""

    vpa: int
    version: int
    status: bytes  # JSON


class Population:
    """All objects, rendered on request. Only changed ones take memory."""

    def __init__(
        self, layout: Layout, *, update_mode: str, right_sized: bool, now: datetime
    ) -> None:
        self.layout = layout
        self._mode = update_mode.encode()
        self._right_sized = right_sized
        self._started = stamp(now - _AGE)
        self._first = stamp(now - _HISTORY)
        self._long_ago = stamp(now - _HISTORY - _AGE)
        self._scheduler = DOCUMENTS["scheduler"].fill({"started": self._started})
        self._pods: dict[int, PodState] = {}
        self._vpas: dict[int, VpaState] = {}
        self._targets: dict[int, Sized] = {}
        self._metrics_at = stamp(now)
        self._generation = 0  # of the metrics
        self._last_group = -1
        self._last_values: Mapping[str, bytes] = {}

    # Pods

    def pod(self, slot: int) -> PodState:
        """Return the pod of a slot."""
        found = self._pods.get(slot)
        if found is not None:
            return found
        sized = self.target(slot // self.layout.pods_per_vpa) if self._right_sized else STALE
        return PodState(slot, 0, FIRST_VERSION, 1, sized, _OBSERVED, self._started, b"")

    def named_pod(self, namespace: str, name: str) -> PodState | None:
        """Return the pod of that name, None if it is gone."""
        found = self.layout.pod(name)
        if found is None:
            return None
        slot, incarnation = found
        state = self.pod(slot)
        vpa = slot // self.layout.pods_per_vpa
        here = state.incarnation == incarnation and self.layout.namespace(vpa) == namespace
        return state if here else None

    def put_pod(self, state: PodState) -> None:
        self._pods[state.slot] = state

    def successor(self, state: PodState, *, version: int, now: datetime) -> PodState:
        """Return the next pod of the slot, with the present recommendation."""
        return PodState(
            slot=state.slot,
            incarnation=state.incarnation + 1,
            version=version,
            generation=1,
            sized=self.target(state.slot // self.layout.pods_per_vpa),
            annotations=_OBSERVED,
            started=stamp(now),
            resized=b"",
        )

    def target(self, vpa: int) -> Sized:
        """Return the resources of a VPA's new pods."""
        known = self._targets.get(vpa)
        if known is None:
            known = self._targets[vpa] = with_limits(target(vpa))
        return known

    def render_pod(self, state: PodState) -> bytes:
        layout, slot = self.layout, state.slot
        values = dict(self._of_group(slot // layout.group_size))
        name = layout.pod_name(slot, state.incarnation)
        values["allocated0"], values["allocated1"] = state.sized.allocated
        values["annotations"] = state.annotations
        values["generation"] = b"%d" % state.generation
        values["host_ip"] = b"10.0.%d.%d" % divmod(slot // PODS_ON_A_NODE % 65536, 256)
        values["ip"] = b"10.%d.%d.%d" % (64 + slot // 65536, slot // 256 % 256, slot % 256)
        values["name"] = name.encode()
        values["node"] = b"node-%05d" % (slot // PODS_ON_A_NODE)
        values["resizer"] = self._scheduler
        values["resources0"], values["resources1"] = state.sized.spec
        values["started"] = state.started
        values["uid"] = _uid(_POD, slot, state.incarnation)
        values["version"] = b"%d" % state.version
        if state.resized:
            values["resizer"] += b"," + DOCUMENTS["resizer"].fill({"started": state.resized})
        return DOCUMENTS["pod"].fill(values)

    def _of_group(self, group: int) -> Mapping[str, bytes]:
        """Return the values that the pods of a group share. Pods are rendered group by group."""
        if group != self._last_group:
            vpa = group // self.layout.groups_per_vpa
            self._last_group = group
            self._last_values = {
                "app": self.layout.app(vpa).encode(),
                "group": self.layout.group_name(group).encode(),
                "group_uid": _uid(_GROUP, group),
                "hash": self.layout.pod_hash(group).encode(),
                "namespace": self.layout.namespace(vpa).encode(),
            }
        return self._last_values

    # VPAs

    def vpa(self, vpa: int) -> VpaState:
        """Return the present state of a VPA."""
        found = self._vpas.get(vpa)
        return found or VpaState(vpa, FIRST_VERSION, self._first_status(vpa))

    def put_vpa(self, state: VpaState, targets: Sized | None) -> None:
        """Store a VPA; ``targets`` are the recommendations of its new status, if it has any."""
        self._vpas[state.vpa] = state
        if targets is not None:
            self._targets[state.vpa] = targets

    def render_vpa(self, state: VpaState) -> bytes:
        return DOCUMENTS["vpa"].fill(
            {
                **self._of_app(_VPA, state.vpa, version=state.version),
                "mode": self._mode,
                "status": state.status,
            }
        )

    def _first_status(self, vpa: int) -> bytes:
        provided = {"type": "RecommendationProvided", "status": "True"}
        return msgspec.json.encode(
            {
                "conditions": [{**provided, "lastTransitionTime": self._started.decode()}],
                "observedGeneration": 1,
                "recommendation": {"containerRecommendations": recommendation(target(vpa))},
            }
        )

    # Unchanging objects

    def deployment(self, vpa: int) -> bytes:
        replicas = b"%d" % self.layout.pods_per_vpa
        values = {**self._of_app(_DEPLOYMENT, vpa), "replicas": replicas}
        return DOCUMENTS["deployment"].fill(values)

    def replica_set(self, group: int) -> bytes:
        vpa = group // self.layout.groups_per_vpa
        return DOCUMENTS["replicaset"].fill(
            {
                **self._of_app(_GROUP, vpa),
                "group": self.layout.group_name(group).encode(),
                "hash": self.layout.pod_hash(group).encode(),
                "owner_uid": _uid(_DEPLOYMENT, vpa),
                "replicas": b"%d" % self.layout.group_size,
                "uid": _uid(_GROUP, group),
            }
        )

    def checkpoint(self, number: int) -> bytes:
        """Return a checkpoint. A VPA has one for each container, in order."""
        vpa, container = divmod(number, len(CONTAINERS))
        return DOCUMENTS["checkpoint"].fill(
            {
                **self._of_app(_CHECKPOINT, vpa),
                "container": CONTAINERS[container].encode(),
                "cpu_weights": _CPU_WEIGHTS,
                "first": self._first,
                "memory_weights": _MEMORY_WEIGHTS,
                "reference": self._started,
                "uid": _uid(_CHECKPOINT, number),
            }
        )

    def node(self, number: int) -> bytes:
        node = b"node-%05d" % number
        return DOCUMENTS["node"].fill({**self._fixed(), "node": node, "uid": _uid(_NODE, number)})

    def _of_app(self, kind: int, vpa: int, *, version: int = FIRST_VERSION) -> dict[str, bytes]:
        return {
            "app": self.layout.app(vpa).encode(),
            "namespace": self.layout.namespace(vpa).encode(),
            "started": self._long_ago,
            "uid": _uid(kind, vpa),
            "version": b"%d" % version,
        }

    def _fixed(self) -> dict[str, bytes]:
        return {"started": self._long_ago, "version": b"%d" % FIRST_VERSION}

    # Usage

    def next_metrics(self, now: datetime) -> None:
        """Change all usage, and increase that of two percent of the VPAs."""
        self._generation += 1
        self._metrics_at = stamp(now)

    def pod_metrics(self, slot: int) -> bytes:
        layout, state = self.layout, self.pod(slot)
        used = usage(slot // layout.pods_per_vpa, slot, self._generation)
        values = dict(self._of_group(slot // layout.group_size))
        for number, (cpu, memory) in enumerate(used):
            values[f"cpu{number}"], values[f"memory{number}"] = b"%d" % cpu, b"%d" % memory
        values["name"] = layout.pod_name(slot, state.incarnation).encode()
        values["now"] = self._metrics_at
        return DOCUMENTS["podmetrics"].fill(values)


Render = Callable[[int], bytes]
"""Returns the encoded object of a number."""


def stamp(moment: datetime) -> bytes:
    """Return a time as API servers write it: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _uid(kind: int, number: int, incarnation: int = 0) -> bytes:
    return uid(kind, number, incarnation).encode()
