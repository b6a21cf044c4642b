"""The disruption controller, which keeps the status of PodDisruptionBudgets.

Source: k8s.io/kubernetes pkg/controller/disruption/disruption.go.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from common.api.core import Pod
from sandbox.admission.disruption import DELETION_TIMEOUT, GuardedPod, budget_status
from sandbox.controllers.actor import Actor
from sandbox.controllers.pods import controller_of, is_active, is_ready
from sandbox.controllers.view import BUDGETS, View
from sandbox.objects.label_selectors import selector_of

Json = dict[str, Any]


class Budgets:
    """Recomputes a budget whenever it, or a pod of its namespace, changes."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        budget = view.get("PodDisruptionBudget", namespace, name)
        if budget is None:
            return None
        selector = selector_of((budget.get("spec") or {}).get("selector"))
        pods = [
            guarded(pod, view)
            for pod in view.pods.in_namespace(namespace)
            if selector.matches(pod.metadata.labels)
        ]
        now = self._actor.clock.now()
        status = budget_status(budget, pods, now)
        old = budget.get("status") or {}
        if status != old:
            gone = set(old.get("disruptedPods") or ()) - set(status.get("disruptedPods") or ())
            patch: Json = {**status}
            if gone:
                kept = status.get("disruptedPods") or {}
                patch["disruptedPods"] = {**kept, **dict.fromkeys(gone)}
            # An eviction may have charged it in the meantime: then this conflicts, and is retried.
            version = {"resourceVersion": budget["metadata"]["resourceVersion"]}
            await self._actor.patch(
                BUDGETS, budget, {"metadata": version, "status": patch}, subresource="status"
            )
        return _seconds_to_timeout(status, now)


def guarded(pod: Pod, view: View) -> GuardedPod:
    """Return a pod's health, and the desired replicas of its controller."""
    owner = controller_of(pod)
    return GuardedPod(
        name=pod.metadata.name,
        healthy=is_active(pod) and is_ready(pod),
        controller=owner.uid if owner is not None else "",
        expected=0
        if owner is None
        else expected_replicas(view, pod.metadata.namespace, owner.kind, owner.name),
    )


def expected_replicas(view: View, namespace: str, kind: str, name: str) -> int:
    """Return the desired pods of a controller. A Deployment decides for its ReplicaSet."""
    cache = view.workloads.get(kind)
    owner = cache.get(namespace, name) if cache is not None else None
    if owner is None:
        return 0
    for reference in owner["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference["kind"] == "Deployment":
            return expected_replicas(view, namespace, "Deployment", reference["name"])
    replicas: int = (owner.get("spec") or {}).get("replicas", 0)
    return replicas


def _seconds_to_timeout(status: Mapping[str, Any], now: datetime) -> float | None:
    """Return the seconds until the first eviction without a deletion stops counting."""
    dues = [
        datetime.fromisoformat(since) + DELETION_TIMEOUT - now
        for since in (status.get("disruptedPods") or {}).values()
    ]
    return max(min(dues).total_seconds(), 0.1) if dues else None
