"""Requests capacity from the cluster's autoscaler for replacements without room."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from common.api.provisioning import CapacityRequestObject
from common.errors import DecodeError, KubeError, NotFoundError, NotLeadingError, UnreachableError
from common.kube.cache import Cache
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import POD_TEMPLATES, Endpoint
from common.kube.targets import ControllerCaches
from common.runtime.clock import Clock
from common.target.owners import Controller, controller_of
from updater.capacity.capacity_requests import (
    CapacityDemand,
    CapacityRequest,
    CapacityRequests,
    RequestStage,
)
from updater.capacity.provisioning_plan import (
    NO_STATE,
    CapacityObject,
    Creation,
    ProvisioningLimits,
    ProvisioningPlan,
    RequestKind,
    paused,
    plan_provisioning,
    request_of_pause,
    settle,
)
from updater.capacity.request_apis import REQUESTING_WORKLOADS, RequestApis, discover, preferred
from updater.capacity.request_objects import (
    MANAGED_BY,
    parse_object,
    pod_template,
    request_body,
    resize_patch,
)
from updater.snapshot.live_pod import MANAGER, LivePod
from updater.snapshot.workload_size import group_size, workload_of

logger = logging.getLogger(__name__)

_TICK = 1.0  # seconds between checks of requests whose places may be taken
_REDISCOVER = timedelta(minutes=5)  # while no API is served
_REDISCOVER_SERVED = timedelta(hours=1)  # for a newer version
_LIST_AGAIN = timedelta(minutes=10)  # without demands and objects
_LONGEST = 30.0  # seconds for all calls after a pass
_SELECTOR = f"{MANAGED_BY}={MANAGER}"
_TEMPLATES: Mapping[str, Endpoint[dict[str, Any]]] = {
    endpoint.kind: endpoint.as_dicts() for endpoint in REQUESTING_WORKLOADS
}
_NOT_SERVED = "neither CapacityBuffer nor ProvisioningRequest is served"
_TRANSIENT = (NotLeadingError, UnreachableError)  # the caller retries in the next pass


@dataclass(slots=True)
class _Present:
    """What is known about our objects since the last plan."""

    objects: tuple[CapacityObject, ...] = ()
    pods: Mapping[Controller, Collection[str]] = field(default_factory=dict)  # UIDs, on nodes then


@dataclass(frozen=True, slots=True)
class _Listed:
    """The objects of the API server with our label."""

    objects: Sequence[CapacityObject] = ()
    unreadable: Sequence[tuple[RequestKind, str, str, str]] = ()  # with namespace, name and UID
    templates: Sequence[tuple[str, str, str]] = ()  # namespace, name and UID


class Provisioner:
    """Keeps one CapacityBuffer or ProvisioningRequest for each workload with demand.

    ``client`` reads, and ``writer`` writes while this process leads. ``reconcile`` is called after
    each pass, without demands too, because a former process may have left objects. Between passes
    ``run`` removes what the replacements have taken. All objects that have our label in
    ``namespace`` are ours; empty: in all namespaces.
    """

    def __init__(
        self,
        client: KubeClient,
        writer: KubeClient,
        *,
        pods: Cache[LivePod],
        controllers: ControllerCaches,
        clock: Clock,
        limits: ProvisioningLimits,
        namespace: str = "",
    ) -> None:
        self._client = client
        self._writer = writer
        self._pods = pods
        self._controllers = controllers
        self._clock = clock
        self._limits = limits
        self._namespace = namespace
        self._apis: RequestApis = {}
        self._discover_at: datetime | None = None  # None: now
        self._listed_at: datetime | None = None
        self._problem: tuple[str, datetime] | None = None  # and when it is tried again
        self._present = _Present()
        self._state = NO_STATE
        self._lock = asyncio.Lock()
        self._occupied = asyncio.Event()  # there are objects of ours

    async def reconcile(
        self, demands: Sequence[CapacityDemand], *, now: datetime
    ) -> CapacityRequests:
        """Create, resize, replace and delete objects so that they match the demands.

        No error is raised: what the API server refuses is logged once, and reported as refused.
        """
        async with self._lock:
            if self._is_blocked(now):
                return self._unavailable(demands)
            if self._is_idle(demands, now):
                return CapacityRequests()
            try:
                async with asyncio.timeout(_LONGEST):
                    return await self._reconcile(demands, now)
            except (KubeError, DecodeError) as error:
                gone = isinstance(error, NotFoundError)
                self._block(str(error), now, pause=_REDISCOVER if gone else None)
            except TimeoutError:
                self._block("the API server is slow", now, pause=_REDISCOVER)
                self._listed_at = None  # the next pass finds what was created
            return self._unavailable(demands)

    async def run(self) -> None:
        """Remove requests between passes as soon as replacements have taken their places."""
        while True:
            await self._occupied.wait()
            await asyncio.sleep(_TICK)
            async with self._lock:
                await self._settle(self._clock.now())

    async def _reconcile(
        self, demands: Sequence[CapacityDemand], now: datetime
    ) -> CapacityRequests:
        listed = await self._list(now)
        await self._clear(listed)
        kind = preferred(self._apis)
        pods = self._pods_on_nodes({each.workload for each in listed.objects})
        plan = plan_provisioning(
            demands,
            listed.objects,
            kind=kind,
            missing=self._missing(pods),
            before=self._state,
            limits=self._limits,
            now=now,
        )
        requests = await self._execute(plan, now)
        if kind is None:
            self._block(_NOT_SERVED, now, pause=_REDISCOVER)
            return self._unavailable(demands)
        self._solved()
        return CapacityRequests(by_workload=requests)

    # Reading

    async def _list(self, now: datetime) -> _Listed:
        if self._discover_at is None or now >= self._discover_at:
            self._apis = await discover(self._client)
            self._discover_at = now + (_REDISCOVER_SERVED if self._apis else _REDISCOVER)
        objects: list[CapacityObject] = []
        unreadable = []
        for kind, endpoint in self._apis.items():
            for found in await self._list_objects(endpoint):
                parsed = parse_object(kind, found, now=now)
                if parsed is None:
                    meta = found.metadata
                    unreadable.append((kind, meta.namespace, meta.name, meta.uid))
                else:
                    objects.append(parsed)
        templates = await self._client.list(
            POD_TEMPLATES, namespace=self._namespace, label_selector=_SELECTOR
        )
        self._listed_at = now
        names = [
            (each.metadata.namespace, each.metadata.name, each.metadata.uid)
            for each in templates.items
        ]
        return _Listed(objects, unreadable, names)

    async def _list_objects(
        self, endpoint: Endpoint[CapacityRequestObject]
    ) -> Sequence[CapacityRequestObject]:
        try:
            listing = await self._client.list(
                endpoint, namespace=self._namespace, label_selector=_SELECTOR
            )
        except NotFoundError:
            self._apis, self._discover_at = {}, None  # the definition or its version is gone
            raise
        return listing.items

    def _pods_on_nodes(self, workloads: Collection[Controller]) -> dict[Controller, set[str]]:
        """Return the UIDs of the pods of each workload that are on nodes and not terminating."""
        found: dict[Controller, set[str]] = {each: set() for each in workloads}
        owners: dict[Controller, Controller] = {}
        for namespace in {each.namespace for each in workloads}:
            for pod in self._pods.in_namespace(namespace):
                direct = controller_of(pod.metadata)
                if direct is None or pod.metadata.deletion_timestamp is not None:
                    continue
                if direct not in owners:
                    owners[direct] = workload_of(direct, self._controllers.find)
                for workload in {direct, owners[direct]}:
                    if workload in found:
                        found[workload].add(pod.metadata.uid)
        return found

    def _missing(self, pods: Mapping[Controller, Collection[str]]) -> Mapping[Controller, int]:
        """Return how many replicas of each workload are on no node; 0 if unknown."""
        missing = {}
        for workload, placed in pods.items():
            wanted = group_size(workload, self._controllers.find).wanted
            missing[workload] = 0 if wanted is None else max(0, wanted - len(placed))
        return missing

    # Writing

    async def _execute(
        self, plan: ProvisioningPlan, now: datetime
    ) -> Mapping[Controller, CapacityRequest]:
        """Carry the plan out; return the requests for workloads, with refusals."""
        self._state = plan.state
        kept, failed = await self._remove_and_resize(plan)
        requests = dict(plan.requests)
        for creation in plan.creations:
            workload = creation.demand.workload
            if any(each.workload == workload for each in failed):
                continue  # its former object couldn't be deleted
            if len(kept) >= self._limits.most_requests:
                requests.pop(workload, None)
                continue
            created = await self._create(creation, now)
            if isinstance(created, CapacityObject):
                kept.append(created)
            else:
                del requests[workload]
                if created:
                    self._pause(workload, created, now)
                    requests[workload] = request_of_pause(self._state.pauses[workload])
        self._remember(kept)
        return requests

    async def _remove_and_resize(
        self, plan: ProvisioningPlan
    ) -> tuple[list[CapacityObject], list[CapacityObject]]:
        """Return the objects that remain, and those of them that couldn't be deleted."""
        failed = [each for each in plan.deletions if not await self._delete(each)]
        before = {each.uid: each for each, count in plan.resizes}
        kept = []
        for each in plan.kept:
            if each.uid in before and not await self._resize(each):
                kept.append(before[each.uid])
            else:
                kept.append(each)
        return kept + failed, failed

    async def _create(self, creation: Creation, now: datetime) -> CapacityObject | str:
        """Create a PodTemplate and its object; return the object, or why it was refused.

        The text is empty if the next pass should try again.
        """
        workload = creation.demand.workload
        if workload.kind not in _TEMPLATES or not workload.is_well_known:
            return f"the pod template of kind {workload.kind} isn't known"
        created = False
        try:
            owner = await self._client.get(
                _TEMPLATES[workload.kind], workload.name, namespace=workload.namespace
            )
            body = pod_template(creation, owner, manager=MANAGER)
            await self._writer.create(POD_TEMPLATES, body, namespace=workload.namespace)
            created = True
            endpoint = self._apis[creation.kind]
            body = request_body(creation, manager=MANAGER, timeout=self._limits.timeout)
            answer = await self._writer.create(endpoint, body, namespace=workload.namespace)
        except _TRANSIENT:
            self._listed_at = None  # the next pass finds what was created
            return ""
        except (KubeError, DecodeError) as error:
            if created:
                await self._delete_template(workload.namespace, creation.name)
            self._log("capacity request refused", workload, creation.name, error=str(error))
            return str(error) or type(error).__name__
        self._log("capacity requested", workload, creation.name, count=creation.count)
        found = parse_object(creation.kind, answer, now=now)
        return "" if found is None else found

    async def _resize(self, wanted: CapacityObject) -> bool:
        try:
            await self._writer.patch(
                self._apis[wanted.kind],
                wanted.name,
                resize_patch(wanted.count),
                patch_type=PatchType.MERGE,
                namespace=wanted.namespace,
            )
        except (KubeError, DecodeError) as error:
            self._log(
                "capacity request not resized", wanted.workload, wanted.name, error=str(error)
            )
            return False
        self._log("capacity request resized", wanted.workload, wanted.name, count=wanted.count)
        return True

    async def _delete(self, found: CapacityObject) -> bool:
        """Delete an object and its PodTemplate; return whether it is gone."""
        if not await self._delete_object(found.kind, found.namespace, found.name, found.uid):
            return False
        self._log("capacity request deleted", found.workload, found.name)
        await self._delete_template(found.namespace, found.name)
        return True

    async def _clear(self, listed: _Listed) -> None:
        """Delete what isn't a complete request: a process ended between two calls."""
        for each in listed.unreadable:
            await self._delete_object(*each)
        used = {each.key for each in listed.objects}
        for namespace, name, uid in listed.templates:
            if (namespace, name) not in used:
                await self._delete_template(namespace, name, uid)

    async def _delete_object(self, kind: RequestKind, namespace: str, name: str, uid: str) -> bool:
        endpoint = self._apis.get(kind)
        return endpoint is None or await self._delete_one(endpoint, namespace, name, uid)

    async def _delete_template(self, namespace: str, name: str, uid: str = "") -> None:
        await self._delete_one(POD_TEMPLATES, namespace, name, uid)

    async def _delete_one(
        self, endpoint: Endpoint[Any], namespace: str, name: str, uid: str
    ) -> bool:
        try:
            await self._writer.delete(endpoint, name, namespace=namespace, uid=uid)
        except NotFoundError:
            return True
        except (KubeError, DecodeError) as error:
            about = {"object": f"{endpoint.kind} {namespace}/{name}", "error": str(error)}
            logger.warning("capacity request not deleted", extra=about)
            return False
        return True

    # Between passes

    async def _settle(self, now: datetime) -> None:
        present = self._present
        pods = self._pods_on_nodes({each.workload for each in present.objects})
        placed = {
            workload: len(uids.difference(present.pods.get(workload, ())))
            for workload, uids in pods.items()
        }
        plan = settle(
            present.objects,
            placed=placed,
            missing=self._missing(pods),
            state=self._state,
            limits=self._limits,
            now=now,
        )
        self._state = plan.state
        if plan.deletions or plan.resizes:
            kept, _ = await self._remove_and_resize(plan)
            self._remember(kept)

    def _remember(self, kept: Sequence[CapacityObject]) -> None:
        pods = self._pods_on_nodes({each.workload for each in kept})
        self._present = _Present(tuple(kept), pods)
        if kept:
            self._occupied.set()
        else:
            self._occupied.clear()

    # Problems

    def _is_idle(self, demands: Sequence[CapacityDemand], now: datetime) -> bool:
        """Return whether there is nothing to do, and the last list is young."""
        if demands or self._present.objects or self._state != NO_STATE:
            return False
        return self._listed_at is not None and now - self._listed_at < _LIST_AGAIN

    def _is_blocked(self, now: datetime) -> bool:
        """Return whether a problem is to be left alone, and no object of ours can exist."""
        known = self._listed_at is not None and not self._present.objects
        return self._problem is not None and now < self._problem[1] and known

    def _block(self, text: str, now: datetime, *, pause: timedelta | None = None) -> None:
        until = now + (self._limits.first_pause if pause is None else pause)
        if self._problem is None or self._problem[0] != text:
            logger.info("capacity can't be requested", extra={"cause": text})
        self._problem = (text, until)
        self._listed_at = now

    def _solved(self) -> None:
        if self._problem is not None:
            logger.info("capacity can be requested again")
        self._problem = None

    def _unavailable(self, demands: Sequence[CapacityDemand]) -> CapacityRequests:
        if self._problem is None:
            return CapacityRequests()
        text, until = self._problem
        refused = CapacityRequest(stage=RequestStage.REFUSED, until=until, message=text)
        return CapacityRequests(
            by_workload={each.workload: refused for each in demands}, unavailable=text
        )

    def _pause(self, workload: Controller, text: str, now: datetime) -> None:
        self._state = paused(
            self._state, workload, RequestStage.REFUSED, text, limits=self._limits, now=now
        )

    def _log(self, message: str, workload: Controller, name: str, **more: object) -> None:
        about = {
            "workload": f"{workload.kind} {workload.namespace}/{workload.name}",
            "request": name,
            **more,
        }
        level = logging.WARNING if "error" in more else logging.INFO
        logger.log(level, message, extra=about)
