"""The eviction subresource: a deletion that disruption budgets may refuse.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go; kubernetes-resize.md 5.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from common.errors import Cause
from common.runtime.clock import Clock
from sandbox.admission.disruption import set_disruption_allowed
from sandbox.errors import ApiError, bad_request, too_many_requests
from sandbox.objects.label_selectors import selector_of
from sandbox.objects.resources import POD_DISRUPTION_BUDGETS, PODS
from sandbox.objects.store import Store
from sandbox.times import rfc3339

DeletePod = Callable[[str, str, Mapping[str, Any]], None]
"""Deletes a pod by namespace, name and DeleteOptions, like a DELETE request."""

_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_TARGET: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def evict(
    store: Store,
    clock: Clock,
    namespace: str,
    name: str,
    body: Mapping[str, Any],
    *,
    dry_run: bool,
    delete: DeletePod,
) -> dict[str, Any]:
    """Evict a pod and return the ``Status`` of the 201 response.

    ``body`` is the Eviction. It may request a dry run, and so may ``dry_run``, which is the
    query's. On success the budget is charged, the pod gets the condition DisruptionTarget and
    ``delete`` is called; in a dry run none of this happens.

    Raises:
        ApiError: 400, 404, 409 for preconditions, 429 of a budget, 500 for two budgets.
    """
    if (body.get("metadata") or {}).get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    if body["metadata"].get("namespace") not in (None, "", namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    options = dict(body.get("deleteOptions") or {})
    dry_run = dry_run or bool(options.get("dryRun"))
    stored = store.existing(PODS, namespace, name)
    pod = stored.object(PODS)
    budget = _budget_of(store, pod)
    if budget is not None and spends_budget(pod, budget) and not dry_run:
        _spend(store, budget, name, clock.now())
    _check_preconditions(options.pop("preconditions", None) or {}, pod)
    if not dry_run:
        if _add_condition(pod, clock.now()):
            store.update(PODS, pod)
        delete(namespace, name, options)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }


def spends_budget(pod: Mapping[str, Any], budget: Mapping[str, Any]) -> bool:
    """Return True if the eviction of ``pod`` uses one of the disruptions of its budget.

    Raises:
        ApiError: 429, the budget is exhausted or its controller is behind.
    """
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not is_ready(pod):
        policy = budget["spec"].get("unhealthyPodEvictionPolicy")
        if policy == "AlwaysAllow" or healthy >= desired > 0:
            return False
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _refused(text, retry_after=10)
    if status.get("disruptionsAllowed", 0) <= 0:
        if healthy <= desired:
            text = f"needs {desired} healthy pods and has {healthy} currently"
        else:
            text = "does not allow evicting pods currently"
        raise _refused(f"The disruption budget {name} {text}")
    return True


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return True if the pod's condition Ready is true."""
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )


def _budget_of(store: Store, pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the budget of the pod; None for a pod that no budget counts."""
    phase = (pod.get("status") or {}).get("phase")
    meta = pod["metadata"]
    if phase in ("Pending", "Succeeded", "Failed") or meta.get("deletionTimestamp"):
        return None
    budgets = (
        stored.object(POD_DISRUPTION_BUDGETS)
        for stored in store.list(POD_DISRUPTION_BUDGETS, meta["namespace"])
    )
    guards = [
        budget
        for budget in budgets
        if selector_of((budget.get("spec") or {}).get("selector")).matches(meta.get("labels"))
    ]
    if len(guards) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support.",
        )
    return guards[0] if guards else None


def _spend(store: Store, budget: dict[str, Any], pod: str, now: datetime) -> None:
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    if status["disruptionsAllowed"] == 0:
        set_disruption_allowed(status, budget["metadata"].get("generation", 0), now)
    status.setdefault("disruptedPods", {})[pod] = rfc3339(now)
    store.update(POD_DISRUPTION_BUDGETS, budget)


def _check_preconditions(preconditions: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
    meta = pod["metadata"]
    name, uid, version = meta["name"], meta.get("uid", ""), meta["resourceVersion"]
    if preconditions.get("uid") not in (None, uid):
        text = (
            f"the UID in the precondition ({preconditions['uid']}) does not match the UID in "
            f"record ({uid}). The object might have been deleted and then recreated"
        )
    elif preconditions.get("resourceVersion") not in (None, version):
        text = (
            f"the ResourceVersion in the precondition ({preconditions['resourceVersion']}) does "
            f"not match the ResourceVersion in record ({version}). The object might have been "
            "modified"
        )
    else:
        return
    raise ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on Pod "{name}": {text}',
        details={"name": name, "kind": "Pod"},
    )


def _add_condition(pod: dict[str, Any], now: datetime) -> bool:
    """Mark the pod as a target of disruption. Return False if it is marked already."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    if any(condition.get("type") == _TARGET["type"] for condition in conditions):
        return False
    conditions.append({**_TARGET, "lastProbeTime": None, "lastTransitionTime": rfc3339(now)})
    return True


def _refused(text: str, *, retry_after: int | None = None) -> ApiError:
    cause = Cause(reason="DisruptionBudget", message=text)
    return too_many_requests(_REFUSED, causes=(cause,), retry_after=retry_after)
