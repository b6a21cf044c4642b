"""The room for replacements in the plan of one VPA, and the demands for more."""

from dataclasses import replace

from common.api.core import PodSpec
from common.quantity import QuantityError
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand, CapacityMode
from updater.capacity.reservations import FoundRoom
from updater.capacity.room_check import Shortage, dies_anyway, find_room, wait_for_room
from updater.decision import Decision, Reason, leave, wait
from updater.eviction.breaker import Breaker, breaker_wait, record_eviction
from updater.eviction.replica_groups import Budgets
from updater.plan.assessment import Undecided
from updater.plan.vpa_plan import VpaPlan
from updater.snapshot.live_pod import LivePod
from updater.snapshot.node_rooms import NodeRooms

_UNLISTED = "the updater has not listed the nodes yet"


class ReplacementRoom:
    """Finds room for the replacements of one VPA's pods, in the order of its plan.

    ``demands`` are the replacements without room that would be made now if there was room: as many
    as the budgets and the breaker allow beside the evictions of the plan.
    """

    def __init__(self, vpa_plan: VpaPlan) -> None:
        self._plan = vpa_plan
        self._rooms: NodeRooms | None = None
        self._budgets: Budgets | None = None  # less those of demands; None: no demand yet
        self._breaker: Breaker | None = None
        self.demands: dict[Controller, CapacityDemand] = {}

    @property
    def is_checked(self) -> bool:
        """Return whether an eviction needs room; not in a cluster without nodes."""
        context = self._plan.context
        known = context.rooms.are_known or context.awaits_nodes
        return context.capacity_mode is not CapacityMode.OFF and known

    def hold(self, each: Undecided, rooms: NodeRooms) -> Decision | None:
        """Return the wait of a pod whose replacement has no room; None: evict it.

        A pod that was just OOM-killed doesn't wait.
        """
        pod, context = each.pod, self._plan.context
        if context.awaits_nodes:
            return None if self._dies_anyway(each) else wait(Reason.NO_CAPACITY, detail=_UNLISTED)
        self._rooms = rooms
        try:
            need = self._plan.preflight.need_of_replacement(pod)
            found = find_room(rooms, pod, need)
        except QuantityError:
            return leave(Reason.UNREADABLE)
        if not isinstance(found, Shortage):
            return None
        if self._dies_anyway(each):
            return None
        # Another node would not help the pod of a DaemonSet.
        workload = None if found.own_node_only else self._plan.scaled.workload_of(pod)
        if self._is_off_for(workload):
            return None
        if context.capacity_mode is CapacityMode.PROVISION and workload is not None:
            self._demand(workload, pod, self._plan.preflight.replacement(pod), need)
        return wait_for_room(
            found,
            workload,
            mode=context.capacity_mode,
            requests=context.capacity_requests,
            timeout=context.rules.capacity_timeout,
            now=context.now,
        )

    def _is_off_for(self, workload: Controller | None) -> bool:
        """Return whether an autoscaler can act only on Pending pods of this workload."""
        context = self._plan.context
        if workload is None or context.capacity_fallback is not CapacityMode.OFF:
            return False
        return context.capacity_requests.are_unavailable_for(workload)

    def _dies_anyway(self, each: Undecided) -> bool:
        candidate = each.candidate
        return candidate is not None and dies_anyway(
            each.pod,
            candidate.processed.containers,
            requests=candidate.requests,
            now=self._plan.context.now,
        )

    def take(self, pod: LivePod) -> FoundRoom | None:
        """Use room for the replacement of a pod whose eviction is planned, if there is any."""
        self._count(pod)
        if self._rooms is None:
            return None
        try:
            need = self._plan.preflight.need_of_replacement(pod)
            node = self._rooms.find(pod, need)
            if node is None:
                return None
            self._rooms.take(node, pod, need)
        except QuantityError:
            return None
        return FoundRoom(node, need)

    def _demand(self, workload: Controller, pod: LivePod, spec: PodSpec, need: Room) -> None:
        if self._budgets is None:
            self._budgets = Budgets(self._plan.scaled, self._plan.budgets.groups)
            self._breaker = self._plan.present_breaker()
        known, now = self.demands.get(workload), self._plan.context.now
        if known is not None and known.need != need:
            return
        if pod.status.phase != "Pending" and not self._budgets.allows(pod):
            return
        if self._breaker is not None and breaker_wait(self._breaker, now=now) is not None:
            return
        vpa = self._plan.scaled.vpa.metadata
        self.demands[workload] = (
            CapacityDemand(
                workload=workload,
                vpa=vpa.uid,
                vpa_name=vpa.name,
                spec=spec,
                rules=pod.rules,
                need=need,
                count=1,
                pod=pod.metadata.name,
            )
            if known is None
            else replace(known, count=known.count + 1)
        )
        self._count(pod)

    def _count(self, pod: LivePod) -> None:
        """Count an eviction, or one that would be planned, in the budgets of demands."""
        if self._budgets is not None:
            self._budgets.spend(pod)
        if self._breaker is not None:
            now = self._plan.context.now
            self._breaker = record_eviction(self._breaker, pod, self._plan.scaled, now=now)
