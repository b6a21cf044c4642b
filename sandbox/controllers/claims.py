"""Claims stay as long as a pod uses them.

Source: k8s.io/kubernetes pkg/controller/volume/pvcprotection/pvc_protection_controller.go.
"""

from collections.abc import Iterable
from typing import Any

from common.kube.endpoints import PODS
from sandbox.controllers.actor import Actor
from sandbox.controllers.view import CLAIMS
from sandbox.objects.strategies import CLAIM_PROTECTION

Json = dict[str, Any]


class Claims:
    """Lets a claim go that is to go, when it or a pod of its namespace changes."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        claim = self._actor.view.workloads["PersistentVolumeClaim"].get(namespace, name)
        if claim is None or not claim["metadata"].get("deletionTimestamp"):
            return None
        finalizers = claim["metadata"].get("finalizers") or []
        if CLAIM_PROTECTION not in finalizers:
            return None
        pods = await self._actor.client.list(PODS.as_dicts(), namespace=namespace)
        if _is_used(name, pods.items):
            return None
        left = [one for one in finalizers if one != CLAIM_PROTECTION]
        version = claim["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "finalizers": left}}
        await self._actor.patch(CLAIMS, claim, patch)
        return None


def _is_used(claim: str, pods: Iterable[Json]) -> bool:
    """Whether a pod that has a node names the claim, however far it has come."""
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
        for pod in pods
        if pod["spec"].get("nodeName")
        for volume in pod["spec"].get("volumes") or ()
    )
