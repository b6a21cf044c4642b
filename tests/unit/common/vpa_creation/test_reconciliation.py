"""The VPAs of namespaces with the label: which are created, updated and deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from common.api.autoscaling import (
    EvictionRequirement,
    ResourcePolicy,
    UpdateMode,
    UpdatePolicy,
    VerticalPodAutoscaler,
)
from common.target.horizontal import hpas_by_target
from common.target.owners import Controller
from common.vpa_creation.new_vpas import Candidate, Creator
from common.vpa_creation.policy import CreationPolicy
from common.vpa_creation.reconciliation import (
    KEPT_FOR,
    Changes,
    EnabledNamespaces,
    VpaName,
    reconcile,
)
from created_vpas import hpa_of, vpa_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WEB = Candidate(workload=Controller("shop", "Deployment", "web", "apps/v1"))
MANAGED = vpa_of("web", target="web", created_by=Creator.NAMESPACE_LABEL)
BY_HAND = vpa_of("by-hand", target="web", mode="Initial")
RECREATE = CreationPolicy(mode=UpdateMode.RECREATE)
ENABLED = EnabledNamespaces(policies={"shop": RECREATE})
NONE = EnabledNamespaces(policies={})


def changes(
    vpas: Sequence[VerticalPodAutoscaler] = (),
    candidates: Sequence[Candidate] = (WEB,),
    *,
    namespaces: EnabledNamespaces = ENABLED,
    hpas: Sequence[Any] = (),
    absent: Mapping[VpaName, datetime] | None = None,
) -> Changes:
    return reconcile(
        namespaces, candidates, vpas, hpas_by_target(hpas), absent=absent or {}, now=NOW
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    vpas: Sequence[VerticalPodAutoscaler] = ()
    candidates: Sequence[Candidate] = (WEB,)
    namespaces: EnabledNamespaces = ENABLED
    create: Sequence[str] = ()
    update: Sequence[str] = ()
    delete: Mapping[str, str] | None = None  # reasons by name


KEPT = vpa_of("web", target="web", created_by="shop-team")
OF_COMMAND = vpa_of("web", target="web", created_by=Creator.COMMAND)
SECOND = vpa_of("web-2", target="web", created_by=Creator.NAMESPACE_LABEL)
INVALID = EnabledNamespaces(policies={}, unchanged=("shop",))
GONE = "its namespace isn't enabled any more"
CASES = [
    Case(id="a workload without a VPA gets one", create=["web"]),
    Case(id="it stays", vpas=[MANAGED]),
    Case(id="a namespace without the label gets none", namespaces=NONE),
    Case(id="the label is removed", vpas=[MANAGED], namespaces=NONE, delete={"web": GONE}),
    Case(
        id="the label is removed, a VPA of a person stays",
        vpas=[BY_HAND, OF_COMMAND],
        namespaces=NONE,
    ),
    Case(id="the mark was changed: the VPA stays", vpas=[KEPT], namespaces=NONE),
    Case(
        id="the mark was changed: the VPA isn't updated",
        vpas=[KEPT],
        namespaces=EnabledNamespaces(policies={"shop": CreationPolicy()}),
    ),
    Case(id="invalid annotations: nothing is created", namespaces=INVALID),
    Case(
        id="invalid annotations: nothing is updated or deleted",
        vpas=[MANAGED, SECOND],
        candidates=[],
        namespaces=INVALID,
    ),
    Case(id="a workload with a VPA of a person is left alone", vpas=[BY_HAND]),
    Case(id="a workload with a VPA of the command is left alone", vpas=[OF_COMMAND]),
    Case(
        id="a person creates another VPA",
        vpas=[MANAGED, BY_HAND],
        delete={"web": "VPA by-hand has the same target"},
    ),
    Case(
        id="two of ours for one workload",
        vpas=[SECOND, MANAGED],
        delete={"web-2": "VPA web has the same target"},
    ),
    Case(
        id="the workload is excluded",
        vpas=[MANAGED],
        candidates=[replace(WEB, excluded=True)],
        delete={"web": "its workload is excluded"},
    ),
    Case(id="an excluded workload gets none", candidates=[replace(WEB, excluded=True)]),
    Case(
        id="the workload gets an owner",
        vpas=[MANAGED],
        candidates=[replace(WEB, owner=Controller("shop", "Shop", "main"))],
        delete={"web": "its workload has an owner"},
    ),
    Case(
        id="the mode of the namespace changes",
        vpas=[MANAGED],
        namespaces=EnabledNamespaces(policies={"shop": CreationPolicy()}),
        update=["web"],
    ),
    Case(
        id="the bounds of the namespace change",
        vpas=[MANAGED],
        namespaces=EnabledNamespaces(
            policies={"shop": replace(RECREATE, max_allowed={"cpu": "2"})}
        ),
        update=["web"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_changes(case: Case) -> None:
    found = changes(case.vpas, case.candidates, namespaces=case.namespaces)
    assert [each.vpa.metadata.name for each in found.create] == list(case.create)
    assert [each.vpa.metadata.name for each in found.update] == list(case.update)
    assert {each.vpa.metadata.name: each.why for each in found.delete} == (case.delete or {})


def test_a_new_vpa_has_the_mark_of_the_namespace_label() -> None:
    (new,) = changes().create
    assert new.vpa == MANAGED


def test_what_was_created_isnt_updated() -> None:
    policy = CreationPolicy(mode=UpdateMode.RECREATE, min_replicas=2, max_allowed={"cpu": "2"})
    namespaces = EnabledNamespaces(policies={"shop": policy})
    (new,) = changes(namespaces=namespaces).create
    again = changes([new.vpa], namespaces=namespaces)
    assert (again.create, again.update, again.delete) == ((), [], [])


def test_fields_that_the_policy_lacks_are_a_persons() -> None:
    requirement = EvictionRequirement(
        resources=("cpu",), change_requirement="TargetHigherThanRequests"
    )
    update = UpdatePolicy(update_mode="Recreate", eviction_requirements=(requirement,))
    assert not changes([edited(update_policy=update)]).update


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"update_policy": UpdatePolicy(update_mode="Off")}, id="mode"),
        pytest.param(
            {"update_policy": UpdatePolicy(update_mode="Recreate", min_replicas=1)}, id="replicas"
        ),
        pytest.param({"update_policy": None}, id="no mode"),
        pytest.param({"resource_policy": ResourcePolicy(container_policies=())}, id="policy"),
    ],
)
def test_fields_of_the_policy_are_set_again(spec: dict[str, Any]) -> None:
    (update,) = changes([edited(**spec)]).update
    assert update.policy == RECREATE


def test_an_hpa_that_is_created_later_takes_its_resource() -> None:
    (update,) = changes([MANAGED], hpas=[hpa_of("web", "cpu")]).update
    assert update.policy.controlled_resources == ("memory",)


# The workload doesn't exist


def test_a_vpa_outlives_its_workload_for_a_while() -> None:
    found = changes([MANAGED], [])
    assert (found.delete, found.absent) == ([], {("shop", "web"): NOW})


@pytest.mark.parametrize(
    ("age", "deleted"),
    [
        pytest.param(KEPT_FOR - timedelta(seconds=1), 0, id="shorter than kept"),
        pytest.param(KEPT_FOR, 1, id="as long as kept"),
        pytest.param(timedelta(hours=-1), 0, id="from a clock that was ahead"),
    ],
)
def test_a_vpa_is_deleted_some_time_after_its_workload(age: timedelta, deleted: int) -> None:
    found = changes([MANAGED], [], absent={("shop", "web"): NOW - age})
    assert len(found.delete) == deleted
    assert found.absent == {("shop", "web"): min(NOW - age, NOW)}


def test_a_workload_that_is_created_again_keeps_its_vpa() -> None:
    found = changes([MANAGED], absent={("shop", "web"): NOW - KEPT_FOR})
    assert (found.delete, found.absent) == ([], {})


def edited(**spec: Any) -> VerticalPodAutoscaler:
    """Return the managed VPA after a person changed its spec."""
    return structs.replace(MANAGED, spec=structs.replace(MANAGED.spec, **spec))
