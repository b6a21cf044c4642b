"""Decreases of memory limits in place by live usage (X139), and floors after OOM kills (X140)."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.api.core import (
    Container,
    ContainerResizePolicy,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.quantity import Quantity
from common.recommendation.container_resources import WantedResources
from common.resources import memory_quantity, parse_quantities
from updater.decision import Reason
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.resize.limit_decrease import LimitDecrease
from updater.resize.memory_decrease import (
    MemoryDecreaseRules,
    MemoryFloor,
    MemoryUse,
    SentDecrease,
    floors_after,
    limit_decreases,
    memory_step,
    merged_floors,
)
from updater_harness import NOW

MIB, A_BYTE, SECOND = 1 << 20, 1 / (1 << 20), timedelta(seconds=1)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
RULES = MemoryDecreaseRules()


def use(mib: float, *, ago: timedelta = MINUTE, since: timedelta = HOUR) -> MemoryUse:
    return MemoryUse(most=int(mib * MIB), oldest=NOW - since, newest=NOW - ago)


def floor(amount: str, *, ends_in: timedelta = HOUR) -> MemoryFloor:
    return MemoryFloor(amount=Quantity.parse(amount), until=NOW + ends_in)


def sent(ago: timedelta) -> SentDecrease:
    return SentDecrease(at=NOW - ago, limit=Quantity.parse("1Gi"), is_last=False)


LITTLE = use(100)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    limit: tuple[str | None, str] = ("400Mi", "300Mi")  # present and wanted
    request: tuple[str, str] = ("200Mi", "150Mi")
    use: MemoryUse | None = LITTLE
    floor: MemoryFloor | None = None
    last: SentDecrease | None = None
    rules: MemoryDecreaseRules = RULES
    waits: bool = False
    wanted: tuple[str, str] | Reason = ("300Mi", "150Mi")  # limit and request, or why not
    is_last: bool = True


CASES = [
    Case(id="a quarter goes at once"),
    Case(
        id="a MiB more than a quarter goes in a step",
        limit=("400Mi", "299Mi"),
        wanted=("300Mi", "151Mi"),
        is_last=False,
    ),
    Case(
        id="the request goes as much of the way as the limit",
        limit=("800Mi", "400Mi"),
        request=("400Mi", "200Mi"),
        wanted=("600Mi", "300Mi"),
        is_last=False,
    ),
    Case(
        id="limit and request of a Guaranteed pod stay equal",
        limit=("1Gi", "300Mi"),
        request=("1Gi", "300Mi"),
        wanted=("768Mi", "768Mi"),
        is_last=False,
    ),
    Case(
        id="a step has whole MiB, and is a quarter at most",
        limit=("401Mi", "100Mi"),
        request=("401Mi", "100Mi"),
        wanted=("301Mi", "301Mi"),
        is_last=False,
    ),
    Case(
        id="a limit of a few MiB has no steps",
        limit=("2Mi", "1Mi"),
        request=("2Mi", "1Mi"),
        use=use(0.5),
        wanted=("1Mi", "1Mi"),
    ),
    Case(
        id="usage with the margin equals the new limit",
        use=use(250),
        rules=MemoryDecreaseRules(margin=0.2),
    ),
    Case(
        id="usage with the margin is a byte above the new limit",
        use=use(250 + A_BYTE),
        rules=MemoryDecreaseRules(margin=0.2),
        wanted=Reason.MEMORY_IN_USE,
    ),
    Case(
        id="without a margin, usage equals the new limit",
        use=use(300),
        rules=replace(RULES, margin=0),
    ),
    Case(
        id="the next step fits, although the wanted limit doesn't",
        limit=("400Mi", "100Mi"),
        request=("400Mi", "100Mi"),
        use=use(200),
        wanted=("300Mi", "300Mi"),
        is_last=False,
    ),
    Case(
        id="a limit is added without steps",
        limit=(None, "100Mi"),
        request=("0", "50Mi"),
        use=use(100),
        rules=replace(RULES, margin=0),
        wanted=("100Mi", "50Mi"),
    ),
    Case(
        id="usage is a byte above a limit that is added",
        limit=(None, "100Mi"),
        use=use(100 + A_BYTE),
        rules=replace(RULES, margin=0),
        wanted=Reason.MEMORY_IN_USE,
    ),
    Case(
        id="no usage, and a limit is added",
        limit=(None, "100Mi"),
        use=None,
        wanted=Reason.MEMORY_USAGE_UNKNOWN,
    ),
    Case(
        id="a limit is added at the floor",
        limit=(None, "300Mi"),
        floor=floor("400Mi"),
        wanted=("400Mi", "150Mi"),
    ),
    Case(id="no usage", use=None, wanted=Reason.MEMORY_USAGE_UNKNOWN),
    Case(id="usage of two minutes ago", use=use(100, ago=2 * MINUTE)),
    Case(
        id="usage of more than two minutes ago",
        use=use(100, ago=2 * MINUTE + SECOND),
        wanted=Reason.MEMORY_USAGE_UNKNOWN,
    ),
    Case(
        id="usage of two minutes ahead, as the clock was set back",
        use=use(100, ago=-2 * MINUTE),
    ),
    Case(
        id="usage of more than two minutes ahead",
        use=use(100, ago=-2 * MINUTE - SECOND),
        wanted=Reason.MEMORY_USAGE_UNKNOWN,
    ),
    Case(id="samples of five minutes", use=use(100, since=5 * MINUTE)),
    Case(
        id="samples of less than five minutes",
        use=use(100, since=5 * MINUTE - SECOND),
        wanted=Reason.MEMORY_DECREASE_PAUSED,
    ),
    Case(
        id="samples of the whole window suffice for a longer pause",
        use=use(100, since=15 * MINUTE),
        rules=replace(RULES, pause=HOUR),
    ),
    Case(id="five minutes after the last step", last=sent(5 * MINUTE)),
    Case(
        id="less than five minutes after the last step",
        last=sent(5 * MINUTE - SECOND),
        wanted=Reason.MEMORY_DECREASE_PAUSED,
    ),
    Case(id="a step that waits for the kubelet needs no pause", last=sent(MINUTE), waits=True),
    Case(id="a floor at the wanted limit", floor=floor("300Mi")),
    Case(id="a floor above the wanted limit", floor=floor("350Mi"), wanted=("350Mi", "175Mi")),
    Case(
        id="a floor at the present limit",
        floor=floor("400Mi"),
        wanted=Reason.OOM_AFTER_DECREASE,
    ),
    Case(id="a floor that ends now", floor=floor("400Mi", ends_in=timedelta())),
    Case(
        id="a request that increases while the limit decreases",
        request=("100Mi", "200Mi"),
        wanted=("300Mi", "200Mi"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_memory_step(case: Case) -> None:
    (limit, new_limit), (request, new_request) = case.limit, case.request
    decrease = LimitDecrease(
        container="app",
        limit=None if limit is None else Quantity.parse(limit),
        request=Quantity.parse(request),
        new_limit=Quantity.parse(new_limit),
        new_request=Quantity.parse(new_request),
        waits=case.waits,
    )
    step = memory_step(
        decrease, use=case.use, floor=case.floor, last=case.last, rules=case.rules, now=NOW
    )
    if isinstance(case.wanted, Reason):
        assert step.held is not None
        assert step.held.reason is case.wanted
    else:
        assert step.held is None
        assert (str(step.limit), str(step.request)) == case.wanted
        assert step.is_last == case.is_last


def test_the_detail_of_held_memory_has_its_numbers() -> None:
    decrease = LimitDecrease(
        container="app",
        limit=Quantity.parse("400Mi"),
        request=Quantity.parse("400Mi"),
        new_limit=Quantity.parse("300Mi"),
        new_request=Quantity.parse("300Mi"),
    )

    def detail(
        found: MemoryUse | None, least: MemoryFloor | None = None, *, of: LimitDecrease = decrease
    ) -> str:
        step = memory_step(of, use=found, floor=least, last=None, rules=RULES, now=NOW)
        assert step.held is not None
        return step.held.detail

    assert detail(use(280)) == (
        "container app used 280Mi, with a margin of 10% 308Mi; the new memory limit would be "
        "300Mi, now it is 400Mi"
    )
    assert detail(None) == "container app: memory limit 400Mi -> 300Mi"
    assert detail(use(1, ago=HOUR)) == (
        "container app: memory limit 400Mi -> 300Mi, last usage at 2026-03-01T11:00:00Z"
    )
    added = replace(decrease, limit=None)
    assert detail(use(280), of=added) == (
        "container app used 280Mi, with a margin of 10% 308Mi; the new memory limit would be "
        "300Mi, now there is none"
    )
    assert detail(None, of=added) == "container app: memory limit none -> 300Mi"
    assert detail(use(1), floor("400Mi")) == (
        "a container app was OOM-killed within an hour after its memory limit went down from 400Mi"
    )


@given(
    start=st.integers(1, 1 << 36),
    wanted=st.integers(1, 1 << 36),
    used=st.integers(0, 1 << 36),
    margin=st.floats(0, 2),
)
def test_steps_go_down_by_a_quarter_at_most_stay_above_usage_and_reach_the_wanted_limit(
    start: int, wanted: int, used: int, margin: float
) -> None:
    rules = MemoryDecreaseRules(margin=margin)
    limit = start
    for _ in range(400):
        if wanted >= limit:
            break
        decrease = LimitDecrease(
            container="app",
            limit=memory_quantity(limit),
            request=memory_quantity(limit),
            new_limit=memory_quantity(wanted),
            new_request=memory_quantity(wanted),
        )
        known = use(used / MIB)
        step = memory_step(decrease, use=known, floor=None, last=None, rules=rules, now=NOW)
        if step.held is not None:
            assert step.held.reason is Reason.MEMORY_IN_USE
            break
        assert step.limit is not None
        after = step.limit.value
        assert wanted <= after < limit
        assert after >= limit - limit // 4 or limit < 4 * MIB
        assert used * (1 + margin) <= after
        assert step.request == step.limit
        assert step.is_last == (after == wanted)
        limit = after
    else:
        pytest.fail(f"still {limit} after 400 steps to {wanted}")


# Which changes are decreases


@dataclass(frozen=True, kw_only=True)
class Change:
    id: str
    spec: str | None = "400Mi"
    granted: str | None = "400Mi"
    wanted: str | None = "300Mi"
    policy: tuple[tuple[str, str], ...] = ()
    chosen: bool = True
    pending: bool = True  # the kubelet has deferred the pod's resize
    found: bool = True
    waits: bool = False


DEFERRED = PodCondition(type="PodResizePending", status="True", reason="Deferred")
CHANGES = [
    Change(id="a lower limit"),
    Change(id="the same limit", wanted="400Mi", found=False),
    Change(id="a higher limit", wanted="500Mi", found=False),
    Change(id="no limit is wanted", wanted=None, found=False),
    Change(id="a limit is added", spec=None, granted=None),
    Change(id="an added limit is pending", spec="300Mi", granted=None, waits=True),
    Change(
        id="an added limit is in progress",
        spec="300Mi",
        granted=None,
        pending=False,
        found=False,
    ),
    Change(
        id="memory restarts the container", policy=(("memory", "RestartContainer"),), found=False
    ),
    Change(id="cpu restarts the container", policy=(("cpu", "RestartContainer"),)),
    Change(id="memory needs no restart", policy=(("memory", "NotRequired"),)),
    Change(id="a container that doesn't change", chosen=False, found=False),
    Change(id="a pending increase is withdrawn", spec="600Mi", wanted="400Mi", found=False),
    Change(id="a pending increase becomes a decrease", spec="600Mi"),
    Change(id="a pending decrease is lowered", spec="350Mi", waits=True),
    Change(id="a pending decrease to the same limit", spec="300Mi", waits=True),
    Change(id="a pending decrease is raised", spec="200Mi", waits=True),
    Change(id="a pending resize of CPU", spec="400Mi"),
    Change(id="a decrease in progress is lowered", spec="350Mi", pending=False),
    Change(id="a decrease in progress to the same limit", spec="300Mi", pending=False, found=False),
    Change(id="a decrease in progress is raised", spec="200Mi", pending=False, found=False),
]


def memory(amount: str | None) -> ResourceRequirements:
    return ResourceRequirements(
        requests={"memory": "100Mi"}, limits=None if amount is None else {"memory": amount}
    )


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.id)
def test_limit_decreases(case: Change) -> None:
    policy = tuple(
        ContainerResizePolicy(resource_name=name, restart_policy=restart)
        for name, restart in case.policy
    )
    app = Container(name="app", resources=memory(case.spec), resize_policy=policy or None)
    status = ContainerStatus(name="app", resources=memory(case.granted))
    pod = Pod(
        metadata=ObjectMeta(name="web-0"),
        spec=PodSpec(containers=(app,)),
        status=PodStatus(
            container_statuses=(status,), conditions=(DEFERRED,) if case.pending else None
        ),
    )
    limits = parse_quantities(None if case.wanted is None else {"memory": case.wanted})
    wanted = WantedResources(requests=parse_quantities({"memory": "75Mi"}), limits=limits)
    found = limit_decreases(pod, (wanted,), {"app"} if case.chosen else ())
    assert bool(found) == case.found
    if found:
        (decrease,) = found
        assert decrease.waits == case.waits
        assert decrease.limit == (None if case.granted is None else Quantity.parse(case.granted))
        assert str(decrease.new_limit) == case.wanted
        assert (str(decrease.request), str(decrease.new_request)) == ("100Mi", "75Mi")


# Floors

KILLS = {
    "in the second of the decrease": (timedelta(), True),
    "before the decrease": (-SECOND, False),
    "an hour after the decrease": (HOUR, True),
    "more than an hour after the decrease": (HOUR + SECOND, False),
}


@pytest.mark.parametrize(("after", "counts"), KILLS.values(), ids=KILLS)
def test_an_oom_kill_within_an_hour_after_a_decrease_sets_a_floor_for_a_day(
    after: timedelta, *, counts: bool
) -> None:
    before = replace(sent(timedelta()), at=NOW)
    kill = ContainerOomKill("app", NOW + after)
    low = Quantity.parse("768Mi")
    found = floors_after({"app": before}, {kill: low, ContainerOomKill("app-2", NOW): low})
    wanted = {"app": MemoryFloor(amount=before.limit, until=NOW + after + DAY)}
    assert found == (wanted if counts else {})


def test_a_kill_in_the_second_in_which_the_decrease_was_sent_counts() -> None:
    before = replace(sent(timedelta()), at=NOW + 0.9 * SECOND)
    assert floors_after({"app": before}, {ContainerOomKill("app", NOW): Quantity.parse("768Mi")})


@pytest.mark.parametrize(("amount", "counts"), [("1023Mi", True), ("1Gi", False)])
def test_a_kill_at_the_limit_before_the_decrease_does_not_count(
    amount: str, *, counts: bool
) -> None:
    """The kubelet had not applied the decrease yet."""
    kills = {ContainerOomKill("app", NOW): Quantity.parse(amount)}
    assert bool(floors_after({"app": sent(MINUTE)}, kills)) == counts


def test_floors_end_after_their_day_and_the_higher_amount_and_end_count() -> None:
    known = {"a": floor("1Gi"), "b": floor("2Gi", ends_in=timedelta()), "c": floor("3Gi")}
    known["e"] = floor("1Gi", ends_in=DAY)
    new = {"a": floor("500Mi", ends_in=DAY), "d": floor("1Gi"), "e": floor("2Gi")}
    assert merged_floors(known, new, now=NOW) == {
        "a": floor("1Gi", ends_in=DAY),
        "c": floor("3Gi"),
        "d": floor("1Gi"),
        "e": floor("2Gi", ends_in=DAY),
    }
