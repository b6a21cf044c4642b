"""Resolution of a VPA's target: the selector of its pods, and topmost controllers.

Source: recommender.md 10, updater.md 4; ``vpaTargetSelectorFetcher`` in
vertical-pod-autoscaler/pkg/target/fetcher.go, ``controllerFetcher`` in
pkg/target/controller_fetcher.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, assert_never

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.meta import OwnedObject
from common.api.workloads import (
    NO_TEMPLATE,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicationController,
    ResourcesTemplate,
    StatefulSet,
    Workload,
)
from common.errors import VpaError
from common.kube import endpoints
from common.kube.cache import Cache
from common.kube.client import KubeClient
from common.kube.endpoints import Access
from common.kube.lookup_budget import LookupBudget
from common.kube.scales import Scales, Unavailable
from common.labels import (
    LabelSelectorError,
    Selector,
    from_label_selector,
    from_map,
    parse_selector,
)
from common.target.owners import (
    Absent,
    Answer,
    Controller,
    Failed,
    Found,
    NeedsLookup,
    OwnerError,
    OwnerProblem,
    Topmost,
    Unknown,
    topmost,
)

ACCESS = (
    endpoints.DEPLOYMENTS.access("list", "watch"),
    endpoints.REPLICA_SETS.access("list", "watch"),
    endpoints.STATEFUL_SETS.access("list", "watch"),
    endpoints.DAEMON_SETS.access("list", "watch"),
    endpoints.JOBS.access("list", "watch"),
    endpoints.CRON_JOBS.access("list", "watch"),
    endpoints.REPLICATION_CONTROLLERS.access("list", "watch"),
    Access("*", "*/scale", ("get",)),
)
"""API access of :class:`ControllerCaches` and :class:`Targets`; any resource may be a target."""

_NO_TARGET = "targetRef not defined. If this is a v1beta1 object, switch to v1"
_MOST_SELECTORS = 20_000  # kept; far more than a cluster has VPAs


class TargetError(VpaError):
    """A target, or an owner, can't be resolved; the VPA's condition shows the message.

    ``transient`` means that the API server failed, so that a retry may succeed.
    """

    def __init__(
        self, message: str, *, transient: bool = False, problem: OwnerProblem | None = None
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.problem = problem


@dataclass(frozen=True, kw_only=True)  # no slots: it has one instance, and a cached index
class ControllerCaches:
    """The controllers of the seven well-known kinds."""

    deployments: Cache[Deployment]
    replica_sets: Cache[Workload] | Cache[OwnedObject]
    stateful_sets: Cache[StatefulSet]
    daemon_sets: Cache[DaemonSet]
    jobs: Cache[Job]
    cron_jobs: Cache[CronJob]
    replication_controllers: Cache[ReplicationController]

    @classmethod
    def create(cls, client: KubeClient, *, namespace: str = "", only_owners: bool = False) -> Self:
        """Return caches of one namespace or, by default, of all; the caller has to run them.

        A cluster has many times more ReplicaSets than other controllers. With ``only_owners``
        their cache contains only owners; if a VPA targets one, its selector is read from its
        scale.
        """
        replica_sets: Cache[Workload] | Cache[OwnedObject]
        if only_owners:
            replica_sets = Cache(client, endpoints.REPLICA_SET_OWNERS, namespace=namespace)
        else:
            replica_sets = Cache(client, endpoints.REPLICA_SETS, namespace=namespace)
        return cls(
            deployments=Cache(client, endpoints.DEPLOYMENTS, namespace=namespace),
            replica_sets=replica_sets,
            stateful_sets=Cache(client, endpoints.STATEFUL_SETS, namespace=namespace),
            daemon_sets=Cache(client, endpoints.DAEMON_SETS, namespace=namespace),
            jobs=Cache(client, endpoints.JOBS, namespace=namespace),
            cron_jobs=Cache(client, endpoints.CRON_JOBS, namespace=namespace),
            replication_controllers=Cache(
                client, endpoints.REPLICATION_CONTROLLERS, namespace=namespace
            ),
        )

    def all(self) -> tuple[Cache[Any], ...]:
        """Return every cache, to be run and waited for."""
        return (
            self.deployments,
            self.replica_sets,
            self.stateful_sets,
            self.daemon_sets,
            self.jobs,
            self.cron_jobs,
            self.replication_controllers,
        )

    def find(
        self, controller: Controller
    ) -> Workload | CronJob | ReplicationController | OwnedObject | None:
        """Return the object; None if there is none, or of a kind that isn't well-known (Q18)."""
        if not controller.is_well_known:
            return None
        return self._by_kind[controller.kind].get(controller.namespace, controller.name)

    @functools.cached_property
    def _by_kind(self) -> Mapping[str, Cache[Any]]:
        return {cache.endpoint.kind: cache for cache in self.all()}


class Targets:
    """Resolves targets and owners with the controllers' caches.

    For other kinds it reads the scale subresource, and caches the answers and, for a shorter time,
    errors. With ``ahead`` cached answers are used while they are refreshed: see
    :class:`~common.kube.scales.Scales`.
    """

    def __init__(
        self, client: KubeClient, controllers: ControllerCaches, *, ahead: bool = False
    ) -> None:
        self._controllers = controllers
        self._scales = Scales(client, ahead=ahead)
        # By target: the object that its selector was read from; a changed one is another object.
        self._selectors: dict[Controller, tuple[object, Selector]] = {}

    def controller(
        self, target: Controller
    ) -> Workload | CronJob | ReplicationController | OwnedObject | None:
        """Return a target from its cache; None if its kind has none."""
        return self._controllers.find(target)

    def template(self, target: Controller) -> ResourcesTemplate:
        """Return the pod template of a target; an empty one if its kind isn't read with one."""
        match self._controllers.find(target):
            case Deployment() | StatefulSet() | DaemonSet() as found:
                return found.spec.template
            case CronJob() as found:
                return found.spec.job_template.spec.template
            case _:
                return NO_TEMPLATE

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        """Return the selector of the pods that the VPA's target controls.

        Raises:
            TargetError: there is no target, it doesn't exist, or it has no usable selector.
        """
        ref = vpa.spec.target_ref
        if ref is None:
            raise TargetError(_NO_TARGET)
        target = Controller(vpa.metadata.namespace, ref.kind, ref.name, ref.api_version)
        if not target.is_well_known:
            return await self._scale_selector(target)
        found = self._controllers.find(target)
        if found is None:
            raise TargetError(
                f"{ref.kind} {target.namespace}/{ref.name} does not exist",
                problem=OwnerProblem.MISSING,
            )
        if isinstance(found, OwnedObject):
            api_version = endpoints.REPLICA_SETS.api_version  # the target may lack it
            return await self._scale_selector(replace(target, api_version=api_version))
        known = self._selectors.get(target)
        if known is not None and known[0] is found:
            return known[1]
        try:
            selector = own_selector(found)
        except LabelSelectorError as error:
            raise TargetError(str(error)) from error
        if len(self._selectors) >= _MOST_SELECTORS:
            self._selectors.clear()
        self._selectors[target] = (found, selector)
        return selector

    def begin_cycle(self, interval: float) -> None:
        """Set the time budget for look-ups of the cycle that starts now; in seconds."""
        self._scales.budget = LookupBudget.of_cycle(interval)

    def postponed_first(
        self, vpas: Sequence[VerticalPodAutoscaler]
    ) -> Sequence[VerticalPodAutoscaler]:
        """Sort VPAs so that those whose look-ups were postponed longest ago are resolved first."""
        return sorted(vpas, key=self._postponed_since) if self._scales.postpones else vpas

    def _postponed_since(self, vpa: VerticalPodAutoscaler) -> float:
        ref = vpa.spec.target_ref
        if ref is None:
            return math.inf
        target = Controller(vpa.metadata.namespace, ref.kind, ref.name, ref.api_version)
        return self._scales.postponed_since(target)

    async def topmost(self, controller: Controller) -> Controller | None:
        """Return the topmost well-known or scalable controller, ``controller`` included, or None.

        Raises:
            TargetError: an owner doesn't exist, can't be read, or owns itself.
        """
        last: Answer = Absent()
        postponed: dict[Controller, Answer] = {}

        def lookup(owner: Controller) -> Answer:
            nonlocal last
            last = postponed.get(owner) or self._lookup(owner)
            return last

        while True:
            outcome = topmost(controller, lookup)
            match outcome:
                case Topmost(controller=found):
                    return found
                case NeedsLookup(controller=owner):
                    answer = await self._scales.fetch(owner)
                    if isinstance(self._lookup(owner), Unknown):
                        postponed[owner] = answer
                case OwnerError(text=text, problem=problem):
                    transient = isinstance(last, Unavailable)
                    raise TargetError(text, transient=transient, problem=problem)
                case _:
                    assert_never(outcome)

    async def _scale_selector(self, target: Controller) -> Selector:
        scale = await self._scales.current(target)
        if isinstance(scale, Failed):
            raise _unhandled(target, scale.text, transient=isinstance(scale, Unavailable))
        if not scale.selector:
            named = f"{target.namespace}/{target.name}"
            raise _unhandled(
                target, f"resource {named} has an empty selector for scale sub-resource"
            )
        try:
            return parse_selector(scale.selector)
        except LabelSelectorError as error:
            raise _unhandled(target, str(error)) from error

    def _lookup(self, controller: Controller) -> Answer:
        if not controller.is_well_known:
            return self._scales.answer(controller)
        found = self._controllers.find(controller)
        return Absent() if found is None else Found(found.metadata.owner_references)


def own_selector(found: Workload | CronJob | ReplicationController) -> Selector:
    """Return the selector in a controller's own fields.

    Raises:
        LabelSelectorError: it is malformed.
    """
    if isinstance(found, CronJob):
        return from_map(found.spec.job_template.spec.template.metadata.labels)
    if isinstance(found, ReplicationController):
        return from_map(found.spec.selector)
    return from_label_selector(found.spec.selector)


def _unhandled(target: Controller, error: str, *, transient: bool = False) -> TargetError:
    named = f"{target.api_version} / {target.kind} / {target.name}"
    return TargetError(
        f"unhandled targetRef {named}, last error {error}",
        transient=transient,
        problem=OwnerProblem.UNHANDLED,
    )
