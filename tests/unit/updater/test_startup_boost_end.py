"""Expired start-up boosts, and the resources after a boost: updater.md 11."""

from datetime import UTC, datetime, timedelta

import pytest

from builders import container, pod, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.core import Pod, PodCondition, PodStatus
from common.recommendation.container_resources import WantedResources
from common.resources import parse_quantities
from common.target.owners import Controller
from updater.decision import Decision, Reason, resize, wait
from updater.eviction.disruption_budget import DisruptionBudget, GroupStanding, ReplicaGroup
from updater.resize.startup_boost_end import (
    boost_duration,
    decide_unboost,
    expired_boosts,
    unboosted,
    with_earlier_cpu,
)

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BOOSTED = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"50m"},"limits":{}}'}


def boost(seconds: int | None) -> StartupBoost:
    return StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2, duration_seconds=seconds))


def boosting(own: StartupBoost | None, shared: StartupBoost | None) -> VerticalPodAutoscaler:
    plain = vpa(policies=(ContainerPolicy(container_name="app", startup_boost=own),))
    spec = type(plain.spec)(
        target_ref=plain.spec.target_ref,
        resource_policy=plain.spec.resource_policy,
        startup_boost=shared,
    )
    return type(plain)(metadata=plain.metadata, spec=spec)


DURATIONS = {
    "the container's own": (boost(30), boost(60), timedelta(seconds=30)),
    "the VPA's": (None, boost(60), timedelta(seconds=60)),
    "own boost without a duration": (boost(None), boost(60), timedelta(seconds=60)),
    "own duration of zero": (boost(0), boost(60), timedelta()),
    "none": (None, boost(None), timedelta()),
}


@pytest.mark.parametrize(("own", "shared", "want"), DURATIONS.values(), ids=DURATIONS)
def test_boost_duration(
    own: StartupBoost | None, shared: StartupBoost | None, want: timedelta
) -> None:
    assert boost_duration(boosting(own, shared), "app") == want


def ready_since(age: timedelta | None, *, status: str = "True", phase: str = "Running") -> Pod:
    boosted = pod(annotations=BOOSTED, containers=(container(requests={"cpu": "100m"}),))
    since = None if age is None else NOW - age
    ready = PodCondition(type="Ready", status=status, last_transition_time=since)
    conditions = () if age is None else (ready,)
    return Pod(
        metadata=boosted.metadata,
        spec=boosted.spec,
        status=PodStatus(phase=phase, conditions=conditions),
    )


@pytest.mark.parametrize(
    ("given", "duration", "want"),
    [
        pytest.param(ready_since(MINUTE), MINUTE, (), id="exactly as long"),
        pytest.param(ready_since(MINUTE + timedelta(seconds=1)), MINUTE, ("app",), id="longer"),
        pytest.param(ready_since(timedelta()), timedelta(), ("app",), id="no duration"),
        pytest.param(ready_since(None), timedelta(), (), id="never Ready"),
        pytest.param(ready_since(2 * MINUTE, status="False"), MINUTE, (), id="not Ready"),
        pytest.param(pod(), timedelta(), (), id="not boosted"),
    ],
)
def test_expired_boosts(given: Pod, duration: timedelta, want: tuple[str, ...]) -> None:
    assert expired_boosts(given, duration_of=lambda _: duration, now=NOW) == want


def group(running: int = 3, standing: GroupStanding = GroupStanding.OPEN) -> ReplicaGroup:
    return ReplicaGroup(
        controller=Controller("default", "ReplicaSet", "web"),
        standing=standing,
        pending=0,
        budget=DisruptionBudget(configured=3, running=running, tolerance=1),
    )


@pytest.mark.parametrize(
    ("given", "among", "expired", "want"),
    [
        pytest.param(
            ready_since(MINUTE), group(), ("app",), resize(Reason.STARTUP_BOOST_OVER), id="expired"
        ),
        pytest.param(
            ready_since(MINUTE), group(), (), wait(Reason.STARTUP_BOOSTED), id="not expired"
        ),
        pytest.param(
            ready_since(MINUTE, phase="Pending"),
            group(),
            ("app",),
            wait(Reason.STARTUP_BOOSTED),
            id="pending",
        ),
        pytest.param(
            ready_since(MINUTE), group(2), ("app",), wait(Reason.BUDGET_EXHAUSTED), id="no room"
        ),
        pytest.param(
            ready_since(MINUTE), None, ("app",), wait(Reason.NO_CONTROLLER), id="no controller"
        ),
        pytest.param(
            ready_since(MINUTE),
            group(standing=GroupStanding.BELOW_MIN_REPLICAS),
            ("app",),
            wait(Reason.BELOW_MIN_REPLICAS),
            id="below the minimum",
        ),
    ],
)
def test_decide_unboost(
    given: Pod, among: ReplicaGroup | None, expired: tuple[str, ...], want: Decision
) -> None:
    assert decide_unboost(given, group=among, expired=expired) == want


RECOMMENDED = WantedResources(requests=parse_quantities({"cpu": "80m"}))
NOTHING = WantedResources()


def test_an_expired_boost_is_replaced_by_the_recommendation() -> None:
    ended = unboosted(ready_since(MINUTE), (RECOMMENDED,), expired=("app",))
    assert ended == (RECOMMENDED,)


def test_without_a_recommendation_the_earlier_request_is_restored() -> None:
    ended = unboosted(ready_since(MINUTE), (NOTHING,), expired=("app",))
    assert ended is not None
    assert ended[0].requests == parse_quantities({"cpu": "50m"})


MEMORY = WantedResources(requests=parse_quantities({"memory": "64Mi"}))
HAD_LIMITS = parse_quantities({"cpu": "200m"})

# Resources after the boost of a container with 50m of CPU and a limit of 200m.
EARLIER_CPU = [
    pytest.param(
        MEMORY,
        ("app",),
        {"memory": "64Mi", "cpu": "50m"},
        True,
        id="D33: memory alone is recommended",
    ),
    pytest.param(RECOMMENDED, ("app",), {"cpu": "80m"}, False, id="CPU is recommended"),
    pytest.param(MEMORY, (), {"memory": "64Mi"}, False, id="the boost continues"),
    pytest.param(NOTHING, ("app",), {}, False, id="no recommendation"),
]


@pytest.mark.parametrize(("recommended", "expired", "requests", "limited"), EARLIER_CPU)
def test_the_earlier_cpu_is_restored_if_no_cpu_is_recommended(
    recommended: WantedResources,
    expired: tuple[str, ...],
    requests: dict[str, str],
    *,
    limited: bool,
) -> None:
    bare = pod(containers=(container(requests={"cpu": "50m"}, limits={"cpu": "200m"}),))
    (wanted,) = with_earlier_cpu(bare, (recommended,), expired=expired)
    assert wanted.requests == parse_quantities(requests)
    assert wanted.limits == (HAD_LIMITS if limited else {})


def test_a_boost_that_continues_is_unchanged() -> None:
    ended = unboosted(ready_since(MINUTE), (RECOMMENDED,), expired=())
    assert ended == (NOTHING,)


def test_an_unreadable_annotation_prevents_the_removal() -> None:
    boosted = pod(annotations={"vpaCpuStartupBoost/app": "what?"})
    assert unboosted(boosted, (NOTHING,), expired=("app",)) is None
