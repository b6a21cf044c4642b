"""The room for the replacement of a pod, before the pod is evicted (X130)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.api.core import Pod
from common.quantity import Format, Quantity
from common.recommendation.processing import ContainerAmounts
from common.resources import ResourceQuantities
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import (
    CapacityMode,
    CapacityRequest,
    CapacityRequests,
    RequestStage,
)
from updater.decision import Decision, Reason, ending, wait
from updater.evaluate.quick_oom_kills import needs_memory
from updater.evaluate.unlearnt_ooms import newest_kills
from updater.snapshot.live_pod import LivePod
from updater.snapshot.node_rooms import NodeRooms, Place

_MEBIBYTE = 1 << 20
RECENT_KILL = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The numbers of a replacement that has no room."""

    need: Room
    eligible: int  # Ready, schedulable nodes that the pod may run on
    largest: Place | None  # the one that lacks least; None: no node is eligible
    own_node_only: bool = False

    @property
    def sentence(self) -> str:
        """Return the sentence for Events and plans, without a full stop."""
        need = Room(self.need.cpu, _in_mebibytes(self.need.memory + _MEBIBYTE - 1))
        needs = f"the replacement needs {_amounts(need)}"
        if self.largest is None and self.own_node_only:
            return f"{needs}, and its node is not eligible any more"
        if self.largest is None:
            return f"{needs}, and no Ready node is eligible for it"
        node, free = self.largest.node, self.largest.free
        left = Room(max(free.cpu, 0), _in_mebibytes(max(free.memory, 0)))
        has = f"{_amounts(left)} free" if free.pods > 0 else "no place for another pod"
        if self.own_node_only:
            return f"{needs} on node {node} alone, which has {has}"
        nodes = "node" if self.eligible == 1 else "nodes"
        return f"{needs}; of {self.eligible} eligible {nodes}, {node} has most room: {has}"


def find_room(rooms: NodeRooms, pod: LivePod, need: Room) -> str | Shortage:
    """Return the node for the replacement of a pod, or the numbers if there is none.

    Volumes that are bound to a zone and host ports are left to the scheduler.

    Raises:
        QuantityError: a request of the pod is no quantity.
    """
    node = rooms.find(pod, need)
    if node is not None:
        return node
    largest = rooms.largest_room(pod, need)
    own_only = pod.rules.own_node_only
    return Shortage(
        need=need,
        eligible=int(largest is not None) if own_only else len(rooms.eligible(pod.rules)),
        largest=largest,
        own_node_only=own_only,
    )


def wait_for_room(
    shortage: Shortage,
    workload: Controller | None,
    *,
    mode: CapacityMode,
    requests: CapacityRequests,
    timeout: timedelta,
    now: datetime,
) -> Decision:
    """Return the wait of a pod whose replacement has no room.

    In mode provision a request for capacity is made for its workload after the pass, unless there
    is one, or it was postponed before. It ends after ``timeout``, or at a refusal, and is made
    again later.
    """
    if mode is not CapacityMode.PROVISION or workload is None:
        return wait(Reason.NO_CAPACITY, detail=shortage.sentence)
    request, sentence = requests.by_workload.get(workload), shortage.sentence
    if request is None and workload in requests.postponed:
        return wait(Reason.NO_CAPACITY, detail=f"{sentence}; {requests.postponed[workload]}")
    if request is None:
        until = ending(now, timeout)
        return wait(Reason.CAPACITY_REQUESTED, until=until, detail=sentence)
    if request.stage is RequestStage.UNAVAILABLE:
        return wait(Reason.NO_CAPACITY, detail=f"{sentence}; {_state_of(request)}")
    refused = request.stage is not RequestStage.REQUESTED
    reason = Reason.CAPACITY_REFUSED if refused else Reason.CAPACITY_REQUESTED
    return wait(reason, until=request.until, detail=f"{sentence}; {_state_of(request)}")


def dies_anyway(
    pod: Pod,
    containers: Mapping[str, ContainerAmounts],
    *,
    requests: Mapping[str, ResourceQuantities],
    now: datetime,
) -> bool:
    """Return whether a container was OOM-killed within the last hour, and is to get more memory.

    Waiting for room saves nothing then. ``containers`` are the processed amounts, ``requests`` the
    pod's present requests.
    """
    return any(
        kill.finished_at is not None
        and now - kill.finished_at <= RECENT_KILL
        and needs_memory(kill, containers, requests=requests)
        for kill in newest_kills(pod)
    )


def _state_of(request: CapacityRequest) -> str:
    named = f" by {request.name}" if request.name else ""
    match request.stage:
        case RequestStage.REQUESTED:
            return f"it is requested{named}"
        case RequestStage.TIMED_OUT:
            text = f"none came in time after the request{named}"
        case RequestStage.REFUSED:
            text = f"the request{named} was refused"
        case RequestStage.UNAVAILABLE:
            text = "more can't be requested"
    return f"{text}: {request.message}" if request.message else text


def _in_mebibytes(memory: int) -> int:
    return memory // _MEBIBYTE * _MEBIBYTE


def _amounts(room: Room) -> str:
    cpu = Quantity.from_milli(room.cpu)
    memory = Quantity.from_value(room.memory, Format.BINARY_SI)
    return f"cpu {cpu} and memory {memory}"
