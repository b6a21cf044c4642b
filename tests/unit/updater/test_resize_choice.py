"""Withdrawn and partial resizes over several passes: their cost and effect."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import msgspec
import pytest

from builders import recommendation, vpa
from common.api.autoscaling import EvictionRequirement, UpdateMode, UpdatePolicy
from common.api.core import (
    Container,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    PodCondition,
    PodStatus,
    ResourceQuota,
    ResourceQuotaStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec
from common.errors import Cause, ConflictError, ForbiddenError, InvalidError
from common.features import FeatureGates
from common.patches import Operation
from common.resources import parse_quantities
from fixed_clock import FixedClock
from updater.decision import Decision, Reason, evict, leave, resize, wait
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.resize.infeasible_resize import Infeasible, Part
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeCapacity, NodeStatus
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.state import PodMemory, ResizeRefusal, UpdaterState
from updater_harness import NOW, WEB, FakeActuator, RecordingActuator, run

Amounts = Mapping[str, str]

IN_PLACE, OR_RECREATE = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
OLD, TARGET = {"cpu": "100m", "memory": "128Mi"}, {"cpu": "250m", "memory": "256Mi"}
MORE = {"cpu": "500m", "memory": "512Mi"}
MEMORY = {"memory": "128Mi"}
PART = {"cpu": "200m", "memory": "256Mi"}  # the largest step on FULL
FULL, ROOMY = {"cpu": "200m", "memory": "1Gi"}, {"cpu": "4", "memory": "1Gi"}
RULES = Rules(features=FeatureGates(in_place=True), checks_outcomes=False)
CAPACITY = ForbiddenError("no", reason="Forbidden", causes=(Cause(reason="NodeCapacity"),))
DEFERRED = PodCondition(
    type="PodResizePending",
    status="True",
    reason="Deferred",
    last_transition_time=NOW - timedelta(minutes=1),
)


def pod(
    name: str,
    *,
    asks: Amounts,
    has: Amounts,
    condition: PodCondition | None = None,
    generation: int = 1,
) -> LivePod:
    container = Container(name="app", resources=ResourceRequirements(requests=asks))
    status = ContainerStatus(name="app", resources=ResourceRequirements(requests=has))
    return LivePod(
        metadata=LivePodMeta(
            name=name, namespace="default", uid=f"uid-{name}", generation=generation
        ),
        spec=SchedulablePodSpec(containers=(container,), node_name="node"),
        status=PodStatus(
            phase="Running",
            start_time=NOW,
            qos_class="Burstable",
            conditions=None if condition is None else (condition,),
            container_statuses=(status,),
        ),
    )


def cluster(
    mode: UpdateMode, *pods: LivePod, node: Amounts | None = None, evicts: bool = True
) -> ClusterSnapshot:
    """Return a snapshot; ``evicts``: the VPA's evictionRequirements hold."""
    exactly = recommendation(target=TARGET, lower=TARGET, upper=TARGET)
    autoscaler = vpa(mode=mode.value, recommendations=(exactly,))
    if not evicts:
        lower = EvictionRequirement(
            resources=("cpu", "memory"), change_requirement="TargetLowerThanRequests"
        )
        policy = UpdatePolicy(update_mode=mode.value, eviction_requirements=(lower,))
        spec = msgspec.structs.replace(autoscaler.spec, update_policy=policy)
        autoscaler = msgspec.structs.replace(autoscaler, spec=spec)
    scaled = AutoscaledPods(
        vpa=autoscaler,
        mode=mode,
        pods=pods,
        controllers={each.metadata.uid: WEB for each in pods},
        replicas={WEB: len(pods)},
        limit_ranges=(),
    )
    nodes = {}
    if node is not None:
        status = NodeStatus(allocatable=node)
        nodes["node"] = LiveNode(metadata=ObjectMeta(name="node"), status=status)
    living = frozenset(each.metadata.uid for each in pods)
    return ClusterSnapshot(autoscaled=(scaled,), living=living, nodes=nodes)


def decision_of(after: UpdaterState, name: str = "web-0") -> Decision | None:
    return after.of(f"uid-{name}").decision


GOOD = [pod(f"web-{number}", asks=TARGET, has=TARGET) for number in (1, 2)]


# X100


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
async def test_withdrawals_take_no_budget(mode: UpdateMode) -> None:
    """One of three pods may be unavailable; after two withdrawals the third pod is resized."""
    settled = [
        pod(f"web-{number}", asks=MORE, has=TARGET, condition=DEFERRED) for number in range(2)
    ]
    actuator = FakeActuator()
    await run(cluster(mode, *settled, pod("web-2", asks=OLD, has=OLD)), actuator, rules=RULES)
    assert sorted(actuator.resized) == ["web-0", "web-1", "web-2"]


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
@pytest.mark.parametrize("error", [InvalidError("no"), CAPACITY, ConflictError("stale")])
async def test_a_refused_withdrawal_leads_to_no_eviction_and_few_retries(
    error: InvalidError | ForbiddenError | ConflictError, mode: UpdateMode
) -> None:
    given = cluster(mode, pod("web-0", asks=MORE, has=TARGET, condition=DEFERRED), *GOOD)
    actuator, state = FakeActuator(resize_errors={"web-0": error}), UpdaterState()
    for number in range(12):
        state = await run(given, actuator, state=state, rules=RULES, clock=clock_after(number))
    assert actuator.evicted == []
    assert len(actuator.resized) <= 12 if isinstance(error, ConflictError) else 4


def clock_after(passes: float) -> FixedClock:
    return FixedClock(NOW + passes * RULES.interval)


REPLACED_RESIZES = {
    "within the time-out": (4, 0.9, wait(Reason.RESIZE_DEFERRED)),
    "after the time-out": (4, 1.1, evict(Reason.RESIZE_DEFERRED_TOO_LONG)),
    "the time-out was over before, within an interval after the replacement": (
        30,
        1,
        wait(Reason.RESIZE_DEFERRED),
    ),
    "the time-out was over before, more than an interval after the replacement": (
        30,
        1.1,
        evict(Reason.RESIZE_DEFERRED_TOO_LONG),
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "want"), REPLACED_RESIZES.values(), ids=REPLACED_RESIZES
)
async def test_a_resize_that_replaces_another_keeps_its_time_out(
    before: float, after: float, want: Decision
) -> None:
    """Minutes before and after the second resize; the time-out is five minutes."""
    deferred = msgspec.structs.replace(
        DEFERRED, last_transition_time=NOW - timedelta(minutes=before)
    )
    first = pod("web-0", asks=MORE, has=OLD, condition=deferred)
    sent = await run(cluster(OR_RECREATE, first, *GOOD), FakeActuator(), rules=RULES)
    assert decision_of(sent) == resize(Reason.OUTSIDE_RANGE)
    second = pod("web-0", asks=TARGET, has=OLD, condition=deferred, generation=2)
    later = await run(
        cluster(OR_RECREATE, second, *GOOD),
        FakeActuator(),
        state=sent,
        rules=RULES,
        clock=clock_after(after),
    )
    assert decision_of(later) == want


@pytest.mark.parametrize("late", [0.0, 0.01], ids=["exact intervals", "slightly longer intervals"])
async def test_a_recommendation_that_falls_in_each_pass_delays_an_eviction_by_an_interval(
    late: float,
) -> None:
    deferred = msgspec.structs.replace(DEFERRED, last_transition_time=NOW)
    state = UpdaterState()
    for number in range(12):
        asks, wanted = ({"cpu": f"{500 - 5 * step}m", **MEMORY} for step in (number, number + 1))
        first = pod("web-0", asks=asks, has=OLD, condition=deferred, generation=number + 1)
        exactly = recommendation(target=wanted, lower=wanted, upper=wanted)
        given = cluster(
            OR_RECREATE, first, *(pod(f"web-{n}", asks=wanted, has=wanted) for n in (1, 2))
        )
        falling = vpa(mode=OR_RECREATE.value, recommendations=(exactly,))
        given = replace(given, autoscaled=(replace(given.autoscaled[0], vpa=falling),))
        actuator, clock = FakeActuator(), clock_after(number * (1 + late))
        state = await run(given, actuator, state=state, rules=RULES, clock=clock)
        memory = state.of("uid-web-0")
        if actuator.evicted:
            break
        if memory.sent is not None:
            sent = replace(memory.sent, generation=number + 2)
            state = replace(state, pods={"uid-web-0": replace(memory, sent=sent)})
    assert 5 < number * (1 + late) <= 7.1, "five minutes, and an interval for the last resize"


# X101


SMALL_CPU = {**TARGET, "cpu": "1m"}
AT_LEAST = LimitRangeSpec(limits=(LimitRangeItem(type="Container", min={"cpu": "100m"}),))
OTHER_SPECS = {
    "the minimum amount": ((), SMALL_CPU),
    "a unit less, with a LimitRange minimum": ((AT_LEAST,), {**TARGET, "cpu": "249m"}),
}


@pytest.mark.parametrize(("limit_ranges", "want"), OTHER_SPECS.values(), ids=OTHER_SPECS)
async def test_an_added_request_is_retried_after_the_node_has_grown(
    limit_ranges: tuple[LimitRangeSpec, ...], want: Amounts
) -> None:
    """A request can't be removed from the spec, so another value is sent before the same one."""
    infeasible = msgspec.structs.replace(DEFERRED, reason="Infeasible")
    memory = PodMemory(
        infeasible=Infeasible(
            targets={"app": parse_quantities(TARGET)},
            reported=True,
            node=NodeCapacity(node="node", allocatable=parse_quantities(FULL)),
        )
    )
    has = {"memory": TARGET["memory"]}
    first = pod("web-0", asks=TARGET, has=has, condition=infeasible)
    given = cluster(IN_PLACE, first, *GOOD, node=ROOMY)
    given = replace(given, autoscaled=(replace(given.autoscaled[0], limit_ranges=limit_ranges),))
    actuator = RecordingActuator()
    sent = await run(given, actuator, state=UpdaterState({"uid-web-0": memory}), rules=RULES)
    assert decision_of(sent) == resize(Reason.OUTSIDE_RANGE)
    (call,) = (each for each in actuator.calls if each[0] == "resize")
    operations = cast("Sequence[Operation]", call[3])
    assert [(each.path, each.value) for each in operations] == [
        ("/spec/containers/0/resources/requests/cpu", want["cpu"])
    ]
    after = pod("web-0", asks=want, has=has, generation=2)
    again = cluster(IN_PLACE, after, *GOOD, node=ROOMY)
    later = await run(again, FakeActuator(), state=sent, rules=RULES)
    assert decision_of(later) == resize(Reason.OUTSIDE_RANGE)


# X102


async def decisions_in_passes(
    given: ClusterSnapshot,
    actuator: FakeActuator,
    *,
    count: int,
    state: UpdaterState | None = None,
) -> list[Decision | None]:
    """Return the decision about the first pod in each pass."""
    found = []
    after = state or UpdaterState()
    for number in range(count):
        after = await run(given, actuator, state=after, rules=RULES, clock=clock_after(number))
        found.append(decision_of(after))
    return found


async def test_in_mode_in_place_the_partial_resize_follows_in_the_next_pass() -> None:
    pods = (pod("web-0", asks=OLD, has=OLD), *GOOD)
    given = cluster(IN_PLACE, *pods, node=FULL)
    refusing = FakeActuator(resize_errors={"web-0": CAPACITY})
    first = await run(given, refusing, rules=RULES)
    assert decision_of(first) == leave(Reason.RESIZE_INFEASIBLE)
    actuator = FakeActuator()
    second = await run(given, actuator, state=first, rules=RULES)
    assert decision_of(second) == resize(Reason.RESIZE_PARTIAL)
    remembered = second.of("uid-web-0").infeasible
    assert remembered is not None
    assert remembered.part is Part.SENT
    assert set(remembered.targets["app"]) == {"cpu"}
    # After the partial resize nothing more is sent until the node grows.
    has = pod("web-0", asks=PART, has=PART, generation=2)
    third = await run(cluster(IN_PLACE, has, *GOOD, node=FULL), actuator, state=second, rules=RULES)
    assert decision_of(third) == leave(Reason.INFEASIBLE_CACHED)
    fourth = await run(
        cluster(IN_PLACE, has, *GOOD, node=ROOMY), actuator, state=third, rules=RULES
    )
    assert decision_of(fourth) == resize(Reason.OUTSIDE_RANGE)


async def test_infeasible_amounts_are_kept_when_more_is_wanted() -> None:
    """250m did not fit. The bound is kept while 500m are wanted, so 300m isn't tried later."""
    failed = Infeasible(
        targets={"app": parse_quantities(TARGET)},
        reported=False,
        node=NodeCapacity(node="node", allocatable=parse_quantities(FULL)),
    )
    given = cluster(IN_PLACE, pod("web-0", asks=OLD, has=OLD), *GOOD, node=FULL)
    exactly = recommendation(target=MORE, lower=MORE, upper=MORE)
    scaled = given.autoscaled[0]
    more = vpa(mode=IN_PLACE.value, recommendations=(exactly,))
    given = replace(given, autoscaled=(replace(scaled, vpa=more),))
    before = UpdaterState({"uid-web-0": PodMemory(infeasible=failed)})
    after = await run(given, FakeActuator(), state=before, rules=RULES)
    assert decision_of(after) == resize(Reason.RESIZE_PARTIAL)
    remembered = after.of("uid-web-0").infeasible
    assert remembered is not None
    assert remembered.targets == {"app": parse_quantities({"cpu": "250m"})}


async def test_a_refused_partial_resize_is_not_sent_again() -> None:
    given = cluster(IN_PLACE, pod("web-0", asks=OLD, has=OLD), *GOOD, node=FULL)
    actuator = FakeActuator(resize_errors={"web-0": CAPACITY})
    found = await decisions_in_passes(given, actuator, count=5)
    infeasible, cached = leave(Reason.RESIZE_INFEASIBLE), leave(Reason.INFEASIBLE_CACHED)
    assert found == [infeasible, infeasible, cached, cached, cached]
    assert actuator.resized == ["web-0"] * 2


async def test_if_evictions_are_not_allowed_the_partial_resize_follows_in_the_same_pass() -> None:
    given = cluster(OR_RECREATE, pod("web-0", asks=OLD, has=OLD), *GOOD, node=FULL, evicts=False)
    actuator = FakeActuator(resize_errors={"web-0": CAPACITY})
    first = await run(given, actuator, rules=RULES)
    assert actuator.resized == ["web-0"] * 2
    assert actuator.evicted == []
    remembered = first.of("uid-web-0").infeasible
    assert remembered is not None
    assert remembered.part is Part.REFUSED
    later = await decisions_in_passes(given, actuator, count=4, state=first)
    assert later == [wait(Reason.REQUIREMENTS_NOT_MET)] * 4
    assert actuator.resized == ["web-0"] * 2, (
        "neither the complete nor the partial resize is sent again"
    )


async def test_after_a_partial_resize_the_pod_is_evicted_once_that_is_allowed() -> None:
    first = pod("web-0", asks=OLD, has=OLD)
    held = cluster(OR_RECREATE, first, *GOOD, node=FULL, evicts=False)
    before = await run(held, FakeActuator(resize_errors={"web-0": CAPACITY}), rules=RULES)
    memory = before.of("uid-web-0")
    assert memory.infeasible is not None
    sent = replace(memory, infeasible=replace(memory.infeasible, part=Part.SENT))
    has = pod("web-0", asks=PART, has=PART, generation=2)
    actuator = FakeActuator()
    after = await run(
        cluster(OR_RECREATE, has, *GOOD, node=FULL),
        actuator,
        state=UpdaterState({"uid-web-0": sent}),
        rules=RULES,
    )
    assert decision_of(after) == evict(Reason.RESIZE_INFEASIBLE)
    assert actuator.resized == []


async def test_a_partial_resize_takes_budget() -> None:
    """One of three pods may be unavailable, so one pod is resized in a pass."""
    pods = tuple(pod(f"web-{number}", asks=OLD, has=OLD) for number in range(3))
    given = cluster(IN_PLACE, *pods, node=FULL)
    before = await run(
        given,
        FakeActuator(resize_errors=dict.fromkeys((each.metadata.name for each in pods), CAPACITY)),
        rules=replace(RULES, disruption=DisruptionPolicy(tolerance_fraction=1.0)),
    )
    actuator = FakeActuator()
    after = await run(given, actuator, state=before, rules=RULES)
    assert actuator.resized == ["web-0"]
    assert decision_of(after, "web-1") == wait(Reason.BUDGET_EXHAUSTED)


async def test_partial_resizes_of_one_pass_share_the_remaining_quota() -> None:
    """Two pods may be unavailable, and the quota has memory for one of them."""
    old = tuple(pod(name, asks=OLD, has=OLD) for name in ("web-0", "web-3"))
    given = cluster(OR_RECREATE, *old, *GOOD, node=FULL, evicts=False)
    quota = ResourceQuota(
        metadata=ObjectMeta(name="team", namespace="default"),
        status=ResourceQuotaStatus(
            hard={"requests.memory": "1152Mi"}, used={"requests.memory": "1Gi"}
        ),
    )
    refusal = ResizeRefusal(
        reason=Reason.RESIZE_INFEASIBLE,
        tries=1,
        until=NOW + timedelta(minutes=1),
        targets={"app": parse_quantities(TARGET)},
        node=NodeCapacity(node="node", allocatable=parse_quantities(FULL)),
    )
    before = {each.metadata.uid: PodMemory(refusal=refusal) for each in old}
    actuator = FakeActuator()
    after = await run(
        replace(given, quotas={"default": (quota,)}),
        actuator,
        state=UpdaterState(before),
        rules=RULES,
    )
    assert actuator.resized == ["web-0"]
    assert decision_of(after) == resize(Reason.RESIZE_PARTIAL)
    assert decision_of(after, "web-3") == wait(Reason.REQUIREMENTS_NOT_MET)
