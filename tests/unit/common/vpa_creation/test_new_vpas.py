"""The VPAs that workloads get, and the reasons why others get none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.target.horizontal import hpas_by_target
from common.target.owners import Controller
from common.vpa_creation.new_vpas import (
    Candidate,
    Creator,
    HpaConflict,
    NewVpa,
    SkippedWorkload,
    SkipReason,
    is_name_pattern,
    new_vpas,
)
from common.vpa_creation.policy import CreationPolicy
from created_vpas import hpa_of, vpa_of

WEB = Controller("shop", "Deployment", "web", "apps/v1")
RECREATE = CreationPolicy(mode=UpdateMode.RECREATE)


def decided(
    *candidates: Candidate,
    vpas: Sequence[VerticalPodAutoscaler] = (),
    policy: CreationPolicy = RECREATE,
    hpas: Sequence[Any] = (),
    pattern: str = "{name}",
) -> list[NewVpa | SkippedWorkload]:
    policies = {"shop": policy}
    by_target = hpas_by_target(hpas)
    made = new_vpas(candidates, vpas, by_target, policies, creator=Creator.COMMAND, pattern=pattern)
    return list(made)


def created(*candidates: Candidate, **more: Any) -> list[NewVpa]:
    found = decided(*candidates, **more)
    assert all(isinstance(each, NewVpa) for each in found)
    return [each for each in found if isinstance(each, NewVpa)]


def test_a_vpa_names_its_workload_and_its_creator() -> None:
    (new,) = created(Candidate(workload=WEB))
    assert msgspec.to_builtins(new.vpa) == {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "labels": {"vpa.autoscaling/created-by": "kubectl-vpa"},
        },
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Recreate"},
        },
    }, "without an owner reference: history outlives a workload that is created again"


REPLICA_SET = Controller("shop", "ReplicaSet", "web-1", "apps/v1")
SKIPPED = [
    pytest.param(
        Candidate(workload=REPLICA_SET, owner=WEB),
        SkipReason.OWNED,
        "Deployment web",
        id="a ReplicaSet of a Deployment",
    ),
    pytest.param(
        Candidate(workload=WEB, owner=Controller("shop", "Shop", "main", "example.com/v1")),
        SkipReason.OWNED_BY_CUSTOM_KIND,
        "Shop main",
        id="a Deployment of an operator",
    ),
    pytest.param(
        Candidate(workload=WEB, excluded=True), SkipReason.EXCLUDED, "", id="it is excluded"
    ),
]


@pytest.mark.parametrize(("candidate", "reason", "other"), SKIPPED)
def test_workloads_that_get_no_vpa(candidate: Candidate, reason: SkipReason, other: str) -> None:
    skipped = SkippedWorkload(workload=candidate.workload, reason=reason, other=other)
    assert decided(candidate) == [skipped]


@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate"])
def test_a_workload_with_a_vpa_of_any_mode_gets_no_other(mode: str) -> None:
    found = decided(Candidate(workload=WEB), vpas=[vpa_of("by-hand", target="web", mode=mode)])
    assert found == [SkippedWorkload(workload=WEB, reason=SkipReason.HAS_VPA, other="by-hand")]


def test_a_vpa_of_another_namespace_or_kind_is_no_reason_to_skip() -> None:
    others = [
        vpa_of("a", target="web", namespace="other"),
        vpa_of("b", target="web", kind="StatefulSet"),
    ]
    assert [each.vpa.metadata.name for each in created(Candidate(workload=WEB), vpas=others)] == [
        "web"
    ]


def test_the_result_changes_nothing_when_it_is_applied_again() -> None:
    candidate = Candidate(workload=WEB)
    (new,) = created(candidate)
    assert [type(each) for each in decided(candidate, vpas=[new.vpa])] == [SkippedWorkload]


def test_namespaces_without_a_policy_get_nothing() -> None:
    assert decided(Candidate(workload=Controller("other", "Deployment", "web", "apps/v1"))) == []


# Names


def candidates(*workloads: tuple[str, str]) -> list[Candidate]:
    return [Candidate(workload=Controller("shop", kind, name, "v1")) for kind, name in workloads]


@dataclass(frozen=True, kw_only=True)
class Naming:
    id: str
    want: list[str]
    workloads: tuple[tuple[str, str], ...] = (("Deployment", "web"),)
    taken: tuple[str, ...] = ()
    pattern: str = "{name}"


NAMINGS = [
    Naming(id="that of the workload", want=["web"]),
    Naming(id="by a pattern", pattern="{name}-{kind}-vpa", want=["web-deployment-vpa"]),
    Naming(
        id="a workload named like a placeholder",
        workloads=(("Deployment", "a"),),
        pattern="{kind}.{name}",
        want=["deployment.a"],
    ),
    Naming(
        id="two kinds with one name",
        workloads=(("StatefulSet", "web"), ("Deployment", "web")),
        want=["web", "web-statefulset"],
    ),
    Naming(id="taken by a VPA of another workload", taken=("web",), want=["web-deployment"]),
    Naming(id="taken twice", taken=("web", "web-deployment"), want=["web-55e00ed7"]),
    Naming(
        id="as long as a name can be",
        workloads=(("Deployment", "a" * 253),),
        want=["a" * 253],
    ),
    Naming(
        id="too long",
        workloads=(("Deployment", "a" * 243 + ".b" * 5),),
        pattern="vpa-{name}",
        want=["vpa-" + "a" * 240 + "-7463976b"],
    ),
]


@pytest.mark.parametrize("case", NAMINGS, ids=lambda case: case.id)
def test_names(case: Naming) -> None:
    vpas = [vpa_of(name, target="another") for name in case.taken]
    made = created(*candidates(*case.workloads), vpas=vpas, pattern=case.pattern)
    names = [each.vpa.metadata.name for each in made]
    assert names == case.want
    assert all(len(name) <= 253 for name in names)


def test_a_workload_whose_names_are_all_taken_is_skipped() -> None:
    vpas = [vpa_of(name, target="another") for name in ("web", "web-deployment", "web-55e00ed7")]
    (found,) = decided(Candidate(workload=WEB), vpas=vpas)
    assert found == SkippedWorkload(workload=WEB, reason=SkipReason.NO_FREE_NAME)


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("{name}", True),
        ("vpa-{name}.{kind}", True),
        ("vpa", False),
        ("{kind}", False),
        ("{name}-", False),
        ("{Name}-{name}", False),
        ("{name}_vpa", False),
    ],
)
def test_patterns(pattern: str, want: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_name_pattern(pattern) is want


# HPAs


@dataclass(frozen=True, kw_only=True)
class Beside:
    id: str
    hpas: list[Any]
    mode: UpdateMode = UpdateMode.RECREATE
    controlled: tuple[str, ...] | None = None
    want_mode: str = "Recreate"
    want_controlled: tuple[str, ...] | None = None
    conflict: HpaConflict | None = None


def conflict(*resources: str, left: tuple[str, ...] = (), was_off: bool = False) -> HpaConflict:
    return HpaConflict(hpa="cpu", resources=resources, left=left, was_off=was_off)


BESIDE = [
    Beside(
        id="on the use of cpu: memory is left",
        hpas=[hpa_of("cpu", "cpu")],
        want_controlled=("memory",),
        conflict=conflict("cpu", left=("memory",)),
    ),
    Beside(
        id="on the use of both: Off",
        hpas=[hpa_of("cpu", "cpu"), hpa_of("memory", "memory")],
        want_mode="Off",
        conflict=conflict("cpu", "memory"),
    ),
    Beside(
        id="on the only controlled resource: Off",
        hpas=[hpa_of("cpu", "cpu")],
        controlled=("cpu",),
        want_mode="Off",
        want_controlled=("cpu",),
        conflict=conflict("cpu"),
    ),
    Beside(
        id="on a resource that isn't controlled",
        hpas=[hpa_of("cpu", "cpu")],
        controlled=("memory",),
        want_controlled=("memory",),
    ),
    Beside(id="on an average value", hpas=[hpa_of("cpu", "cpu", type="AverageValue")]),
    Beside(id="of another workload", hpas=[hpa_of("cpu", "cpu", target="api")]),
    Beside(
        id="Off changes nothing, but is warned about",
        hpas=[hpa_of("cpu", "cpu")],
        mode=UpdateMode.OFF,
        want_mode="Off",
        conflict=conflict("cpu", was_off=True),
    ),
]


@pytest.mark.parametrize("case", BESIDE, ids=lambda case: case.id)
def test_beside_an_hpa(case: Beside) -> None:
    policy = CreationPolicy(mode=case.mode, controlled_resources=case.controlled)
    (new,) = created(Candidate(workload=WEB), policy=policy, hpas=case.hpas)
    spec = new.vpa.spec
    assert spec.update_policy is not None
    entries = spec.resource_policy.container_policies if spec.resource_policy else None
    controlled = entries[0].controlled_resources if entries else None
    assert (spec.update_policy.update_mode, controlled) == (case.want_mode, case.want_controlled)
    assert new.conflict == case.conflict
