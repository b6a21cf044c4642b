"""What stands below objects and isn't the object: scale, binding, eviction, log, token."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox import errors
from sandbox.admission.eviction import evict
from sandbox.apiserver.access_reviews import AccessReviews
from sandbox.apiserver.answers import Answer, json_answer, text_answer
from sandbox.apiserver.asked_bodies import (
    BINDING,
    EVICTION,
    check_options,
    patched,
    read_asked,
)
from sandbox.apiserver.decoding import check_name, checked_metadata
from sandbox.apiserver.deletion import DeleteOptions, Deletions
from sandbox.apiserver.pod_logs import wanted_container
from sandbox.apiserver.requests import Place, Request
from sandbox.apiserver.scales import SCALE, paths_of, scale_of, with_replicas
from sandbox.apiserver.writes import Written
from sandbox.apiserver.writing import Writes
from sandbox.objects.registry import Registry
from sandbox.objects.resources import NODES, PODS, Resource
from sandbox.objects.store import Store
from sandbox.times import rfc3339

Json = dict[str, Any]

_BINDINGS = replace(PODS, plural="pods/binding")  # what a conflict is told of
_TARGETS = ("Node", "<empty>")


class Subresources:
    """Serves them for one API server."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        writes: Writes,
        deletions: Deletions,
        reviews: AccessReviews,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._deletions = deletions
        self._reviews = reviews
        self._clock = clock

    async def handle(
        self, request: Request, resource: Resource, place: Place, verb: str
    ) -> Answer | None:
        """Answer, or None when the subresource is served as the object itself is."""
        if place.subresource == "scale":
            return await self._scale(request, resource, place, verb)
        if place.subresource == "log" and verb == "get":
            return self._log(request, place)
        if place.subresource == "token" and verb == "create":
            return self._reviews.token(request, place)
        if place.subresource in ("binding", "eviction") and verb == "create":
            answers = {"binding": self._bind, "eviction": self._evict}
            return await answers[place.subresource](request, place)
        return None

    async def _scale(self, request: Request, resource: Resource, place: Place, verb: str) -> Answer:
        custom = self._registry.custom(resource)
        paths = paths_of(custom)
        if verb == "get":
            stored = self._store.get(resource, place.namespace, place.name)
            if stored is None:
                raise errors.not_found(resource, place.name)
            return json_answer(scale_of(stored.object(resource), paths, custom=custom is not None))
        if verb not in ("update", "patch"):
            raise errors.method_not_allowed()

        check_options(request)
        given, warnings = read_asked(request, SCALE) if verb == "update" else ({}, [])

        def change(old: Json) -> Json:
            wanted = given
            if verb == "patch":
                current = scale_of(old, paths, custom=custom is not None)
                wanted, warnings[:] = patched(request, SCALE, current)
            check_name(checked_metadata(wanted, SCALE, place), place)
            changed = with_replicas(_copied(old), wanted, paths)
            version = (wanted.get("metadata") or {}).get("resourceVersion")
            if version:
                changed["metadata"]["resourceVersion"] = version
            return changed

        target = replace(place, subresource="")
        written = await self._writes.change(request, resource, target, change)
        obj = _object_of(written, resource)
        return json_answer(
            scale_of(obj, paths, custom=custom is not None), warnings=(*warnings, *written.warnings)
        )

    async def _bind(self, request: Request, place: Place) -> Answer:
        """Give a pod its node.

        Source: ``assignPod``, k8s.io/kubernetes pkg/registry/core/pod/storage/storage.go.
        """
        body, warnings = read_asked(request, BINDING)
        target, meta = body.get("target") or {}, body.get("metadata") or {}
        if meta.get("name") != place.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        _check_target(target)
        stored = self._store.get(PODS, place.namespace, place.name)
        if stored is None:
            raise errors.not_found(PODS, place.name)
        pod = stored.object(PODS)
        for name, told, actual in (
            ("uid", "UID", stored.uid),
            ("resourceVersion", "ResourceVersion", str(stored.version)),
        ):
            if meta.get(name) and meta[name] != actual:
                text = f"{told} in precondition: {meta[name]}, {told} in object meta: {actual}"
                raise errors.precondition_failed(PODS, place.namespace, place.name, text)
        obstacle = _obstacle(pod)
        if obstacle:
            raise errors.conflict(_BINDINGS, place.name, f"pod {place.name} {obstacle}")
        pod["spec"]["nodeName"] = target["name"]
        for name in ("annotations", "labels"):
            if meta.get(name):
                pod["metadata"].setdefault(name, {}).update(meta[name])
        _set_scheduled(pod, rfc3339(self._clock.now()))
        if not request.is_dry_run:
            self._store.update(PODS, pod)
        return json_answer(_success(201), status=201, warnings=warnings)

    async def _evict(self, request: Request, place: Place) -> Answer:
        def delete(namespace: str, name: str, options: Mapping[str, Any]) -> None:
            stored = self._store.get(PODS, namespace, name)
            if stored is not None:
                self._deletions.delete(PODS, stored, DeleteOptions.read(options, {}))

        body, warnings = read_asked(request, EVICTION)
        status = evict(
            self._store,
            self._clock,
            place.namespace,
            place.name,
            body,
            dry_run=request.is_dry_run,
            delete=delete,
        )
        return json_answer(status, status=201, warnings=warnings)

    def _log(self, request: Request, place: Place) -> Answer:
        """There are no processes, so there is no output: the states of the containers instead.

        A pod that has no node yet has no content either (204).
        """
        stored = self._store.get(PODS, place.namespace, place.name)
        if stored is None:
            raise errors.not_found(PODS, place.name)
        pod = stored.object(PODS)
        wanted_container(pod, request)
        node = pod["spec"].get("nodeName")
        if not node:
            return text_answer("", status=204)
        if self._store.get(NODES, "", node) is None:
            raise errors.not_found(PODS, node)
        status = pod.get("status") or {}
        lines = [
            f"{one['name']}: simulated container, restarts {one.get('restartCount', 0)}, "
            f"state {msgspec.json.encode(one.get('state') or {}).decode()}\n"
            for one in status.get("containerStatuses") or ()
        ]
        return text_answer("".join(lines))


def _check_target(target: Mapping[str, Any]) -> None:
    """A pod is bound to a node, and to nothing else.

    Raises:
        ApiError: 500, as a real server gives these causes no reason.
    """
    causes = []
    if target.get("kind", "") not in ("", "Node"):
        causes.append(errors.field_not_supported("target.kind", target["kind"], _TARGETS))
    if not target.get("name"):
        causes.append(errors.field_required("target.name"))
    if causes:
        texts = [f"{one.field}: {one.message}" for one in causes]
        raise errors.plain(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _obstacle(pod: Json) -> str:
    """Why a pod can't be given a node; empty if it can."""
    if "deletionTimestamp" in pod["metadata"]:
        return "is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'is already assigned to node "{pod["spec"]["nodeName"]}"'
    if pod["spec"].get("schedulingGates"):
        return "has non-empty .spec.schedulingGates"
    return ""


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


def _copied(obj: Json) -> Json:
    copied: Json = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def _object_of(written: Written, resource: Resource) -> Json:
    return written.object if isinstance(written.object, dict) else written.object.object(resource)
