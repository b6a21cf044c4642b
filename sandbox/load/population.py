"""The objects of the load mode: what each of them is at this moment, as bytes."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from sandbox.load import documents
from sandbox.load.amounts import STALE, Sized, recommendation, target, usage, with_limits
from sandbox.load.layout import CONTAINERS, PODS_ON_A_NODE, Layout, uid
from sandbox.load.pod_document import POD, RESIZER, SCHEDULER

FIRST_VERSION = 1000  # of everything that never changed

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
_POD, _DEPLOYMENT, _GROUP, _VPA, _CHECKPOINT, _NODE = range(6)


class PodState(NamedTuple):
    """The identity and the state of one pod."""

    slot: int
    incarnation: int  # how many held the place before it
    version: int
    generation: int
    sized: Sized
    annotations: bytes  # JSON
    started: bytes
    resized: bytes  # when our updater resized it; empty: never


class VpaState(NamedTuple):
    """A VPA and its status."""

    vpa: int
    version: int
    status: bytes  # JSON


class Population:
    """Everything there is, rendered when it is asked for; only what changed takes memory."""

    def __init__(
        self, layout: Layout, *, update_mode: str, right_sized: bool, now: datetime
    ) -> None:
        self.layout = layout
        self._mode = update_mode.encode()
        self._right_sized = right_sized
        self._started = stamp(now - _AGE)
        self._first = stamp(now - _HISTORY)
        self._long_ago = stamp(now - _HISTORY - _AGE)
        self._scheduler = SCHEDULER.fill({"started": self._started})
        self._pods: dict[int, PodState] = {}
        self._vpas: dict[int, VpaState] = {}
        self._targets: dict[int, Sized] = {}
        self._metrics_at = stamp(now)
        self._generation = 0  # of the metrics
        self._last_group = -1
        self._last_values: Mapping[str, bytes] = {}

    # Pods

    def pod(self, slot: int) -> PodState:
        """The pod that holds a place."""
        found = self._pods.get(slot)
        if found is not None:
            return found
        sized = self.target(slot // self.layout.pods_per_vpa) if self._right_sized else STALE
        return PodState(slot, 0, FIRST_VERSION, 1, sized, _OBSERVED, self._started, b"")

    def named_pod(self, namespace: str, name: str) -> PodState | None:
        """The pod of that name, unless it is gone."""
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
        """The pod that takes over the place, with what is recommended by now."""
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
        """The resources that a new pod of a VPA gets."""
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
            values["resizer"] += b"," + RESIZER.fill({"started": state.resized})
        return POD.fill(values)

    def _of_group(self, group: int) -> Mapping[str, bytes]:
        """What the pods of a group have in common; they come one after the other."""
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
        """A VPA as it is now."""
        found = self._vpas.get(vpa)
        return found or VpaState(vpa, FIRST_VERSION, self._first_status(vpa))

    def put_vpa(self, state: VpaState, targets: Sized | None) -> None:
        """Take a VPA over; ``targets`` are what its new status recommends, if it does."""
        self._vpas[state.vpa] = state
        if targets is not None:
            self._targets[state.vpa] = targets

    def render_vpa(self, state: VpaState) -> bytes:
        return documents.VPA.fill(
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

    # What never changes

    def deployment(self, vpa: int) -> bytes:
        values = self._of_app(_DEPLOYMENT, vpa)
        return documents.DEPLOYMENT.fill({**values, "replicas": b"%d" % self.layout.pods_per_vpa})

    def replica_set(self, group: int) -> bytes:
        vpa = group // self.layout.groups_per_vpa
        return documents.REPLICA_SET.fill(
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
        """The checkpoints of a VPA follow each other, one for each container."""
        vpa, container = divmod(number, len(CONTAINERS))
        return documents.CHECKPOINT.fill(
            {
                **self._of_app(_CHECKPOINT, vpa),
                "container": CONTAINERS[container].encode(),
                "first": self._first,
                "reference": self._started,
                "uid": _uid(_CHECKPOINT, number),
            }
        )

    def node(self, number: int) -> bytes:
        node = b"node-%05d" % number
        return documents.NODE.fill({**self._fixed(), "node": node, "uid": _uid(_NODE, number)})

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
        """From here on usage is another one, and two percent of the VPAs have grown."""
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
        return documents.POD_METRICS.fill(values)


Render = Callable[[int], bytes]
"""The bytes of the object of a number."""


def stamp(moment: datetime) -> bytes:
    """A time as API servers write it: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _uid(kind: int, number: int, incarnation: int = 0) -> bytes:
    return uid(kind, number, incarnation).encode()
