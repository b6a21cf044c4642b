"""Requests capacity from the cluster's autoscaler for replacements without room."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from common.errors import DecodeError, ForbiddenError, KubeError, NotFoundError
from common.kube.cache import Cache
from common.kube.targets import ControllerCaches
from common.runtime.clock import Clock
from common.runtime.object_errors import Boundary, ObjectErrors
from common.target.owners import Controller, controller_of
from updater.capacity.capacity_requests import (
    NO_REQUESTS,
    CapacityRequests,
    PassDemands,
    RequestStage,
)
from updater.capacity.provisioning_plan import (
    CapacityObject,
    ProvisioningPlan,
    plan_provisioning,
    settle,
)
from updater.capacity.provisioning_state import (
    NO_STATE,
    ProvisioningLimits,
    paused,
    request_of_pause,
)
from updater.capacity.request_client import NotCreated, RequestClient
from updater.snapshot.live_pod import LivePod
from updater.snapshot.workload_size import group_size, workload_of

logger = logging.getLogger(__name__)

_TICK = 1.0  # seconds between checks of requests whose places may be taken
_NOT_SERVED_AGAIN = timedelta(minutes=5)  # until the next look
_LIST_AGAIN = timedelta(minutes=10)  # without demands and objects
_LONGEST = 30.0  # seconds for all calls after a pass
_LONGEST_BETWEEN = 10.0  # seconds for all calls of one check between passes
_PAUSE = 10.0  # seconds after a failed call between passes
_LONGEST_OUTAGE = timedelta(minutes=5)
_NOT_SERVED = "neither CapacityBuffer nor ProvisioningRequest is served"
_NO_PODS: Mapping[Controller, Collection[str]] = {}


@dataclass(slots=True)
class _Present:
    """What is known about our objects since the last plan."""

    objects: tuple[CapacityObject, ...] = ()
    pods: Mapping[Controller, Collection[str]] = field(default_factory=dict)  # UIDs, on nodes then


class Provisioner:
    """Keeps one CapacityBuffer or ProvisioningRequest for each workload with demand.

    ``reconcile`` is called after each pass, without demands too, because a former process may have
    left objects. Between passes ``run`` removes what the replacements have taken. All objects that
    ``objects`` lists are ours.
    """

    def __init__(
        self,
        objects: RequestClient,
        *,
        pods: Cache[LivePod],
        controllers: ControllerCaches,
        clock: Clock,
        limits: ProvisioningLimits,
        errors: ObjectErrors,
        asks: bool = True,
    ) -> None:
        self._objects = objects
        self._pods = pods
        self._controllers = controllers
        self._clock = clock
        self._limits = limits
        self._errors = errors
        self._asks = asks  # False: passes never have demands, so problems are not logged
        self._listed_at: datetime | None = None
        self._problem: tuple[str, datetime] | None = None  # and when it is tried again
        self._failing_since: datetime | None = None
        self._began: datetime | None = None
        self._knows_all = False  # demands, see ``_learn``
        self._last = NO_REQUESTS
        self._present = _Present()
        self._state = NO_STATE
        self._lock = asyncio.Lock()
        self._occupied = asyncio.Event()  # there are objects of ours

    async def reconcile(self, wanted: PassDemands, *, now: datetime) -> CapacityRequests:
        """Create, resize, replace and delete objects so that they match the demands.

        No error is raised. What the API server refuses is logged once, and reported as refused or
        unavailable. After a failure the last requests count, for five minutes at most.
        """
        failure = "an unexpected error, which the log has"
        with self._boundary():
            try:
                async with asyncio.timeout(_LONGEST), self._lock:
                    self._last = await self._reconcile_unless_blocked(wanted, now)
                    return self._last
            except TimeoutError:
                failure = "the API server is slow"
            except (KubeError, DecodeError) as error:
                failure = str(error)
        return self._after_failure(failure, wanted, now)

    async def run(self) -> None:
        """Remove requests between passes as soon as replacements have taken their places."""
        while True:
            await self._occupied.wait()
            await asyncio.sleep(_TICK)
            settled = False
            with self._boundary(), contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_BETWEEN), self._lock:
                    settled = await self._settle(self._clock.now())
            if not settled:
                await asyncio.sleep(_PAUSE)

    async def _reconcile_unless_blocked(
        self, wanted: PassDemands, now: datetime
    ) -> CapacityRequests:
        if self._is_blocked(now):
            return self._unavailable()
        if self._is_idle(wanted, now):
            return NO_REQUESTS
        try:
            requests = await self._reconcile(wanted, now)
        except ForbiddenError as error:
            self._block(str(error), now, pause=self._limits.first_pause)
        except NotFoundError as error:
            self._block(str(error), now, pause=_NOT_SERVED_AGAIN)
        else:
            if self._objects.kind is not None:
                self._solved()
                return requests
            self._block(_NOT_SERVED, now, pause=_NOT_SERVED_AGAIN)
        self._failing_since = None
        return self._unavailable()

    async def _reconcile(self, wanted: PassDemands, now: datetime) -> CapacityRequests:
        listed = await self._objects.list(now)
        self._listed_at = now
        await self._objects.clear(listed)
        self._learn(wanted, now)
        pods = self._pods_on_nodes({each.workload for each in listed.objects})
        plan = plan_provisioning(
            wanted,
            listed.objects,
            kind=self._objects.kind,
            missing=self._missing(pods),
            before=self._state,
            limits=self._limits,
            now=now,
            knows_all=self._knows_all,
        )
        return await self._execute(plan, now)

    def _learn(self, wanted: PassDemands, now: datetime) -> None:
        """Note whether all demands are known: after a complete pass, or the time-out of requests.

        Passes that a rate limit ends early start with other VPAs each time.
        """
        if self._began is None:
            self._began = now
        waited = abs(now - self._began) >= self._limits.timeout  # abs: the clock may move back
        self._knows_all = self._knows_all or wanted.complete or waited

    def _pods_on_nodes(self, workloads: Collection[Controller]) -> dict[Controller, set[str]]:
        """Return the UIDs of the pods of each workload that are on nodes and not terminating.

        It runs every second over whole namespaces, so owners are looked up once for all replicas,
        which share them.
        """
        found: dict[Controller, set[str]] = {each: set() for each in workloads}
        of_owners: dict[int, Sequence[set[str]]] = {}  # by the identity of the references
        for namespace in {each.namespace for each in workloads}:
            for pod in self._pods.in_namespace(namespace):
                meta = pod.metadata
                if meta.deletion_timestamp is not None:
                    continue
                key = id(meta.owner_references)
                if key not in of_owners:
                    of_owners[key] = [found[each] for each in self._owners(pod) if each in found]
                for uids in of_owners[key]:
                    uids.add(meta.uid)
        return found

    def _owners(self, pod: LivePod) -> Collection[Controller]:
        """Return the direct controller of a pod, and its workload."""
        direct = controller_of(pod.metadata)
        if direct is None:
            return ()
        return {direct, workload_of(direct, self._controllers.find)}

    def _missing(self, pods: Mapping[Controller, Collection[str]]) -> Mapping[Controller, int]:
        """Return how many replicas of each workload are on no node; 0 if unknown."""
        missing = {}
        for workload, placed in pods.items():
            wanted = group_size(workload, self._controllers.find).wanted
            missing[workload] = 0 if wanted is None else max(0, wanted - len(placed))
        return missing

    # Writing

    async def _execute(self, plan: ProvisioningPlan, now: datetime) -> CapacityRequests:
        """Carry the plan out; return the requests for workloads, with refusals."""
        self._state = plan.state
        kept, failed = await self._remove_and_resize(plan)
        undeleted = {each.workload for each in failed}
        requests, postponed = dict(plan.requests), dict(plan.postponed)
        for creation in plan.creations:
            workload = creation.demand.workload
            if workload in undeleted:
                created = NotCreated(None, "the former request could not be deleted")
            elif len(kept) >= self._limits.most_requests:
                created = NotCreated(None, self._limits.bound)
            else:
                found = await self._objects.create(creation, now)
                if isinstance(found, CapacityObject):
                    kept.append(found)
                    continue
                created = found
            del requests[workload]
            if created.stage is None:
                postponed[workload] = created.message
                self._listed_at = None  # the next pass finds what was created
            else:
                self._pause(workload, created.stage, created.message, now)
                requests[workload] = request_of_pause(self._state.pauses[workload])
        self._remember(kept)
        return CapacityRequests(by_workload=requests, postponed=postponed)

    async def _remove_and_resize(
        self, plan: ProvisioningPlan
    ) -> tuple[list[CapacityObject], list[CapacityObject]]:
        """Return the objects that remain, and those of them that couldn't be deleted."""
        failed = [each for each in plan.deletions if not await self._objects.delete(each)]
        before = {each.uid: each for each, count in plan.resizes}
        kept = []
        for each in plan.kept:
            if each.uid in before and not await self._objects.resize(each):
                kept.append(before[each.uid])
            else:
                kept.append(each)
        return kept + failed, failed

    # Between passes

    async def _settle(self, now: datetime) -> bool:
        """Remove what isn't needed any more; return False after a failed call."""
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
        if not plan.deletions and not plan.resizes:
            return True
        kept, _ = await self._remove_and_resize(plan)
        unchanged = {each.workload for each in kept if each not in plan.kept}
        self._remember(kept, {each: present.pods[each] for each in unchanged})
        return not unchanged

    def _remember(
        self,
        kept: Sequence[CapacityObject],
        counted: Mapping[Controller, Collection[str]] = _NO_PODS,
    ) -> None:
        """Note the objects, and the pods that take no places: those of now, or ``counted``."""
        pods = self._pods_on_nodes({each.workload for each in kept})
        self._present = _Present(tuple(kept), {**pods, **counted})
        if kept:
            self._occupied.set()
        else:
            self._occupied.clear()

    # Problems

    def _boundary(self) -> Boundary:
        return self._errors.around("provision", "Updater", "", "capacity")

    def _is_idle(self, wanted: PassDemands, now: datetime) -> bool:
        """Return whether there is nothing to do, and the last list is young."""
        if wanted.demands or self._present.objects or self._state != NO_STATE:
            return False
        return self._listed_at is not None and now - self._listed_at < _LIST_AGAIN

    def _is_blocked(self, now: datetime) -> bool:
        """Return whether a problem is to be left alone, and no object of ours can exist."""
        known = self._listed_at is not None and not self._present.objects
        return self._problem is not None and now < self._problem[1] and known

    def _after_failure(self, text: str, wanted: PassDemands, now: datetime) -> CapacityRequests:
        """Return the last requests; after five minutes of failures they are unavailable."""
        if self._failing_since is None:
            logger.warning("capacity requests not updated", extra={"error": text})
            self._failing_since = now
        if abs(now - self._failing_since) >= _LONGEST_OUTAGE:  # abs: the clock may move back
            self._block(text, now)
            self._last = self._unavailable()
        self._listed_at = None  # the next pass finds what was created
        workloads = {each.workload for each in wanted.demands} - self._last.by_workload.keys()
        return replace(
            self._last, postponed=dict.fromkeys(workloads, f"nothing is requested: {text}")
        )

    def _block(self, text: str, now: datetime, *, pause: timedelta = timedelta()) -> None:
        if self._asks and (self._problem is None or self._problem[0] != text):
            logger.info("capacity can't be requested", extra={"cause": text})
        self._problem = (text, now + pause)
        self._listed_at = now

    def _solved(self) -> None:
        if self._asks and self._problem is not None:
            logger.info("capacity can be requested again")
        self._problem = self._failing_since = None

    def _unavailable(self) -> CapacityRequests:
        return CapacityRequests(unavailable="" if self._problem is None else self._problem[0])

    def _pause(self, workload: Controller, stage: RequestStage, text: str, now: datetime) -> None:
        self._state = paused(self._state, workload, stage, text, limits=self._limits, now=now)
