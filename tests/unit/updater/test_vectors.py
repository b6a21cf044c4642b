"""The vectors of updater.md 16 without another test; D13 and section 11 in complete passes.

``matrix.md`` has decisions on resizes, ``test_update_pass.py`` the other complete passes,
``tests/unit/common/kube/test_lease.py`` leases, and ``test_failures.py`` refused calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec
import pytest

from builders import container, recommendation, vpa
from builders import pod as ordinary_pod
from common.api.autoscaling import (
    ContainerPolicy,
    EvictionRequirement,
    GenericStartupBoost,
    StartupBoost,
    UpdateMode,
    UpdatePolicy,
    VerticalPodAutoscaler,
)
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    ResourceRequirements,
)
from common.errors import InvalidError
from common.features import FeatureGates
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import RecommendationFit, measure_pod
from updater.evaluate.update_verdict import Thresholds
from updater.plan.candidate import Candidate, judge_pod
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater.state import NO_MEMORY
from updater_harness import NAMES, NOW, OPEN, FakeActuator, run, snapshot

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def amounts(text: str) -> dict[str, str]:
    """Parse amounts such as ``cpu 4, memory 20M``."""
    return {part.split()[0]: part.split()[1] for part in text.split(", ") if part}


def pod_with_requests(*containers: str, reported: str = "", annotation: str | None = None) -> Pod:
    """Return a pod with containers c1, c2 and so on; ``reported``: actual resources of c1."""
    status = ContainerStatus(name="c1", resources=ResourceRequirements(requests=amounts(reported)))
    plain = ordinary_pod(
        annotations=None if annotation is None else {"vpaObservedContainers": annotation},
        containers=tuple(
            container(f"c{number}", requests=amounts(each))
            for number, each in enumerate(containers, 1)
        ),
    )
    statuses = (status,) if reported else None
    return msgspec.structs.replace(
        plain, status=msgspec.structs.replace(plain.status, container_statuses=statuses)
    )


def vpa_with_targets(*targets: str, lower: str = "", upper: str = "") -> VerticalPodAutoscaler:
    """Return a VPA with targets for c1, c2 and so on, and equal bounds for all."""
    return vpa(
        recommendations=tuple(
            recommendation(
                f"c{number}", target=amounts(each), lower=amounts(lower), upper=amounts(upper)
            )
            for number, each in enumerate(targets, 1)
        )
    )


# Pod, VPA; outside its range, scale up, difference
PRIORITIES = [
    (pod_with_requests("cpu 2"), vpa_with_targets("cpu 10"), False, True, 4.0),
    (
        pod_with_requests("cpu 10000", reported="cpu 2"),
        vpa_with_targets("cpu 10"),
        False,
        True,
        4.0,
    ),
    (pod_with_requests("cpu 4"), vpa_with_targets("cpu 2"), False, False, 0.5),
    (pod_with_requests("cpu 10m"), vpa_with_targets("cpu 900m"), False, True, 89.0),
    (
        pod_with_requests("cpu 4"),
        vpa_with_targets("cpu 10", lower="cpu 6", upper="cpu 14"),
        True,
        True,
        1.5,
    ),
    (
        pod_with_requests("cpu 8"),
        vpa_with_targets("cpu 2", lower="cpu 1", upper="cpu 3"),
        True,
        False,
        0.75,
    ),
    (
        pod_with_requests("cpu 4, memory 10M"),
        vpa_with_targets("cpu 2, memory 20M"),
        False,
        True,
        1.5,
    ),
    (
        pod_with_requests("cpu 4, memory 20M"),
        vpa_with_targets("cpu 2, memory 10M", lower="cpu 1, memory 5M", upper="cpu 3, memory 30M"),
        True,
        False,
        1.0,
    ),
    (pod_with_requests("cpu 3", "cpu 7"), vpa_with_targets("cpu 1", "cpu 2"), False, False, 0.7),
    (
        pod_with_requests("cpu 6, memory 10M", "cpu 4, memory 30M"),
        vpa_with_targets("cpu 8, memory 20M", "cpu 7, memory 30M"),
        False,
        True,
        0.75,
    ),
    (pod_with_requests("cpu 1", annotation=""), vpa_with_targets("cpu 10"), False, False, 0.0),
    (
        pod_with_requests("cpu 1", annotation="abcd;';"),
        vpa_with_targets("cpu 10"),
        False,
        True,
        9.0,
    ),
]


@pytest.mark.parametrize(("given", "autoscaler", "outside", "up", "diff"), PRIORITIES)
def test_priority(
    given: Pod, autoscaler: VerticalPodAutoscaler, *, outside: bool, up: bool, diff: float
) -> None:
    measured = measure_pod(given, autoscaler, ())
    assert not isinstance(measured, Decision)
    drift = measured.drift
    assert (drift.outside_range, drift.scale_up) == (outside, up)
    assert drift.resource_diff == pytest.approx(diff)


# Acceptance: threshold 0.5, lifetime 12 h


@dataclass(frozen=True, kw_only=True)
class AcceptanceCase:
    hours: float
    diff: float
    accepted: bool
    outside: bool = False
    oom_after: timedelta | None = None  # of c2
    memory: str = "10M"  # target of c2, which has 10M
    policies: tuple[ContainerPolicy, ...] = ()
    observed: str = "c1, c2"


QUICK = 2 * MINUTE
ACCEPTANCE = {
    "old, drift below the threshold": AcceptanceCase(hours=13, diff=0.25, accepted=False),
    "old and drifted": AcceptanceCase(hours=13, diff=4.0, accepted=True),
    "old, outside its range": AcceptanceCase(hours=13, diff=0.25, outside=True, accepted=True),
    "young and drifted": AcceptanceCase(hours=11, diff=4.0, accepted=False),
    "young, outside its range": AcceptanceCase(hours=11, diff=0.9, outside=True, accepted=True),
    "young, quick OOM": AcceptanceCase(
        hours=11, diff=0.25, oom_after=QUICK, memory="20M", accepted=True
    ),
    "young, quick OOM, equal memory (D35)": AcceptanceCase(
        hours=11, diff=0.25, oom_after=QUICK, accepted=False
    ),
    "young, quick OOM, less memory (D35)": AcceptanceCase(
        hours=11, diff=0.25, oom_after=QUICK, memory="5M", accepted=False
    ),
    "young, quick OOM, no change": AcceptanceCase(
        hours=11, diff=0.0, oom_after=QUICK, accepted=False
    ),
    "young, late OOM": AcceptanceCase(
        hours=11, diff=0.25, oom_after=57 * MINUTE, memory="20M", accepted=False
    ),
    "young, quick OOM of a container that is Off": AcceptanceCase(
        hours=11,
        diff=0.25,
        oom_after=QUICK,
        memory="20M",
        policies=(ContainerPolicy(container_name="c2", mode="Off"),),
        accepted=False,
    ),
    "young, quick OOM, all containers are Off": AcceptanceCase(
        hours=11,
        diff=0.25,
        oom_after=QUICK,
        memory="20M",
        policies=(
            ContainerPolicy(container_name="c1", mode="Auto"),
            ContainerPolicy(container_name="*", mode="Off"),
        ),
        accepted=False,
    ),
    "young, quick OOM of a container that was not observed": AcceptanceCase(
        hours=11, diff=0.25, oom_after=QUICK, memory="20M", observed="c1", accepted=False
    ),
}


@pytest.mark.parametrize("case", ACCEPTANCE.values(), ids=ACCEPTANCE)
def test_acceptance(case: AcceptanceCase) -> None:
    plain = pod_with_requests("cpu 1", "memory 10M", annotation=case.observed)
    killed = None
    if case.oom_after is not None:
        started = NOW - 10 * HOUR
        killed = ContainerState(
            terminated=ContainerStateTerminated(
                reason="OOMKilled", started_at=started, finished_at=started + case.oom_after
            )
        )
    status = msgspec.structs.replace(
        plain.status,
        start_time=NOW - timedelta(hours=case.hours),
        container_statuses=(ContainerStatus(name="c2", last_state=killed),),
    )
    target = f"cpu {1000 + 1000 * case.diff:.0f}m"
    autoscaler = vpa(
        policies=case.policies,
        recommendations=(
            recommendation(
                "c1", target=amounts(target), lower=amounts("cpu 1100m" if case.outside else "")
            ),
            recommendation("c2", target={"memory": case.memory}),
        ),
    )
    outcome = judge_pod(
        msgspec.structs.replace(plain, status=status),
        RecommendationFit(autoscaler),
        memory=NO_MEMORY,
        resized_at=None,
        thresholds=Thresholds(min_change=0.5, min_lifetime=12 * HOUR),
        features=FeatureGates(),
        now=NOW,
    )
    assert isinstance(outcome, Candidate) is case.accepted


# Complete passes


def snapshot_with(
    given: ClusterSnapshot, pods: Sequence[LivePod], autoscaler: VerticalPodAutoscaler
) -> ClusterSnapshot:
    (scaled,) = given.autoscaled
    return replace(given, autoscaled=(replace(scaled, pods=tuple(pods), vpa=autoscaler),))


def with_conditions(given: LivePod, *conditions: PodCondition) -> LivePod:
    status = msgspec.structs.replace(given.status, conditions=conditions)
    return msgspec.structs.replace(given, status=status)


async def test_infeasible_resizes_become_evictions_without_patches() -> None:
    given = snapshot(UpdateMode.IN_PLACE_OR_RECREATE)
    (scaled,) = given.autoscaled
    never = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    actuator = FakeActuator()
    pods = [with_conditions(pod, never) for pod in scaled.pods]
    await run(snapshot_with(given, pods, scaled.vpa), actuator)
    assert actuator.evicted == NAMES
    assert actuator.resized == []


BOOST = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2, duration_seconds=60))
BOOSTING = replace(OPEN, features=FeatureGates(in_place=True, cpu_startup_boost=True))


def boosted(
    mode: UpdateMode,
    *,
    seconds: float = 61,
    annotated: Sequence[str] = ("app",),
    gone: bool = False,
) -> ClusterSnapshot:
    """Return five boosted pods, Ready for ``seconds``; ``gone``: the VPA has no boost."""
    given = snapshot(mode)
    (scaled,) = given.autoscaled
    ready = PodCondition(
        type="Ready", status="True", last_transition_time=NOW - timedelta(seconds=seconds)
    )
    before = '{"requests":{"cpu":"5m"},"limits":{}}'
    pods = []
    for pod in scaled.pods:
        annotations = {f"vpaCpuStartupBoost/{name}": before for name in annotated}
        meta = msgspec.structs.replace(pod.metadata, annotations=annotations)
        pods.append(with_conditions(msgspec.structs.replace(pod, metadata=meta), ready))
    spec = msgspec.structs.replace(scaled.vpa.spec, startup_boost=None if gone else BOOST)
    return snapshot_with(given, pods, msgspec.structs.replace(scaled.vpa, spec=spec))


@pytest.mark.parametrize("mode", UpdateMode)
@pytest.mark.parametrize("refused", [False, True], ids=["accepted", "refused"])
async def test_an_expired_boost_is_removed_in_place_in_every_mode(
    mode: UpdateMode, *, refused: bool
) -> None:
    actuator = FakeActuator()
    if refused:
        actuator.resize_errors = dict.fromkeys(NAMES, InvalidError("no", reason="Invalid"))
    state = await run(boosted(mode), actuator, rules=BOOSTING)
    assert actuator.resized == NAMES
    assert actuator.evicted == []
    reason = Reason.UNBOOST_FAILED if refused else Reason.STARTUP_BOOST_OVER
    assert {memory.decision.reason for memory in state.pods.values() if memory.decision} == {reason}


@pytest.mark.parametrize("mode", UpdateMode)
async def test_a_boost_that_continues_prevents_other_actions(mode: UpdateMode) -> None:
    actuator = FakeActuator()
    await run(boosted(mode, seconds=60), actuator, rules=BOOSTING)
    assert actuator.resized == actuator.evicted == []


UNBOOSTED_VPA = {
    UpdateMode.OFF: ([], []),
    UpdateMode.INITIAL: ([], []),
    UpdateMode.RECREATE: ([], NAMES),
    UpdateMode.IN_PLACE: (NAMES, []),
}


@pytest.mark.parametrize(("mode", "want"), UNBOOSTED_VPA.items(), ids=UNBOOSTED_VPA)
async def test_pods_of_a_vpa_without_boost_are_updated_as_usual(
    mode: UpdateMode, want: tuple[list[str], list[str]]
) -> None:
    actuator = FakeActuator()
    state = await run(boosted(mode, gone=True), actuator, rules=BOOSTING)
    assert (actuator.resized, actuator.evicted) == want
    for memory in state.pods.values():
        assert memory.decision is None or memory.decision.reason is Reason.OUTSIDE_RANGE


# D13: requirements filter evictions, also after a failed resize, and no resizes

DOWN = EvictionRequirement(resources=("cpu",), change_requirement="TargetLowerThanRequests")
UP = EvictionRequirement(resources=("cpu",), change_requirement="TargetHigherThanRequests")

# The pods request 10m of cpu, and their target is 250m.
D13 = {
    "unmet, evictions": (UpdateMode.RECREATE, DOWN, False, (0, 0)),
    "unmet, resizes": (UpdateMode.IN_PLACE_OR_RECREATE, DOWN, False, (5, 0)),
    "unmet, resizes in mode InPlace": (UpdateMode.IN_PLACE, DOWN, False, (5, 0)),
    "unmet, evictions after refused resizes": (
        UpdateMode.IN_PLACE_OR_RECREATE,
        DOWN,
        True,
        (5, 0),
    ),
    "met, evictions": (UpdateMode.RECREATE, UP, False, (0, 5)),
    "met, evictions after refused resizes": (UpdateMode.IN_PLACE_OR_RECREATE, UP, True, (5, 5)),
}


@pytest.mark.parametrize(("mode", "rule", "refused", "want"), D13.values(), ids=D13)
async def test_requirements_filter_only_evictions(
    mode: UpdateMode, rule: EvictionRequirement, want: tuple[int, int], *, refused: bool
) -> None:
    given = snapshot(mode)
    (scaled,) = given.autoscaled
    policy = UpdatePolicy(update_mode=mode.value, eviction_requirements=(rule,))
    spec = msgspec.structs.replace(scaled.vpa.spec, update_policy=policy)
    actuator = FakeActuator()
    if refused:
        actuator.resize_errors = dict.fromkeys(NAMES, InvalidError("no", reason="Invalid"))
    ruled = snapshot_with(given, scaled.pods, msgspec.structs.replace(scaled.vpa, spec=spec))
    state = await run(ruled, actuator)
    assert (len(actuator.resized), len(actuator.evicted)) == want
    if rule is DOWN and (refused or mode is UpdateMode.RECREATE):
        decision = state.of("uid-web-0").decision
        assert decision is not None
        assert decision.reason is Reason.REQUIREMENTS_NOT_MET


# A container injected after our webhook, and a single replica


async def test_a_container_that_the_webhook_did_not_observe_leads_to_no_eviction() -> None:
    given = snapshot(UpdateMode.RECREATE)
    (scaled,) = given.autoscaled
    pods = []
    for pod in scaled.pods:
        meta = msgspec.structs.replace(pod.metadata, annotations={"vpaObservedContainers": "other"})
        pods.append(msgspec.structs.replace(pod, metadata=meta))
    actuator = FakeActuator()
    await run(snapshot_with(given, pods, scaled.vpa), actuator)
    assert actuator.evicted == []


@pytest.mark.parametrize(("minimum", "want"), [(None, []), (1, ["web-0"])])
async def test_a_single_replica_is_evicted_only_if_the_minimum_is_one(
    minimum: int | None, want: list[str]
) -> None:
    given = snapshot(UpdateMode.RECREATE, names=["web-0"])
    (scaled,) = given.autoscaled
    policy = UpdatePolicy(update_mode="Recreate", min_replicas=minimum)
    spec = msgspec.structs.replace(scaled.vpa.spec, update_policy=policy)
    actuator = FakeActuator()
    lone = snapshot_with(given, scaled.pods, msgspec.structs.replace(scaled.vpa, spec=spec))
    await run(lone, actuator)
    assert actuator.evicted == want
