"""Subresources that differ from their object: scale, binding, eviction, log, proxy."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox import errors
from sandbox.admission.eviction import evict
from sandbox.apiserver.answers import Answer, json_answer, text_answer
from sandbox.apiserver.decoding import check_type_meta, read_body
from sandbox.apiserver.deletion import DeleteOptions, Deletions
from sandbox.apiserver.pod_proxy import proxied
from sandbox.apiserver.requests import Place, Request
from sandbox.apiserver.scales import paths_of, scale_of
from sandbox.apiserver.writing import Writes
from sandbox.objects.registry import Registry
from sandbox.objects.resources import PODS, Resource
from sandbox.objects.store import Store
from sandbox.times import rfc3339

Json = dict[str, Any]

_BINDINGS = replace(PODS, plural="pods/binding")  # the resource that a conflict names
_OLD_EVICTION = "policy/v1beta1"  # also accepted
BINDING = Resource(plural="bindings", kind="Binding")
EVICTION = Resource(group="policy", plural="evictions", kind="Eviction")


class Subresources:
    """Handles the subresources of one API server."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        writes: Writes,
        deletions: Deletions,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._deletions = deletions
        self._clock = clock

    async def handle(
        self, request: Request, resource: Resource, place: Place, verb: str
    ) -> Answer | None:
        """Answer a request. Return None if the subresource is served like the object itself."""
        if place.subresource == "scale" and verb == "get":
            return self._scale(resource, place)
        if place.subresource == "log" and verb == "get":
            return self._log(place)
        if place.subresource == "proxy" and verb == "get":
            return await proxied(self._store, request, place)
        if place.subresource in ("binding", "eviction") and verb == "create":
            answers = {"binding": self._bind, "eviction": self._evict}
            return await answers[place.subresource](request, place)
        return None

    def _scale(self, resource: Resource, place: Place) -> Answer:
        custom = self._registry.custom(resource)
        obj = self._store.existing(resource, place.namespace, place.name).object(resource)
        return json_answer(scale_of(obj, paths_of(custom), custom=custom is not None))

    async def _bind(self, request: Request, place: Place) -> Answer:
        """Set the node of a pod.

        Source: ``assignPod``, k8s.io/kubernetes pkg/registry/core/pod/storage/storage.go.
        """
        body = read_body(request, BINDING)
        target, meta = body.get("target") or {}, body.get("metadata") or {}
        if meta.get("name") != place.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        stored = self._store.existing(PODS, place.namespace, place.name)
        pod = stored.object(PODS)
        for name, title, actual in (
            ("uid", "UID", stored.uid),
            ("resourceVersion", "ResourceVersion", str(stored.version)),
        ):
            if meta.get(name) and meta[name] != actual:
                text = f"{title} in precondition: {meta[name]}, {title} in object meta: {actual}"
                raise errors.precondition_failed(PODS, place.namespace, place.name, text)
        if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName"):
            text = f"pod {place.name} is assigned to a node, or is being deleted"
            raise errors.conflict(_BINDINGS, place.name, text)
        pod["spec"]["nodeName"] = target.get("name", "")
        _set_scheduled(pod, rfc3339(self._clock.now()))
        if not request.is_dry_run:
            self._store.update(PODS, pod)
        return json_answer(_success(201), status=201)

    async def _evict(self, request: Request, place: Place) -> Answer:
        def delete(namespace: str, name: str, options: Mapping[str, Any]) -> None:
            stored = self._store.get(PODS, namespace, name)
            if stored is not None:
                self._deletions.delete(PODS, stored, DeleteOptions.read(options, {}))

        body = read_body(request, EVICTION)
        if body.get("apiVersion") != _OLD_EVICTION:
            check_type_meta(body, EVICTION)
        status = evict(
            self._store,
            self._clock,
            place.namespace,
            place.name,
            body,
            dry_run=request.is_dry_run,
            delete=delete,
        )
        return json_answer(status, status=201)

    def _log(self, place: Place) -> Answer:
        """Return the states of the containers, because simulated ones have no output."""
        stored = self._store.existing(PODS, place.namespace, place.name)
        status = stored.object(PODS).get("status") or {}
        lines = [
            f"{one['name']}: simulated container, restarts {one.get('restartCount', 0)}, "
            f"state {msgspec.json.encode(one.get('state') or {}).decode()}\n"
            for one in status.get("containerStatuses") or ()
        ]
        return text_answer("".join(lines))


def _set_scheduled(pod: Json, now: str) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [one for one in conditions if one.get("type") != "PodScheduled"]
    conditions.append(
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
    )


def _success(code: int) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
