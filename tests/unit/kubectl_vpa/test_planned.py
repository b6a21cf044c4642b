"""The plan of ``kubectl vpa plan``: of the updater's pass, and derived from the objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import ContainerPolicy, VerticalPodAutoscaler
from common.api.core import Pod, PodCondition
from kubectl_vpa.judge.planned import derived, grouped, of_updater, order, unseen, worded
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.status import ResourceStatus
from scripted_components import planned, planned_pod
from updater.decision import Reason

NOW = datetime(2026, 1, 2, tzinfo=UTC)  # pods of the builder started a day before
LARGE, SMALL = {"cpu": "500m"}, {"cpu": "50m"}
INFEASIBLE = PodCondition(type="PodResizePending", status="True", reason="Infeasible")


def pod(
    requests: Mapping[str, str] = LARGE,
    *,
    started: timedelta = timedelta(days=1),
    resize: PodCondition | None = None,
) -> Pod:
    made = builders.pod(containers=(builders.container(requests=requests),))
    conditions = () if resize is None else (resize,)
    status = replace(made.status, start_time=NOW - started, conditions=conditions)
    return replace(made, status=status)


def vpa(
    mode: str = "Recreate",
    *,
    target: Mapping[str, str] | None = SMALL,
    wide: bool = False,
    policies: tuple[ContainerPolicy, ...] = (),
) -> VerticalPodAutoscaler:
    lower, upper = ({"cpu": "10m"}, {"cpu": "2"}) if wide else (SMALL, SMALL)
    numbers = None
    if target is not None:
        numbers = (builders.recommendation(target=target, lower=lower, upper=upper),)
    return builders.vpa(mode=mode, recommendations=numbers, policies=policies)


USUAL = vpa()


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: tuple[str, str | None]  # decision and reason
    message: str
    unblock: bool = False
    vpa: VerticalPodAutoscaler = USUAL
    pods: Sequence[Pod] | None = (pod(), pod())
    controlled_by: str = ""


OUTSIDE = "a request is outside lower and upper bound"
CASES = [
    Case(id="mode Recreate evicts", want=("evict", "outside_range"), message=OUTSIDE),
    Case(id="mode Auto evicts", want=("evict", "outside_range"), message=OUTSIDE, vpa=vpa("Auto")),
    Case(
        id="mode InPlaceOrRecreate resizes",
        want=("resize", "outside_range"),
        message=OUTSIDE,
        vpa=vpa("InPlaceOrRecreate"),
    ),
    Case(
        id="mode InPlaceOrRecreate evicts where the resize is infeasible",
        want=("evict", "resize_infeasible"),
        message="the node can never hold what is wanted",
        vpa=vpa("InPlaceOrRecreate"),
        pods=[pod(resize=INFEASIBLE)],
    ),
    Case(
        id="mode InPlace waits where the resize is infeasible",
        want=("wait", "resize_infeasible"),
        message="the node can never hold what is wanted",
        unblock=True,
        vpa=vpa("InPlace"),
        pods=[pod(resize=INFEASIBLE)],
    ),
    Case(
        id="an old resize doesn't matter in mode Recreate",
        want=("evict", "outside_range"),
        message=OUTSIDE,
        pods=[pod(resize=INFEASIBLE)] * 2,
    ),
    Case(
        id="far from the target",
        want=("evict", "drifted"),
        message="old enough, and far enough from the target",
        vpa=vpa(wide=True),
    ),
    Case(
        id="one replica",
        want=("wait", "below_min_replicas"),
        message="fewer live replicas than the minimum: 1 running, minReplicas is 2",
        unblock=True,
        pods=[pod()],
    ),
    Case(
        id="in the range and young",
        want=("leave", "too_young"),
        message="in its range, and younger than the lifetime threshold",
        vpa=vpa(wide=True),
        pods=[pod(started=timedelta(hours=11, minutes=59))],
    ),
    Case(
        id="in the range and near the target",
        want=("leave", "too_small"),
        message="in its range, and closer to the target than --pod-update-threshold",
        vpa=vpa(target={"cpu": "455m"}, wide=True),
    ),
    Case(
        id="at the target",
        want=("leave", "no_change"),
        message="nothing differs from what is recommended",
        pods=[pod(SMALL)],
    ),
    Case(
        id="no container is scaled",
        want=("leave", "no_change"),
        message="nothing differs from what is recommended: no container of the pods is scaled",
        vpa=vpa(policies=(ContainerPolicy(container_name="*", mode="Off"),)),
    ),
    Case(
        id="mode Off",
        want=("leave", None),
        message="mode Off changes no running pods",
        vpa=vpa("Off"),
    ),
    Case(
        id="mode Initial",
        want=("leave", None),
        message="mode Initial changes no running pods",
        vpa=vpa("Initial"),
    ),
    Case(
        id="another VPA controls the pods",
        want=("leave", None),
        message="VPA older controls the same pods",
        controlled_by="older",
    ),
    Case(
        id="no recommendation",
        want=("leave", None),
        message="no recommender processes it; is one running?",
        vpa=vpa(target=None),
    ),
    Case(
        id="no pods",
        want=("leave", None),
        message="no pods now; new ones get the target",
        pods=(),
    ),
    Case(
        id="the pods can't be read",
        want=("leave", None),
        message="the pods could not be read",
        pods=None,
    ),
]


def facts(case: Case) -> VpaFacts:
    groups = PodGroups()
    groups.add(case.pods or ())
    return VpaFacts(
        vpa=case.vpa,
        groups=None if case.pods is None else list(groups.groups.values()),
        controlled_by=case.controlled_by,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_derived(case: Case) -> None:
    results = list(derived(facts(case), now=NOW))
    assert len(results) == (len(case.pods or ()) if case.want[1] else 1)
    for each in results:
        assert (each.decision, each.reason, each.message) == (*case.want, case.message)
        assert (each.unblock is not None) == case.unblock
        assert (each.pod is not None) == (case.want[1] is not None)


def test_a_young_pod_has_an_end_and_an_updated_one_its_numbers() -> None:
    (young,) = (case for case in CASES if case.id == "in the range and young")
    (result,) = derived(facts(young), now=NOW)
    assert result.until == NOW + timedelta(minutes=1)
    assert result.cpu == ResourceStatus(request="500m", target="50m", drift=-0.9)
    assert result.memory == ResourceStatus()


def test_the_plan_of_the_updater_keeps_its_words() -> None:
    pod_ = planned_pod("web-1", "wait", Reason.BELOW_MIN_REPLICAS, detail="1 of 2 live.")
    (result,) = of_updater(vpa(), planned("web", pod_))
    assert result.message == "fewer live replicas than the minimum: 1 of 2 live"
    assert (result.pod, result.node, result.decision) == ("web-1", "node-1", "wait")
    assert (result.since, result.unblock) == (pod_.since, pod_.unblock)
    assert (result.cpu.request, result.cpu.target, result.cpu.drift) == ("500m", "49m", -0.902)


def test_a_vpa_without_decisions_has_one_line() -> None:
    (off,) = of_updater(vpa("Off"), planned("web", why="mode Off"))
    assert (off.pod, off.decision, off.reason, off.message) == (None, "leave", None, "mode Off")
    assert unseen(vpa()).message == "the last pass has no decision on it"


def test_pods_to_act_on_come_first_and_unknown_decisions_last() -> None:
    decisions = ("later", "leave", "wait", "resize", "evict")
    pods = [planned_pod(each, each, Reason.DRIFTED) for each in decisions]
    results = sorted(of_updater(vpa(), planned("web", *pods)), key=order)
    assert [each.decision for each in results] == list(reversed(decisions))


def test_equal_pods_are_one_group() -> None:
    alike = [planned_pod(f"web-{number}", "wait", Reason.NO_TURN) for number in range(3)]
    other = planned_pod("web-3", "wait", Reason.NO_TURN, requests={"cpu": "1"})
    results = [*of_updater(vpa(), planned("web", *alike, other)), unseen(vpa("Off"))]
    assert [each.pods for each in grouped(results)] == [3, 1, 0]


@pytest.mark.parametrize(
    ("meaning", "detail", "want"),
    [
        ("The pod is gone.", "", "the pod is gone"),
        ("A quota refuses it.", "cpu: 1 of 1 used.", "a quota refuses it: cpu: 1 of 1 used"),
        ("OOM-killed soon after its start.", "", "OOM-killed soon after its start"),
        ("", "", ""),
    ],
    ids=["a sentence", "with numbers", "an abbreviation", "nothing"],
)
def test_a_meaning_becomes_a_clause(meaning: str, detail: str, want: str) -> None:
    assert worded(meaning, detail) == want
