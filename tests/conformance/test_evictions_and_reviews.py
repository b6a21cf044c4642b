"""Recorded evictions, quota statuses and admission reviews, replayed in the sandbox."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from fixed_clock import FixedClock
from recorded_cases import Recorded, answer, recorded
from sandbox.admission.chain import AdmissionRequest, Operation, UserInfo
from sandbox.admission.disruption import GuardedPod, budget_status
from sandbox.admission.eviction import evict
from sandbox.admission.quotas import pod_usage, quota_status
from sandbox.admission.webhook_rules import review
from sandbox.errors import ApiError
from sandbox.objects.resources import POD_DISRUPTION_BUDGETS, PODS
from sandbox.objects.store import Store
from sandbox.patching.apply import copied

NOW = datetime(2026, 11, 21, 8, 25, 10, tzinfo=UTC)

OUT_OF_SCOPE = {
    "eviction-rbac-denied": "refused before the eviction is looked at: test_server.py",
    "eviction-pod-after": "a read of what an eviction left, checked below",
    "eviction-wrong-uid": "names a recorded uid in its message, checked below",
    "eviction-wrong-resource-version": "names a recorded version in its message, checked below",
}


def pod(name: str, *, phase: str = "Running", ready: bool = True, **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "evict",
            "uid": f"uid-{name}",
            "labels": {"app": name.partition("-")[0]},
            "generation": 1,
            **meta,
        },
        "spec": {"nodeName": "manual", "containers": [{"name": "app", "image": "i"}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def budget(name: str, app: str, *, generation: int = 1, spec: Any = None, **status: Any) -> Any:
    return {
        "metadata": {"name": name, "namespace": "evict", "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 1, **(spec or {})},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 0,
            "currentHealthy": 2,
            "desiredHealthy": 1,
            **status,
        },
    }


BEFORE: dict[str, tuple[Mapping[str, Any], list[Any]]] = {
    "eviction-bare-pod-max-unavailable": (
        pod("p8"),
        [budget("bare", "p8", currentHealthy=1, desiredHealthy=0)],
    ),
    "eviction-pdb-allowed": (
        pod("loose-p8wgq"),
        [budget("loose", "loose", disruptionsAllowed=1)],
    ),
    "eviction-pdb-controller-behind": (
        pod("p6"),
        [budget("unseen", "p6", observedGeneration=0, disruptionsAllowed=1)],
    ),
    "eviction-pdb-exhausted": (
        pod("guarded-55nvq"),
        [budget("guarded", "guarded", currentHealthy=2, desiredHealthy=2)],
    ),
    "eviction-pdb-exhausted-dry-run": (
        pod("guarded-55nvq"),
        [budget("guarded", "guarded", currentHealthy=2, desiredHealthy=2)],
    ),
    "eviction-pdb-second": (
        pod("loose-r6szm"),
        [budget("loose", "loose", currentHealthy=1, desiredHealthy=1)],
    ),
    "eviction-pending-pod-ignores-pdb": (
        pod("p7", phase="Pending", ready=False),
        [budget("strict", "p7")],
    ),
    "eviction-terminating": (
        pod("p1", deletionTimestamp="2026-11-21T08:25:40Z"),
        [budget("strict", "p1")],
    ),
    "eviction-two-pdbs": (pod("p4"), [budget("one", "p4"), budget("two", "p4")]),
    "eviction-unready-always-allow": (
        pod("sick2-t58xb", ready=False),
        [
            budget(
                "sick2",
                "sick2",
                spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"},
                currentHealthy=0,
            )
        ],
    ),
    "eviction-unready-if-healthy-budget": (
        pod("sick-75pj4", ready=False),
        [budget("sick", "sick", currentHealthy=0, desiredHealthy=1)],
    ),
}


class Evictions:
    """A store with one pod and its budgets, and the requested deletions."""

    def __init__(self, case: Recorded) -> None:
        self.case = case
        self.name = case.path[6]
        self.store = Store()
        self.deleted: list[tuple[str, Mapping[str, Any]]] = []
        self.store.create(PODS, pod("other"))  # so that no pod has the version 1
        before, budgets = BEFORE.get(case.case, (pod(self.name), []))
        if case.case != "eviction-not-found":
            self.store.create(PODS, copied(dict(before)))
        for only_case in budgets:
            self.store.create(POD_DISRUPTION_BUDGETS, copied(only_case))

    def run(self) -> dict[str, Any]:
        try:
            return evict(
                self.store,
                FixedClock(NOW),
                "evict",
                self.name,
                self.case.body,
                dry_run=self.case.dry_run,
                delete=lambda _, name, options: self.deleted.append((name, options)),
            )
        except ApiError as error:
            return error.status_object()


@pytest.mark.parametrize(
    "case",
    [case for case in recorded("eviction-") if case.case not in OUT_OF_SCOPE],
    ids=lambda case: case.case,
)
def test_recorded_evictions(case: Recorded) -> None:
    evictions = Evictions(case)
    version = evictions.store.version
    got = evictions.run()
    assert got == {**case.response, "metadata": {}}
    goes = case.status == 201 and "dry-run" not in case.case
    assert [name for name, _ in evictions.deleted] == ([evictions.name] if goes else [])
    if not goes:
        assert evictions.store.version == version, "a refusal and a dry run write nothing"


def only_case(name: str) -> Recorded:
    return next(case for case in recorded(name) if case.case == name)


def test_options_of_the_eviction_reach_the_deletion() -> None:
    evictions = Evictions(only_case("eviction-grace-period"))
    evictions.run()
    assert evictions.deleted == [("p3", {"gracePeriodSeconds": 5})]


@pytest.mark.parametrize("name", ["eviction-wrong-uid", "eviction-wrong-resource-version"])
def test_preconditions(name: str) -> None:
    case = only_case(name)
    evictions = Evictions(case)
    got, want = answer(evictions.run()), answer(case.response)
    for text in (got, want):
        text["message"] = text["message"].partition(" in record (")[0]
    assert got == want
    assert not evictions.deleted


def test_an_evicted_pod_has_the_reason() -> None:
    evictions = Evictions(only_case("eviction-no-pdb"))
    evictions.run()
    want = only_case("eviction-pod-after").response["status"]["conditions"][-1]
    stored = evictions.store.get(PODS, "evict", "p1")
    assert stored is not None
    assert stored.object(PODS)["status"]["conditions"][-1] == want


def test_an_eviction_spends_the_budget() -> None:
    evictions = Evictions(only_case("eviction-pdb-allowed"))
    evictions.run()
    stored = evictions.store.get(POD_DISRUPTION_BUDGETS, "evict", "loose")
    assert stored is not None
    status = stored.object(POD_DISRUPTION_BUDGETS)["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"loose-p8wgq": "2026-11-21T08:25:10Z"}


GUARDED: dict[str, list[GuardedPod]] = {
    "pdb-bare-pod-status": [GuardedPod(name="p8", healthy=True)],
    "pdb-status-after-eviction": [
        GuardedPod(name="loose-r6szm", healthy=True, controller="rs", expected=2),
    ],
    "pdb-status-exhausted": [
        GuardedPod(name=name, healthy=True, controller="rs", expected=2) for name in ("a", "b")
    ],
}


@pytest.mark.parametrize("case", recorded("pdb-"), ids=lambda case: case.case)
def test_recorded_budgets(case: Recorded) -> None:
    budget_ = copied(case.response)
    want = budget_["status"]
    got = budget_status(budget_, GUARDED[case.case], NOW)
    assert got == {**want, "conditions": got["conditions"]}
    for mine, theirs in zip(got["conditions"], want["conditions"], strict=True):
        assert {**mine, "lastTransitionTime": ""} == {**theirs, "lastTransitionTime": ""}


QUOTA_OUT_OF_SCOPE = {
    "quota-after-decrease-not-actuated": "the real controller had not looked again: 400m, not 100m",
    "quota-infeasible": "the real controller had not looked again: 400m, not 50m",
}


@pytest.mark.parametrize(
    ("name", "spec_cpu", "status_cpu"),
    [("quota-after-resize", "400m", "100m"), ("quota-after-decrease-actuated", "50m", "50m")],
)
def test_recorded_quota_status(name: str, spec_cpu: str, status_cpu: str) -> None:
    case = only_case(name)
    limits = {"memory": "128Mi"}
    counted = {
        "metadata": {"name": "p1"},
        "spec": {
            "containers": [
                {"name": "app", "resources": {"requests": {"cpu": spec_cpu}, "limits": limits}}
            ]
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "app", "resources": {"requests": {"cpu": status_cpu}, "limits": limits}}
            ],
        },
    }
    assert (
        quota_status(case.response, [(counted, pod_usage(counted, NOW))])
        == (case.response["status"])
    )
    assert set(QUOTA_OUT_OF_SCOPE) < {case.case for case in recorded("quota-")}


@pytest.mark.parametrize("minor", [33, 36])
def test_recorded_reviews(minor: int) -> None:
    for case in recorded("review-", minor):
        if minor == 33 and not case.own:
            continue
        sent = case.raw["review"]["body"]
        request = sent["request"]
        user = request["userInfo"]
        asked = AdmissionRequest(
            operation=Operation(request["operation"]),
            resource=PODS,
            subresource=request.get("subResource", ""),
            user=UserInfo(
                username=user["username"],
                uid=user.get("uid", ""),
                groups=tuple(user["groups"]),
                extra={key: tuple(values) for key, values in user.get("extra", {}).items()},
            ),
            namespace=request["namespace"],
            name=request.get("name", ""),
            object=_without_null_times(request["object"]),
            old_object=_without_null_times(request["oldObject"]),
            dry_run=request["dryRun"],
            options=request["options"],
        )
        got = review(asked, request["uid"], minor=minor)
        assert got == sent, case.id
        assert list(got["request"]) == list(request), case.id


def _without_null_times(obj: dict[str, Any] | None) -> dict[str, Any] | None:
    if obj is None:
        return None
    meta = {key: value for key, value in obj["metadata"].items() if value is not None}
    return {**obj, "metadata": meta}
