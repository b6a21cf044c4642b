"""API writes of controllers: create and delete pods, write status, record Events."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from common.api.core import ObjectReference, Pod
from common.errors import KubeError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import PODS, Endpoint
from common.kube.events import NORMAL, WARNING, EventRecorder
from common.runtime.clock import Clock
from sandbox.controllers.pods import OWNED_PODS
from sandbox.controllers.view import Json, View

MOST_AT_ONCE = 500  # pods that one reconciliation creates or deletes


class Actor:
    """Writes for one controller, under the identity of ``client``."""

    def __init__(
        self, client: KubeClient, view: View, clock: Clock, recorder: EventRecorder
    ) -> None:
        self.client = client
        self.view = view
        self.clock = clock
        self._recorder = recorder

    async def create_pods(self, owner: Json, bodies: Sequence[Json]) -> KubeError | None:
        """Create pods for ``owner``, in growing batches. Return the first refusal, which ends it.

        If one pod is refused, mostly all are, so the first batch has one pod.
        """
        namespace = owner["metadata"]["namespace"]
        bodies = bodies[:MOST_AT_ONCE]
        start, batch = 0, 1
        while start < len(bodies):
            outcomes = await asyncio.gather(
                *(self._create_pod(owner, namespace, one) for one in bodies[start : start + batch])
            )
            for outcome in outcomes:
                if outcome is not None:
                    return outcome
            start, batch = start + batch, batch * 2
        return None

    async def _create_pod(self, owner: Json, namespace: str, body: Json) -> KubeError | None:
        try:
            pod = await self.client.create(OWNED_PODS, body, namespace=namespace)
        except KubeError as error:
            self.record_event(owner, WARNING, "FailedCreate", f"Error creating: {error}")
            return error
        self.view.owned.created(pod)
        self.record_event(owner, NORMAL, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        return None

    async def delete_pods(self, owner: Json, pods: Sequence[Pod]) -> None:
        """Delete pods of ``owner``. Missing pods are ignored.

        Raises:
            KubeError: the first refusal, after all have been tried.
        """
        outcomes = await asyncio.gather(
            *(self._delete_pod(owner, pod) for pod in pods[:MOST_AT_ONCE])
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _delete_pod(self, owner: Json, pod: Pod) -> KubeError | None:
        meta = pod.metadata
        try:
            await self.client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except NotFoundError:
            return None
        except KubeError as error:
            self.record_event(owner, WARNING, "FailedDelete", f"Error deleting: {error}")
            return error
        self.view.owned.deleted(pod)
        self.record_event(owner, NORMAL, "SuccessfulDelete", f"Deleted pod: {meta.name}")
        return None

    async def write_status(self, endpoint: Endpoint[Any], obj: Json, status: Json) -> None:
        """Write ``status`` unless the object already has it."""
        changes = status_changes(obj.get("status") or {}, status)
        if changes:
            await self.patch(endpoint, obj, {"status": changes}, subresource="status")

    async def patch(
        self, endpoint: Endpoint[Any], obj: Json, patch: Json, *, subresource: str = ""
    ) -> None:
        """Apply a merge patch to an object. A missing object is ignored."""
        meta = obj["metadata"]
        try:
            await self.client.patch(
                endpoint.as_dicts(),
                meta["name"],
                patch,
                patch_type=PatchType.MERGE,
                namespace=meta.get("namespace", ""),
                subresource=subresource,
            )
        except NotFoundError:
            return

    def record_event(self, about: Json, type: str, reason: str, message: str) -> None:
        """Record an Event."""
        meta = about["metadata"]
        reference = ObjectReference(
            api_version=about.get("apiVersion", ""),
            kind=about.get("kind", ""),
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta.get("uid", ""),
            resource_version=meta.get("resourceVersion", ""),
        )
        self._recorder.event(reference, type, reason, message)


def status_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one status to another, without zeros and empty lists."""
    wanted = {name: value for name, value in new.items() if value not in (0, "", [], {}, None)}
    changes: dict[str, Any] = {
        name: value for name, value in wanted.items() if old.get(name) != value
    }
    changes |= {name: None for name in new if name in old and name not in wanted}
    return changes
