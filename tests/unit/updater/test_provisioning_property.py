"""Random passes, refusals and restarts: requests are bounded in number, size and time."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from common.api.core import PodSpec
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand, PassDemands, RequestStage
from updater.capacity.provisioning_plan import (
    CapacityObject,
    ProvisioningPlan,
    RequestKind,
    plan_provisioning,
    settle,
)
from updater.capacity.provisioning_state import ProvisioningLimits, ProvisioningState, paused

START = datetime(2026, 11, 27, 12, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
LIMITS = ProvisioningLimits(most_requests=3, most_replicas=4)
WORKLOADS = [Controller("shop", "Deployment", f"web-{index}", "apps/v1") for index in range(5)]
DEMANDS = st.dictionaries(
    st.sampled_from(WORKLOADS),
    st.tuples(st.sampled_from((1000, 1050, 1500)), st.integers(1, 8)),
)


class Requests(RuleBasedStateMachine):
    """An updater with passes of different lengths, and checks every second between them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.objects: dict[str, CapacityObject] = {}
        self.kind = RequestKind.BUFFER
        self.state = ProvisioningState()
        self.placed: dict[Controller, int] = {}
        self.missing: dict[Controller, int] = {}
        # The first pass without demand, of the present process.
        self.ended: dict[Controller, datetime] = {}
        self.waiting_since: dict[Controller, datetime] = {}
        self.created = 0

    @rule(
        demands=DEMANDS,
        missing=st.dictionaries(st.sampled_from(WORKLOADS), st.integers(1, 3)),
        refused=st.sets(st.sampled_from(WORKLOADS), max_size=2),
        minutes=st.sampled_from((0.1, 1, 3)),
    )
    def run_a_pass(
        self,
        demands: Mapping[Controller, tuple[int, int]],
        missing: dict[Controller, int],
        refused: Collection[Controller],
        minutes: float,
    ) -> None:
        self.missing = missing
        self.advance(minutes * MINUTE)
        wanted = [
            CapacityDemand(
                workload=workload,
                vpa="uid",
                vpa_name="web",
                spec=PodSpec(),
                need=Room(cpu, 1 << 30, 1),
                count=count,
            )
            for workload, (cpu, count) in demands.items()
        ]
        plan = plan_provisioning(
            PassDemands(demands=wanted, refused=refused),
            list(self.objects.values()),
            kind=self.kind,
            missing=missing,
            before=self.state,
            limits=LIMITS,
            now=self.now,
        )
        self.carry_out(plan)
        self.placed = {}
        self.ended = {each: self.ended.get(each, self.now) for each in WORKLOADS}
        for workload in demands.keys() | refused:
            del self.ended[workload]
        for workload in WORKLOADS:
            request = plan.requests.get(workload)
            if request is None or request.stage is not RequestStage.REQUESTED:
                self.waiting_since.pop(workload, None)
            else:
                self.waiting_since.setdefault(workload, self.now)
                assert self.now < request.until <= self.now + LIMITS.timeout
            if request is not None and request.stage is not RequestStage.REQUESTED:
                assert self.now < request.until <= self.now + LIMITS.longest_pause

    @rule(demands=DEMANDS)
    def repeat_a_pass(self, demands: Mapping[Controller, tuple[int, int]]) -> None:
        """Run passes that find the same demands for longer than the time-out."""
        for _ in range(14):
            self.run_a_pass(demands, {}, (), 1)
            self.every_wait_ends()

    @rule()
    def refuse_evictions(self) -> None:
        """Run passes that find room for longer than the time-out, and evict nothing."""
        for _ in range(14):
            self.run_a_pass({}, {}, WORKLOADS, 1)
            self.every_wait_ends()
        assert not self.objects

    @rule(workload=st.sampled_from(WORKLOADS), count=st.integers(1, 3))
    def place_pods(self, workload: Controller, count: int) -> None:
        self.placed[workload] = self.placed.get(workload, 0) + count
        self.advance(SECOND)

    @rule(workload=st.sampled_from(WORKLOADS))
    def refuse(self, workload: Controller) -> None:
        for uid, each in self.objects.items():
            if each.workload == workload:
                self.objects[uid] = replace(each, refusal="no")

    @rule(kind=st.sampled_from(RequestKind))
    def serve(self, kind: RequestKind) -> None:
        self.kind = kind

    @rule()
    def restart(self) -> None:
        """Restart the process, which knows the demands after its first pass."""
        self.state = ProvisioningState()
        self.placed = {}
        self.ended = {}

    def advance(self, by: timedelta) -> None:
        end = self.now + by
        while self.now < end:
            self.now += SECOND
            plan = settle(
                self.objects.values(),
                placed=self.placed,
                missing=self.missing,
                state=self.state,
                limits=LIMITS,
                now=self.now,
            )
            if plan.deletions or plan.resizes:
                self.placed = {}
            self.carry_out(plan)
            self.none_outlives_its_need_by_more_than_a_minute()

    def carry_out(self, plan: ProvisioningPlan) -> None:
        self.state = plan.state
        for each in plan.deletions:
            del self.objects[each.uid]
        for each, count in plan.resizes:
            assert each.kind is RequestKind.BUFFER
            self.objects[each.uid] = replace(each, count=count)
        assert {each.uid for each in plan.kept} == self.objects.keys()
        for creation in plan.creations:
            self.created += 1
            uid = str(self.created)
            if self.created % 5 == 0:  # the API server refuses it
                self.state = paused(
                    self.state,
                    creation.demand.workload,
                    RequestStage.REFUSED,
                    "forbidden",
                    limits=LIMITS,
                    now=self.now,
                )
                continue
            self.objects[uid] = CapacityObject(
                kind=creation.kind,
                namespace="shop",
                name=creation.name,
                uid=uid,
                workload=creation.demand.workload,
                need=creation.demand.need,
                count=creation.count,
                since=creation.since,
            )

    @invariant()
    def bounded_in_number_and_size(self) -> None:
        assert len(self.objects) <= LIMITS.most_requests
        assert all(0 < each.count <= LIMITS.most_replicas for each in self.objects.values())

    @invariant()
    def one_object_for_each_workload(self) -> None:
        assert len({each.workload for each in self.objects.values()}) == len(self.objects)

    @invariant()
    def none_outlives_its_need_by_more_than_a_minute(self) -> None:
        for each in self.objects.values():
            ended = self.ended.get(each.workload)
            assert ended is None or self.now - ended <= MINUTE

    @invariant()
    def every_wait_ends(self) -> None:
        for since in self.waiting_since.values():
            assert self.now - since < LIMITS.timeout + 4 * MINUTE
        for each in self.objects.values():
            assert self.now - each.since < LIMITS.timeout + 4 * MINUTE


Requests.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestRequests = Requests.TestCase
