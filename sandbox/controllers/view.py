"""Caches of the objects that controllers read, shared by all of them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from common.api.core import Pod
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient
from common.kube.endpoints import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Endpoint,
)
from sandbox.controllers.pods import OWNED_PODS, OwnedPod, controller_of

Json = dict[str, Any]
Wake = Callable[[str, str], None]

BUDGETS = Endpoint("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any])
QUOTAS = Endpoint("", "v1", "resourcequotas", "ResourceQuota", dict[str, Any])

_UNCONFIRMED = 60.0  # seconds for which a created pod may be missing in the watch
_MOST_GONE = 4096  # UIDs of deleted pods that are kept


class OwnedPods:
    """Pods by the UID of their controller, including own writes before the watch reports them."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._unconfirmed: dict[str, float] = {}  # pod UID -> loop time of its creation
        self._deleting: set[str] = set()
        self._gone: dict[str, None] = {}  # in the order of deletion

    def of(self, owner_uid: str) -> list[Pod]:
        """Return the owner's pods without those whose deletion was requested."""
        return [pod for pod in self.all_of(owner_uid) if pod.metadata.uid not in self._deleting]

    def all_of(self, owner_uid: str) -> list[Pod]:
        """Return the owner's pods, including terminating ones."""
        found = self._pods.get(owner_uid)
        if not found:
            return []
        oldest = asyncio.get_running_loop().time() - _UNCONFIRMED
        for uid in [uid for uid in found if self._unconfirmed.get(uid, oldest) < oldest]:
            del found[uid], self._unconfirmed[uid]
        return list(found.values())

    def created(self, pod: Pod) -> None:
        """Add a pod that the API server has stored."""
        uid, owner = pod.metadata.uid, controller_of(pod)
        if owner is None or uid in self._gone:
            return
        pods = self._pods.setdefault(owner.uid, {})
        if uid not in pods:
            pods[uid] = pod
            self._unconfirmed[uid] = asyncio.get_running_loop().time()

    def deleted(self, pod: Pod) -> None:
        """Mark a pod whose deletion the API server has accepted."""
        if pod.metadata.uid not in self._gone:
            self._deleting.add(pod.metadata.uid)

    def observe(self, change: Change[OwnedPod]) -> None:
        if change.old is not None:
            gone = change.new is None or change.new.metadata.uid != change.old.metadata.uid
            self._remove(change.old, gone=gone)
        if change.new is not None:
            owner = controller_of(change.new)
            self._unconfirmed.pop(change.new.metadata.uid, None)
            if owner is not None:
                self._pods.setdefault(owner.uid, {})[change.new.metadata.uid] = change.new

    def _remove(self, pod: Pod, *, gone: bool) -> None:
        uid, owner = pod.metadata.uid, controller_of(pod)
        if owner is not None and owner.uid in self._pods:
            self._pods[owner.uid].pop(uid, None)
            if not self._pods[owner.uid]:
                del self._pods[owner.uid]
        if gone:
            self._deleting.discard(uid)
            self._gone[uid] = None
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]


class View:
    """Caches of pods, workloads, nodes, budgets and quotas; ``run`` is endless.

    ``wake`` is called for the owner of a pod or workload that changed, by the owner's kind, and for
    the changed object itself, by its own.
    """

    def __init__(self, client: KubeClient) -> None:
        self.owned = OwnedPods()
        self._wakes: dict[str, list[Wake]] = {}
        self.pods: Cache[OwnedPod] = Cache(client, OWNED_PODS, on_change=self._pod_changed)
        self.workloads: dict[str, Cache[Json]] = {
            endpoint.kind: Cache(
                client,
                endpoint.as_dicts(),
                on_change=partial(self._object_changed, endpoint.kind),
            )
            for endpoint in (
                DEPLOYMENTS,
                REPLICA_SETS,
                STATEFUL_SETS,
                DAEMON_SETS,
                JOBS,
                BUDGETS,
                QUOTAS,
            )
        }
        self.nodes: Cache[Json] = Cache(
            client, NODES.as_dicts(), on_change=partial(self._object_changed, "Node")
        )

    def on(self, kind: str, wake: Wake) -> None:
        """Call ``wake`` with namespace and name of every object of ``kind`` that changes."""
        self._wakes.setdefault(kind, []).append(wake)

    def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object; None if it is missing or being deleted."""
        found = self.workloads[kind].get(namespace, name)
        return None if found is None or found["metadata"].get("deletionTimestamp") else found

    def owned_by(self, uid: str, kind: str, namespace: str) -> Sequence[Json]:
        """Return the objects of ``kind`` that a controller owns."""
        return [
            one
            for one in self.workloads[kind].in_namespace(namespace)
            if any(
                owner.get("controller") and owner["uid"] == uid
                for owner in one["metadata"].get("ownerReferences") or ()
            )
        ]

    async def run(self) -> None:
        """Run the caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches():
                group.create_task(cache.run())

    async def wait_synced(self) -> None:
        for cache in self._caches():
            await cache.wait_synced()

    def _caches(self) -> list[Cache[Any]]:
        return [self.pods, self.nodes, *self.workloads.values()]

    def _pod_changed(self, change: Change[OwnedPod]) -> None:
        self.owned.observe(change)
        for pod in (change.old, change.new):
            owner = controller_of(pod) if pod is not None else None
            if pod is not None and owner is not None:
                self._wake(owner.kind, pod.metadata.namespace, owner.name)
        pod = change.new or change.old
        if pod is not None:
            self._wake("Pod", pod.metadata.namespace, pod.metadata.name)

    def _object_changed(self, kind: str, change: Change[Json]) -> None:
        obj = change.new or change.old
        if obj is None:
            return
        meta = obj["metadata"]
        self._wake(kind, meta.get("namespace", ""), meta["name"])
        for owner in meta.get("ownerReferences") or ():
            if owner.get("controller"):
                self._wake(owner["kind"], meta.get("namespace", ""), owner["name"])

    def _wake(self, kind: str, namespace: str, name: str) -> None:
        for wake in self._wakes.get(kind, ()):
            wake(namespace, name)
