"""Targets that are lowered so that the pod of a recommendation fits the limits."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.api.core import PodSpec
from common.quantity import MAX_INT64
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, MEMORY, RESOURCES, cpu_quantity, memory_quantity
from common.scheduling.eligibility import ANYWHERE
from common.scheduling.pod_claims import (
    PodClaims,
    PodShape,
    Targets,
    as_numbers,
    claims_of,
    targets_of,
)
from common.scheduling.room import Room
from recommender.estimate.amount_selection import SelectedAmounts
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.post_processing import PostProcessed, ProcessingStage
from recommender.estimate.step_reasons import StepReason
from recommender.publish.pod_limits import (
    Limited,
    LimitRoom,
    PodLimit,
    VpaLimits,
    within_limits,
)
from recommender.publish.status import ConditionType

MIB = 1 << 20
ESTIMATION = EstimationSettings(pod_min_cpu=20, pod_min_memory=20)
CAPPED, EXCEEDS = ConditionType.CAPPED_BY_NODES, ConditionType.EXCEEDS_KNOWN_NODES


def amounts(name: str, cpu: int, memory: int) -> ContainerAmounts:
    """Return amounts whose bounds are half and twice the target; memory in MiB."""

    def both(factor: float) -> Mapping[str, Any]:
        return {
            CPU: cpu_quantity(int(cpu * factor)),
            MEMORY: memory_quantity(int(memory * factor) * MIB),
        }

    return ContainerAmounts(
        name=name,
        target=both(1),
        lower_bound=both(0.5),
        upper_bound=both(2),
        uncapped_target=both(3),
    )


def processed(
    *recommended: ContainerAmounts, least: Mapping[str, Mapping[str, int]] | None = None
) -> PostProcessed:
    allowed = {
        name: {
            resource: (cpu_quantity if resource == CPU else memory_quantity)(amount)
            for resource, amount in each.items()
        }
        for name, each in (least or {}).items()
    }
    stages = (
        ProcessingStage(reason=StepReason.MIN_ALLOWED, amounts=recommended, by=allowed),
        ProcessingStage(reason=StepReason.ORDER, amounts=recommended),
    )
    return PostProcessed(
        estimated=recommended, stages=stages, selected=SelectedAmounts(amounts=recommended)
    )


def room(cpu: int, memory: int, title: str = "n", *, is_known: bool = True) -> LimitRoom:
    sentence = f"{title} has room" if is_known else f"{title} may be made"
    return LimitRoom(
        room=Room(cpu, memory * MIB, 110), title=title, sentence=sentence, is_known=is_known
    )


def limit(*rooms: LimitRoom) -> PodLimit:
    return PodLimit(
        reason=StepReason.NODES,
        rooms=rooms,
        lowered=CAPPED,
        unmet=EXCEEDS,
        no_room="no node matches",
    )


def pod(*names: str, **more: Any) -> PodShape:
    containers = [
        {"name": name, "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
        for name in names
    ]
    return PodShape(ANYWHERE, msgspec.convert({"containers": containers, **more}, PodSpec))


NOTHING: Targets = {}


def limited(
    found: PostProcessed,
    *limits: PodLimit,
    shape: PodShape | None = None,
    published: Targets = NOTHING,
) -> Limited:
    shape = shape or pod("app", "log")
    own = VpaLimits(pod=shape, claims=claims_of(shape.spec), limits=limits)
    return within_limits(found, own, ESTIMATION, published=published)


APP, LOG = amounts("app", 3000, 300), amounts("log", 1000, 100)
BOTH = processed(APP, LOG)


def targets(found: Limited) -> dict[str, tuple[int, int]]:
    """Return millicores and MiB by container."""
    return {
        one.name: (one.target[CPU].milli, one.target[MEMORY].value // MIB)
        for one in found.processed.amounts
    }


def findings(found: Limited) -> list[tuple[str, str]]:
    return [(each.condition.value, each.reason) for each in found.findings]


LOWERED = ("CappedByNodes", "TargetsLowered")
MAY_BE = ("ExceedsKnownNodes", "MayBeMade")
STAYS = {"app": (3000, 300), "log": (1000, 100)}

CASES = [
    ("the pod fits exactly", [room(4000, 400)], STAYS, []),
    ("the pod fits one of several", [room(1, 1), room(4000, 400)], STAYS, []),
    (
        "CPU is too large by one",
        [room(3999, 400)],
        {"app": (2999, 300), "log": (999, 100)},
        [LOWERED],
    ),
    ("memory is too large", [room(4000, 200)], {"app": (3000, 150), "log": (1000, 50)}, [LOWERED]),
    (
        "the room that keeps most",
        [room(2000, 400, "a"), room(4000, 300, "b")],
        {"app": (3000, 225), "log": (1000, 75)},
        [LOWERED],
    ),
    (
        "of equal minimums the larger sum",
        [room(2000, 300, "a"), room(2000, 400, "b")],
        {"app": (1500, 300), "log": (500, 100)},
        [LOWERED],
    ),
    ("no room at all", [], STAYS, [("ExceedsKnownNodes", "NoRoom")]),
    (
        "a larger node may be made",
        [room(2000, 400), room(9000, 900, is_known=False)],
        STAYS,
        [MAY_BE],
    ),
    ("only a guess", [room(9000, 900, is_known=False)], STAYS, [MAY_BE]),
    (
        "a guess that is too small for the pod keeps most",
        [room(1000, 400, "a"), room(2000, 400, "b", is_known=False)],
        {"app": (1500, 300), "log": (500, 100)},
        [LOWERED, MAY_BE],
    ),
    (
        "less room than a recommendation's minimum",
        [room(19, 400)],
        STAYS,
        [("ExceedsKnownNodes", "MinimumsTooLarge")],
    ),
    (
        "just the minimum of a recommendation",
        [room(20, 400)],
        {"app": (10, 300), "log": (10, 100)},
        [LOWERED],
    ),
]


@pytest.mark.parametrize(
    ("rooms", "want", "said"), [pytest.param(*case, id=name) for name, *case in CASES]
)
def test_targets_and_findings(
    rooms: list[LimitRoom], want: dict[str, tuple[int, int]], said: list[tuple[str, str]]
) -> None:
    found = limited(BOTH, limit(*rooms))
    assert targets(found) == want
    assert findings(found) == said
    assert (found.admitted is None) is bool(said)


MINIMUMS = [
    ("a minimum that just fits", 1000, {"app": (1000, 300), "log": (1000, 100)}, [LOWERED]),
    ("a minimum that doesn't fit", 1001, STAYS, [("ExceedsKnownNodes", "MinimumsTooLarge")]),
]


@pytest.mark.parametrize(
    ("least", "want", "said"), [pytest.param(*case, id=name) for name, *case in MINIMUMS]
)
def test_min_allowed_stays(
    least: int, want: dict[str, tuple[int, int]], said: list[tuple[str, str]]
) -> None:
    found = limited(
        processed(APP, LOG, least={"app": {CPU: least}, "log": {CPU: 1000}}), limit(room(2000, 400))
    )
    assert targets(found) == want
    assert findings(found) == said


def test_the_lower_bound_is_at_most_the_capped_target_and_the_other_amounts_stay() -> None:
    found = limited(BOTH, limit(room(1200, 400)))
    app = found.processed.amounts[0]
    assert app.target[CPU] == cpu_quantity(900)
    assert app.lower_bound[CPU] == cpu_quantity(900), "it was 1500"
    assert app.upper_bound == APP.upper_bound
    assert app.uncapped_target == APP.uncapped_target
    stage = found.processed.stages[-1]
    assert stage.reason is StepReason.NODES
    assert stage.by["app"] == {CPU: cpu_quantity(1200), MEMORY: memory_quantity(400 * MIB)}


def test_a_lower_bound_below_the_capped_target_stays() -> None:
    found = limited(BOTH, limit(room(3600, 400)))
    app = found.processed.amounts[0]
    assert (app.target[CPU], app.lower_bound[CPU]) == (cpu_quantity(2700), cpu_quantity(1500))


def test_a_container_that_is_gone_from_the_pods_counts_nothing() -> None:
    found = limited(BOTH, limit(room(3000, 300)), shape=pod("app"))
    assert found.findings == ()


def test_messages_state_the_room() -> None:
    (finding,) = limited(BOTH, limit(room(1200, 400, "a"))).findings
    assert finding.message == "app, log: the target is lowered, so that a pod fits. a has room."
    rooms = (room(1200, 400, "a"), room(9000, 900, "pool", is_known=False))
    (finding,) = limited(BOTH, limit(*rooms)).findings
    assert finding.message == (
        "The pod of the target fits no known node. a has room. pool may be made, so it stays."
    )
    (finding,) = limited(BOTH, limit(room(9000, 900, "pool", is_known=False))).findings
    assert finding.message == (
        "The pod of the target fits no known node. no node matches. pool may be made, so it stays."
    )
    (finding,) = limited(BOTH, limit()).findings
    assert finding.message == "no node matches. So the target stays."


def test_two_limits_apply_one_after_another() -> None:
    found = limited(BOTH, limit(room(2000, 400)), limit(room(4000, 200)))
    assert targets(found) == {"app": (1500, 150), "log": (500, 50)}


def test_without_limits_nothing_changes() -> None:
    assert within_limits(BOTH, None, ESTIMATION, published=NOTHING).processed is BOTH
    assert limited(BOTH).processed is BOTH


def walk(*rooms: LimitRoom, wanted: PostProcessed) -> list[dict[str, tuple[int, int]]]:
    """Return the targets for these rooms; each is published before the next cycle."""
    seen: list[dict[str, tuple[int, int]]] = []
    published: Targets = {}
    for each in rooms:
        shape = pod(*(one.name for one in wanted.amounts))
        found = limited(wanted, limit(each), shape=shape, published=published)
        published = targets_of(found.processed.amounts)
        seen.append(targets(found))
    return seen


@pytest.mark.parametrize(
    ("rooms", "want"),
    [
        pytest.param([2000, 2100, 2199], [2000, 2000, 2000], id="less than ten percent more"),
        pytest.param([2000, 2199, 2200], [2000, 2000, 2200], id="ten percent more in all"),
        pytest.param([2000, 1999], [2000, 1999], id="it doesn't fit any more"),
        pytest.param([2000, 1999, 2000], [2000, 1999, 1999], id="less and more again"),
        pytest.param([3700, 3999], [3700, 3700], id="almost what is wanted"),
        pytest.param([3700, 4000], [3700, 4000], id="what is wanted"),
    ],
)
def test_a_lowered_target_does_not_follow_each_move_of_a_room(
    rooms: list[int], want: list[int]
) -> None:
    """Its lower bound would rise with it, and the updater would replace all pods at once."""
    seen = walk(*(room(cpu, 1000) for cpu in rooms), wanted=processed(amounts("app", 4000, 100)))

    assert [each["app"][0] for each in seen] == want


def test_cpu_and_memory_grow_separately() -> None:
    seen = walk(room(2000, 200), room(2100, 220), wanted=BOTH)

    assert seen == [{"app": (1500, 150), "log": (500, 50)}, {"app": (1500, 165), "log": (500, 55)}]


def test_a_container_without_a_published_target_gets_what_fits() -> None:
    published = {"app": {CPU: 1500, MEMORY: 300 * MIB}}

    found = limited(BOTH, limit(room(2100, 400)), published=published)

    assert targets(found) == {"app": (1575, 300), "log": (525, 100)}


def test_a_published_target_above_the_recommendation_counts_as_much_as_this() -> None:
    published = {"app": {CPU: 900, MEMORY: 300 * MIB}, "log": {CPU: 3000, MEMORY: 100 * MIB}}

    found = limited(BOTH, limit(room(2000, 400)), published=published)

    assert targets(found) == {"app": (900, 300), "log": (1000, 100)}


# Any pods and rooms

numbers = st.integers(min_value=1, max_value=5000)
containers = st.dictionaries(
    st.sampled_from(("app", "log", "proxy")), st.tuples(numbers, numbers), min_size=1
)
rooms = st.lists(
    st.builds(
        lambda cpu, memory, known: room(cpu, memory, f"{cpu} {memory}", is_known=known),
        numbers | st.just(MAX_INT64 // MIB),
        numbers | st.just(MAX_INT64 // MIB),
        st.booleans(),
    ),
    max_size=4,
)
minimums = st.dictionaries(
    st.sampled_from(("app", "log", "proxy")),
    st.fixed_dictionaries({}, optional={CPU: numbers, MEMORY: numbers.map(lambda n: n * MIB)}),
)
shapes = st.builds(
    pod,
    st.sampled_from(("app", "log")),
    st.sampled_from(("proxy", "other")),
    initContainers=st.sampled_from(
        ([], [{"name": "first", "resources": {"requests": {"cpu": "1"}}}])
    ),
    overhead=st.sampled_from((None, {"cpu": "300m", "memory": "10Mi"})),
    resources=st.sampled_from((None, {"requests": {"cpu": "2"}})),
)


published_targets = st.dictionaries(
    st.sampled_from(("app", "log", "proxy")),
    st.fixed_dictionaries({CPU: numbers, MEMORY: numbers.map(lambda n: n * MIB)}),
)


@given(containers, minimums, st.lists(rooms, min_size=1, max_size=2), shapes, published_targets)
def test_a_target_fits_a_known_node_or_a_condition_says_why_not(
    wanted: Mapping[str, tuple[int, int]],
    least: Mapping[str, Mapping[str, int]],
    of_limits: list[list[LimitRoom]],
    shape: PodShape,
    published: Targets,
) -> None:
    before = processed(*(amounts(name, *each) for name, each in wanted.items()), least=least)
    limits = [limit(*each) for each in of_limits]
    found = limited(before, *limits, shape=shape, published=published)
    claims: PodClaims = claims_of(shape.spec)
    needed = claims.needed(targets_of(found.processed.amounts))
    unmet = {each.condition for each in found.findings}
    for each in limits:
        assert each.admits(needed) or EXCEEDS in unmet
    if found.admitted is not None:
        assert found.processed is before
    for one, old in zip(found.processed.amounts, before.amounts, strict=True):
        assert one.uncapped_target == old.uncapped_target
        for resource in RESOURCES:
            bottom = least.get(one.name, {}).get(resource, 0)
            number = as_numbers([("", one.target)])[""][resource]
            was = as_numbers([("", old.target)])[""][resource]
            assert min(bottom, was) <= number <= was
            assert one.lower_bound[resource] <= one.target[resource] <= one.upper_bound[resource]
        assert one.upper_bound == old.upper_bound
