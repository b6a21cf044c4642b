"""The quota controller: keeps the status of ResourceQuotas.

Admission adds to it at once; this recomputes it, which is how usage ever falls.

Source: k8s.io/kubernetes pkg/controller/resourcequota.
"""

from datetime import timedelta
from typing import Any

import msgspec

from common.errors import KubeError
from common.kube.endpoints import Endpoint
from sandbox.admission.quotas import object_usage, pod_usage, quota_status
from sandbox.controllers.actor import Actor
from sandbox.controllers.scheduler import SCHEDULABLE_PODS
from sandbox.controllers.view import QUOTAS
from sandbox.objects.access_resources import ACCESS
from sandbox.objects.resources import BUILTIN
from sandbox.objects.rules.policies import COUNTED_PLAINLY

Json = dict[str, Any]

_RESYNC = timedelta(minutes=5).total_seconds()  # for what no watch tells of


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
        usages: list[tuple[Json | None, Any]] = [(pod, pod_usage(pod, now)) for pod in pods]
        for resource in _counted(quota):
            count = await self._count(resource, namespace)
            usages += [(None, object_usage(resource))] * count
        status = quota_status(quota, usages)
        if status != quota.get("status"):
            version = {"resourceVersion": quota["metadata"]["resourceVersion"]}
            gone = set((quota.get("status") or {}).get("hard") or ()) - set(status["hard"])
            nulls = dict.fromkeys(gone)
            patch = {part: {**nulls, **status[part]} for part in ("hard", "used")}
            await self._actor.patch(
                QUOTAS, quota, {"metadata": version, "status": patch}, subresource="status"
            )
        return _RESYNC

    async def _count(self, group_resource: str, namespace: str) -> int:
        """How many objects of a built-in kind there are; none of a kind that isn't served."""
        for one in (*BUILTIN, *ACCESS):
            if one.group_resource == group_resource:
                endpoint = Endpoint(one.group, one.version, one.plural, one.kind, dict[str, Any])
                try:
                    return len((await self._actor.client.list(endpoint, namespace=namespace)).items)
                except KubeError:
                    return 0
        return 0


def _counted(quota: Json) -> list[str]:
    """The resources, pods apart, whose objects the quota counts."""
    names = set()
    for name in (quota.get("spec") or {}).get("hard") or ():
        if name.startswith("count/"):
            names.add(name.removeprefix("count/"))
        elif name in COUNTED_PLAINLY:
            names.add(name)
    return sorted(names - {"pods"})
