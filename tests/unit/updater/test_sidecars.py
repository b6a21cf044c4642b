"""Native sidecars in the updater's decisions (AEP-8905, X107)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from builders import container, recommendation, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    ContainerRecommendation,
    GenericStartupBoost,
    StartupBoost,
    UpdateMode,
)
from common.api.core import Container, ContainerStatus, Pod
from common.features import FeatureGates
from common.kube.cache import Change
from common.recommendation.expected_pod import resized_spec
from common.recommendation.preflight import Check, qos_refusal
from sidecars import pod_with_init, sidecar
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.evaluate.update_verdict import Thresholds
from updater.event_trigger import is_event_of_pod
from updater.eviction.replacement_result import ReplacementResult, check_replacement
from updater.plan.candidate import Candidate, judge_pod, plan_unboost
from updater.plan.candidate_resize import Planner, plan_candidate
from updater.resize.infeasible_resize import spec_requests
from updater.resize.resize_plan import ResizePlan, unfinished_restarts
from updater.snapshot.live_pod import LivePod, LivePodWithSidecars
from updater.state import NO_MEMORY
from updater_harness import NOW

PLAIN = container("migrate", requests={"cpu": "1"})
APP = container("app", requests={"cpu": "100m"})
PROXY = sidecar(requests={"cpu": "50m"})
APP_FITS = recommendation(
    "app", target={"cpu": "100m"}, lower={"cpu": "100m"}, upper={"cpu": "100m"}
)


def exactly(name: str, cpu: str) -> ContainerRecommendation:
    return recommendation(name, target={"cpu": cpu}, lower={"cpu": cpu}, upper={"cpu": cpu})


def status(name: str = "proxy", **fields: Any) -> ContainerStatus:
    return msgspec.convert({"name": name, **fields}, type=ContainerStatus)


def actual(cpu: str, name: str = "proxy") -> ContainerStatus:
    return status(name, resources={"requests": {"cpu": cpu}})


KILLED = status(
    lastState={
        "terminated": {
            "reason": "OOMKilled",
            "startedAt": (NOW - timedelta(minutes=2)).isoformat(),
            "finishedAt": (NOW - timedelta(minutes=1)).isoformat(),
        }
    }
)
FAR = exactly("proxy", "200m")
WIDE = recommendation(
    "proxy",
    target={"cpu": "70m", "memory": "100Mi"},
    lower={"cpu": "1m", "memory": "1Mi"},
    upper={"cpu": "1", "memory": "1Gi"},
)
LARGER = sidecar(requests={"cpu": "50m", "memory": "50Mi"})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A young pod whose container ``app`` has its recommendation."""

    id: str
    want: Reason
    init: tuple[Container, ...] = (PLAIN, PROXY)
    statuses: tuple[ContainerStatus, ...] | None = None
    recommended: ContainerRecommendation = FAR
    observed: str = "app, proxy"
    gate: bool = True


CASES = [
    Case(id="a sidecar outside its range", want=Reason.OUTSIDE_RANGE),
    Case(id="the gate is off", gate=False, want=Reason.TOO_YOUNG),
    Case(id="not observed by the webhook", observed="app", want=Reason.TOO_YOUNG),
    Case(id="reported with the target", statuses=(actual("200m"),), want=Reason.TOO_YOUNG),
    Case(id="reported with other resources", statuses=(actual("70m"),), want=Reason.OUTSIDE_RANGE),
    Case(
        id="a plain init container of the sidecar's name",
        init=(container("proxy", requests={"cpu": "50m"}),),
        want=Reason.TOO_YOUNG,
    ),
    Case(id="in its range", init=(LARGER,), recommended=WIDE, want=Reason.TOO_YOUNG),
    Case(
        id="quick OOM",
        init=(LARGER,),
        recommended=WIDE,
        statuses=(KILLED,),
        want=Reason.OOMED_QUICKLY,
    ),
    Case(
        id="quick OOM, the gate is off",
        init=(LARGER,),
        recommended=WIDE,
        statuses=(KILLED,),
        gate=False,
        want=Reason.TOO_YOUNG,
    ),
]


def new_pod(case: Case) -> Pod:
    given = pod_with_init(
        *case.init,
        gate=case.gate,
        containers=(APP,),
        annotations={"vpaObservedContainers": case.observed},
        statuses=case.statuses,
    )
    began = msgspec.structs.replace(given.status, start_time=NOW - timedelta(hours=1))
    return msgspec.structs.replace(given, status=began)


def judge(given: Pod, *recommended: ContainerRecommendation) -> Candidate | Decision:
    return judge_pod(
        given,
        RecommendationFit(vpa(recommendations=(APP_FITS, *recommended))),
        memory=NO_MEMORY,
        resized_at=None,
        thresholds=Thresholds(),
        features=FeatureGates(),
        now=NOW,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_judge_pod(case: Case) -> None:
    outcome = judge(new_pod(case), case.recommended)
    reason = outcome.why if isinstance(outcome, Candidate) else outcome.reason
    assert reason is case.want


# Resizes


def planned(given: Pod, **cpu: str) -> ResizePlan:
    recommended = [exactly(name, amount) for name, amount in cpu.items()]
    candidate = judge(given, *recommended)
    assert isinstance(candidate, Candidate)
    plan = plan_candidate(candidate, vpa(recommendations=(APP_FITS, *recommended)), ())
    assert isinstance(plan, ResizePlan)
    return plan


def test_a_sidecar_is_resized_at_its_path() -> None:
    plan = planned(new_pod(CASES[0]), proxy="200m", migrate="7m")
    assert [(each.path, each.value) for each in plan.operations] == [
        ("/spec/initContainers/1/resources/requests/cpu", "200m")
    ]
    assert plan.changes == {("proxy", "cpu")}
    assert not plan.restarts
    assert plan.targets.keys() == {"app", "proxy"}


RESTARTING = msgspec.convert(
    {
        **msgspec.to_builtins(PROXY),
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    },
    type=Container,
)


def test_a_resize_may_restart_a_sidecar() -> None:
    given = new_pod(replace(CASES[0], init=(PLAIN, RESTARTING)))
    assert planned(given, proxy="200m").restarts
    assert spec_requests(given).keys() == {"app", "proxy"}


@pytest.mark.parametrize(
    ("allocated", "gate", "want"),
    [
        pytest.param("40m", True, True, id="not applied yet"),
        pytest.param("50m", True, False, id="applied"),
        pytest.param("40m", False, False, id="the gate is off"),
    ],
)
def test_an_unfinished_restart_of_a_sidecar_counts_against_the_budget(
    allocated: str, *, gate: bool, want: bool
) -> None:
    allocation = (status(allocatedResources={"cpu": allocated}),)
    given = new_pod(replace(CASES[0], init=(RESTARTING,), statuses=allocation, gate=gate))
    assert unfinished_restarts(given, resizing=False) is want


def test_the_qos_class_of_a_resize_counts_the_sidecar() -> None:
    full = {"cpu": "100m", "memory": "1Gi"}
    given = pod_with_init(
        sidecar(requests=full, limits=full),
        containers=(container("app", requests=full, limits=full),),
    )
    given = msgspec.structs.replace(
        given, status=msgspec.structs.replace(given.status, start_time=NOW - timedelta(hours=1))
    )
    requests_only = ContainerPolicy(container_name="*", controlled_values="RequestsOnly")
    autoscaler = vpa(recommendations=(exactly("proxy", "50m"),), policies=(requests_only,))
    candidate = judge_pod(
        given,
        RecommendationFit(autoscaler),
        memory=NO_MEMORY,
        resized_at=None,
        thresholds=Thresholds(),
        features=FeatureGates(),
        now=NOW,
    )
    assert isinstance(candidate, Candidate)
    plan = plan_candidate(candidate, autoscaler, ())
    assert isinstance(plan, ResizePlan)
    refused = qos_refusal(given, resized_spec(given.spec, plan.operations, ()))
    assert refused is not None
    assert refused.check is Check.QOS_CLASS


def test_pods_with_other_reports_of_their_sidecars_share_no_result() -> None:
    one = new_pod(replace(CASES[0], statuses=(actual("70m"),)))
    reported = msgspec.structs.replace(
        one.status, init_container_statuses=(status(resources={"requests": {"cpu": "200m"}}),)
    )
    other = msgspec.structs.replace(one, status=reported)
    fits = RecommendationFit(vpa(recommendations=(APP_FITS, exactly("proxy", "200m"))))
    first, second = fits.measured(one), fits.measured(other)
    assert not isinstance(first, Decision)
    assert not isinstance(second, Decision)
    assert first.requests != second.requests
    planner = Planner(fits.vpa, ())
    candidate = judge(one, exactly("proxy", "200m"))
    assert isinstance(candidate, Candidate)
    plan = planner.plan(candidate)
    assert planner.plan(candidate) is plan
    assert planner.plan(replace(candidate, pod=other)) is not plan


# Boosts

BEFORE = '{"requests":{"cpu":"5m"},"limits":{}}'
BOOST = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2))


@pytest.mark.parametrize(
    ("gate", "want"),
    [(True, [("/spec/initContainers/1/resources/requests/cpu", "5m")]), (False, [])],
    ids=["gate on", "gate off"],
)
def test_the_boost_of_a_sidecar_is_removed(want: list[tuple[str, str]], *, gate: bool) -> None:
    """With the gate off only the annotation is removed."""
    mark = "vpaCpuStartupBoost/proxy"
    given = pod_with_init(PLAIN, PROXY, gate=gate, containers=(APP,), annotations={mark: BEFORE})
    autoscaler = vpa(recommendations=None)
    autoscaler = msgspec.structs.replace(
        autoscaler, spec=msgspec.structs.replace(autoscaler.spec, startup_boost=BOOST)
    )
    found = plan_unboost(
        given,
        autoscaler,
        (),
        mode=UpdateMode.RECREATE,
        expired=("proxy",),
        killed_at={},
        now=NOW,
    )
    assert isinstance(found, ResizePlan)
    assert [(each.path, each.value) for each in found.operations] == want


# Replacements, and events of pods


@pytest.mark.parametrize(
    ("cpu", "gate", "want"),
    [
        pytest.param("200m", True, ReplacementResult.RIGHT, id="as recommended"),
        pytest.param("50m", True, ReplacementResult.OUTSIDE_RANGE, id="not as recommended"),
        pytest.param("50m", False, ReplacementResult.RIGHT, id="the gate is off"),
    ],
)
def test_a_replacement_is_right_if_its_sidecar_is(
    cpu: str, want: ReplacementResult, *, gate: bool
) -> None:
    given = new_pod(replace(CASES[0], init=(sidecar(requests={"cpu": cpu}),), gate=gate))
    recommended = (APP_FITS, exactly("proxy", "200m"))
    assert check_replacement(given, vpa(recommendations=recommended), ()) is want


def served_pod(kind: type[LivePod], *statuses: Mapping[str, Any]) -> LivePod:
    given = new_pod(CASES[0])
    body = msgspec.to_builtins(given)
    body["status"]["initContainerStatuses"] = list(statuses)
    return msgspec.convert(body, type=kind, strict=False)


RUNS: Mapping[str, Any] = {"name": "proxy", "resources": {"requests": {"cpu": "50m"}}}
MIGRATED: Mapping[str, Any] = {"name": "migrate", "resources": {"requests": {"cpu": "1"}}}
KILL: Mapping[str, Any] = {
    **RUNS,
    "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}},
}
RESIZED: Mapping[str, Any] = {"name": "proxy", "resources": {"requests": {"cpu": "60m"}}}


@pytest.mark.parametrize("kind", [LivePod, LivePodWithSidecars], ids=["gate off", "gate on"])
@pytest.mark.parametrize("after", [KILL, RESIZED], ids=["killed", "resized"])
def test_changes_of_a_sidecar_are_events(kind: type[LivePod], after: Mapping[str, Any]) -> None:
    old, new = served_pod(kind, MIGRATED, RUNS), served_pod(kind, MIGRATED, after)
    assert is_event_of_pod(Change(old, new)) is new.spec.scales_sidecars


def test_of_init_containers_only_sidecars_are_cached_with_the_gate() -> None:
    assert served_pod(LivePod, MIGRATED, RUNS).status.init_container_statuses is None
    kept = served_pod(LivePodWithSidecars, MIGRATED, RUNS).status.init_container_statuses
    assert [each.name for each in kept or ()] == ["proxy"]
