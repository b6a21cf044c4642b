"""The validity of a cached decision to write nothing (X80)."""

from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from common.api.core import Container, PodSpec
from common.scheduling.eligibility import ANYWHERE
from common.scheduling.pod_claims import PodShape, claims_of
from common.scheduling.room import Room
from recommender.estimate.step_reasons import StepReason
from recommender.model.keys import VpaKey
from recommender.model.usage import ContainerGroup
from recommender.publish.pod_limits import LimitRoom, PodLimit, VpaLimits
from recommender.publish.status import ConditionType
from recommender.publish.status_decision_cache import CachedDecision, DecisionInputs, tolerance
from recommender.publish.status_difference import NOTICEABLE_CHANGE

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
WEB = ContainerGroup(vpa=VpaKey("shop", "web"), container="app", rows=(0,), has_pods=True)
POD = PodShape(ANYWHERE, PodSpec())
INPUTS = DecisionInputs(
    controlled_by="",
    version="7",
    unsupported="",
    groups=(WEB,),
    has_pods=True,
    controls=(),
    known_quarters=4,
    targets=array("q", (100, 1000)),
    bounds=array("q", (50, 200, 500, 2000)),
)
CACHED = CachedDecision(
    inputs=INPUTS,
    tolerance=tolerance(0.0),
    due=NOW + timedelta(minutes=9),
    is_equal=True,
)


def bounds(*amounts: int) -> DecisionInputs:
    return replace(INPUTS, bounds=array("q", amounts))


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(INPUTS, True, id="no change"),
        pytest.param(replace(INPUTS, version="8"), False, id="another version of the VPA"),
        pytest.param(replace(INPUTS, unsupported="why"), False, id="its target can't be used"),
        pytest.param(replace(INPUTS, controlled_by="old"), False, id="an older VPA was created"),
        pytest.param(replace(INPUTS, groups=(WEB, WEB)), False, id="another container"),
        pytest.param(replace(INPUTS, has_pods=False), False, id="no more pods"),
        pytest.param(replace(INPUTS, known_quarters=3), False, id="less history"),
        pytest.param(replace(INPUTS, controls=("other",)), False, id="another VPA of the target"),
        pytest.param(replace(INPUTS, targets=array("q", (101, 1000))), False, id="another target"),
        pytest.param(bounds(50, 201, 500, 2000), True, id="a bound by less than one percent"),
        pytest.param(bounds(50, 203, 500, 2000), False, id="a bound by more than one percent"),
        pytest.param(bounds(50, 200, 500, 2019), True, id="the last bound by less"),
        pytest.param(bounds(50, 200, 500, 1979), False, id="the last bound by more, downwards"),
    ],
)
def test_which_inputs_keep_a_cached_decision_valid(*, now: DecisionInputs, want: bool) -> None:
    assert CACHED.holds(now, NOW) is want


def test_a_vpa_without_a_version_is_decided_again() -> None:
    unknown = replace(INPUTS, version="")
    assert not replace(CACHED, inputs=unknown).holds(unknown, NOW)


@pytest.mark.parametrize(
    ("cached", "now", "want"),
    [
        pytest.param(CACHED, INPUTS, True, id="equal, and inputs are unchanged"),
        pytest.param(CACHED, bounds(50, 200, 500, 2001), False, id="equal, and inputs changed"),
        pytest.param(
            replace(CACHED, is_equal=False), INPUTS, False, id="a small difference remains"
        ),
    ],
)
def test_small_differences_are_decided_again_when_due(
    *, cached: CachedDecision, now: DecisionInputs, want: bool
) -> None:
    assert cached.holds(now, CACHED.due) is want
    assert cached.holds(now, CACHED.due - timedelta(seconds=1))


@pytest.mark.parametrize("difference", [0.0, 0.001, 0.0099, NOTICEABLE_CHANGE])
def test_differences_within_the_tolerance_are_ignored(difference: float) -> None:
    published = 1_000_000
    estimated = published * (1 + difference)
    furthest = estimated * (1 + tolerance(difference))
    assert (furthest - published) / published <= NOTICEABLE_CHANGE
    assert tolerance(difference) >= 0.0


# Limits


def limits(*cpu: int, pod: PodShape = POD) -> VpaLimits:
    rooms = tuple(
        LimitRoom(room=Room(each, 1 << 30, 110), title="n", sentence="n has room") for each in cpu
    )
    limit = PodLimit(
        reason=StepReason.NODES,
        rooms=rooms,
        lowered=ConditionType.CAPPED_BY_NODES,
        unmet=ConditionType.EXCEEDS_KNOWN_NODES,
    )
    return VpaLimits(pod=pod, claims=claims_of(pod.spec), limits=(limit,))


FITTED = Room(1000, 1 << 20, 1)
OTHER_POD = PodShape(ANYWHERE, PodSpec(containers=(Container(name="other"),)))


@pytest.mark.parametrize(
    ("then", "now", "admitted", "want"),
    [
        pytest.param(None, None, None, True, id="no limits"),
        pytest.param(limits(500), limits(500), None, True, id="equal limits"),
        pytest.param(limits(500), limits(501), None, False, id="the pod was capped"),
        pytest.param(limits(4000), limits(1000), FITTED, True, id="it still fits exactly"),
        pytest.param(limits(4000), limits(999), FITTED, False, id="it fits no more"),
        pytest.param(limits(4000), limits(), FITTED, False, id="no node is left"),
        pytest.param(limits(4000), None, FITTED, False, id="limits end"),
        pytest.param(None, limits(4000), None, False, id="limits begin"),
        pytest.param(
            limits(4000), limits(2000, pod=OTHER_POD), FITTED, False, id="the pod has changed"
        ),
    ],
)
def test_a_decision_holds_while_the_limits_lead_to_it(
    then: VpaLimits | None,
    now: VpaLimits | None,
    admitted: Room | None,
    want: bool,  # noqa: FBT001 - a column of the table
) -> None:
    cached = replace(CACHED, inputs=replace(INPUTS, limits=then), admitted=admitted)
    assert cached.holds(replace(INPUTS, limits=now), NOW) is want
