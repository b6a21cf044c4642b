"""The quota controller: keeps the status of ResourceQuotas for pods.

Admission adds to it at once; this recomputes it, which is how usage ever falls.

Source: k8s.io/kubernetes pkg/controller/resourcequota.
"""

from datetime import timedelta

import msgspec

from sandbox.admission.quotas import pod_usage, quota_status
from sandbox.controllers.actor import Actor
from sandbox.controllers.scheduler import SCHEDULABLE_PODS
from sandbox.controllers.view import QUOTAS

_RESYNC = timedelta(minutes=5).total_seconds()  # for changes that no watch reports


class ResourceQuotas:
    """Recomputes a quota when it, or a pod of its namespace, changes, and now and then."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        quota = self._actor.view.get("ResourceQuota", namespace, name)
        if quota is None:
            return None
        now = self._actor.clock.now()
        listing = await self._actor.client.list(SCHEDULABLE_PODS, namespace=namespace)
        pods = [msgspec.to_builtins(pod, str_keys=True) for pod in listing.items]
        status = quota_status(quota, [(pod, pod_usage(pod, now)) for pod in pods])
        if status != quota.get("status"):
            version = {"resourceVersion": quota["metadata"]["resourceVersion"]}
            gone = set((quota.get("status") or {}).get("hard") or ()) - set(status["hard"])
            nulls = dict.fromkeys(gone)
            patch = {part: {**nulls, **status[part]} for part in ("hard", "used")}
            await self._actor.patch(
                QUOTAS, quota, {"metadata": version, "status": patch}, subresource="status"
            )
        return _RESYNC
