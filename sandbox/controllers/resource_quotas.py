"""The quota controller, which keeps the status of ResourceQuotas for pods.

Admission charges a quota at once. This controller recomputes it, so that usage can fall.

Source: k8s.io/kubernetes pkg/controller/resourcequota.
"""

from datetime import timedelta

from common.kube.endpoints import PODS
from sandbox.admission.quotas import pod_usage, quota_status
from sandbox.controllers.actor import Actor
from sandbox.controllers.view import QUOTAS

_RESYNC = timedelta(minutes=5).total_seconds()  # for changes that no watch reports


class ResourceQuotas:
    """Recomputes a quota when it, or a pod of its namespace, changes, and periodically."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        quota = self._actor.view.get("ResourceQuota", namespace, name)
        if quota is None:
            return None
        now = self._actor.clock.now()
        pods = (await self._actor.client.list(PODS.as_dicts(), namespace=namespace)).items
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
