"""Preflight of a VPA's actions: the checks of the API server on the resulting pods (X110)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from common.api.core import Pod, PodSpec, ResourceQuota
from common.identity_cache import IdentityCache
from common.quantity import Quantity, QuantityError
from common.recommendation.expected_pod import replacement_spec, resized_spec
from common.recommendation.pod_level import PodLevelMode
from common.recommendation.preflight import Check, Refusal, qos_refusal, spec_refusal
from common.recommendation.quota import (
    growth,
    replacement_refusal,
    resize_refusal,
    share_of,
    share_of_new,
)
from common.resources import ResourceQuantities
from common.scheduling.room import Room, room_of_pod
from updater.decision import Decision, Reason, leave, wait
from updater.resize.resize_plan import ResizePlan
from updater.snapshot.cluster_snapshot import AutoscaledPods

_Judged = tuple[PodSpec, Refusal | None]
_CACHED = 1024  # kinds of pods of one VPA


@dataclass(slots=True)
class QuotaUse:
    """The ResourceQuotas by namespace, and their use by actions of this pass.

    All VPAs share them. A failed action doesn't free its use in this pass; the next pass reads the
    quotas' status again. Planning checks and uses a quota in one step.
    """

    quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)
    _taken: defaultdict[str, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the quotas of a namespace."""
        return self.quotas.get(namespace, ())

    def taken(self, namespace: str) -> ResourceQuantities:
        """Return the use by actions of this pass."""
        return self._taken.get(namespace, {})

    def take(self, namespace: str, growth: ResourceQuantities) -> None:
        """Record the use by an action."""
        taken = self._taken[namespace]
        for name, amount in growth.items():
            taken[name] = taken[name] + amount if name in taken else amount


@dataclass(slots=True)
class Preflight:
    """Checks the pods that result from evictions and resizes of one VPA in one pass.

    A check costs as much as an admission, so its result is cached for equal pods, and only pods
    that would be updated otherwise are checked.
    """

    scaled: AutoscaledPods
    quotas: QuotaUse
    most_boost: Quantity | None = None
    pod_level: PodLevelMode = PodLevelMode.KEEP
    _replacements: IdentityCache[_Judged] = field(default_factory=lambda: IdentityCache(_CACHED))
    _needs: IdentityCache[Room] = field(default_factory=lambda: IdentityCache(_CACHED))
    _resizes: IdentityCache[_Judged] = field(default_factory=lambda: IdentityCache(_CACHED))
    _rooms: IdentityCache[Room] = field(default_factory=lambda: IdentityCache(_CACHED))

    # Evictions

    def refuse_replacement(self, pod: Pod) -> Decision | None:
        """Return the decision not to evict the pod; None: its replacement would be accepted."""
        try:
            spec, refused = self._replacement(pod)
            quotas = self._quotas(pod)
            if refused is None and quotas:
                refused = replacement_refusal(quotas, pod, spec, taken=self._taken(pod))
        except QuantityError:
            return leave(Reason.UNREADABLE)
        if refused is None:
            return None
        return wait(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail=refused.message)

    def replacement(self, pod: Pod) -> PodSpec:
        """Return the spec of the pod's replacement.

        Raises:
            QuantityError: a quantity in the VPA, the pod or a LimitRange is malformed.
        """
        return self._replacement(pod)[0]

    def need_of_replacement(self, pod: Pod) -> Room:
        """Return the room that the pod's replacement needs.

        Raises:
            QuantityError: a quantity in the VPA, the pod or a LimitRange is malformed.
        """
        spec = self.replacement(pod)
        return self._needs.get((spec,), lambda: room_of_pod(spec))

    def take_for_replacement(self, pod: Pod) -> None:
        """Use the quotas for the growth of the replacement over the pod."""
        self._take(pod, lambda: share_of_new(self.replacement(pod)))

    def _replacement(self, pod: Pod) -> _Judged:
        return self._replacements.get(
            (pod.spec, pod.metadata.annotations), lambda: self._judge_replacement(pod)
        )

    def _judge_replacement(self, pod: Pod) -> _Judged:
        scaled = self.scaled
        spec = replacement_spec(
            pod,
            scaled.vpa,
            scaled.limit_ranges,
            most_boost=self.most_boost,
            pod_level=self.pod_level,
        )
        return spec, spec_refusal(spec, scaled.limit_ranges, present=pod.spec)

    # Resizes

    def refuse_resize(self, pod: Pod, plan: ResizePlan) -> Refusal | None:
        """Return the reason that the API server would refuse the resize, if it would."""
        if not plan.changes:
            return None
        try:
            resized, refused = self._resized(pod, plan)
            quotas = self._quotas(pod)
            if refused is None and quotas:
                refused = resize_refusal(quotas, pod, resized, taken=self._taken(pod))
        except QuantityError as error:
            return Refusal(Check.UNREADABLE, str(error))
        return refused

    def take_for_resize(self, pod: Pod, plan: ResizePlan) -> None:
        """Use the quotas for the growth of the pod."""
        if plan.changes:
            self._take(pod, lambda: share_of(pod, self._resized(pod, plan)[0]))

    def room_after_resize(self, pod: Pod, plan: ResizePlan) -> Room | None:
        """Return the room that the pod takes after the resize; None: it can't be read."""
        try:
            spec, _ = self._resized(pod, plan)
            return self._rooms.get((spec,), lambda: room_of_pod(spec))
        except QuantityError:
            return None

    def _resized(self, pod: Pod, plan: ResizePlan) -> _Judged:
        return self._resizes.get((plan, pod.spec), lambda: self._judge_resize(pod, plan))

    def _judge_resize(self, pod: Pod, plan: ResizePlan) -> _Judged:
        limit_ranges = self.scaled.limit_ranges
        spec = resized_spec(pod.spec, plan.operations, limit_ranges)
        refused = spec_refusal(spec, limit_ranges, present=pod.spec) or qos_refusal(pod, spec)
        return spec, refused

    # Quotas

    def has_quotas(self) -> bool:
        """Return whether the VPA's namespace has quotas, which planned actions use."""
        return bool(self.quotas.of(self.scaled.vpa.metadata.namespace))

    def _take(self, pod: Pod, share: Callable[[], ResourceQuantities]) -> None:
        """Use the quotas for the growth of a pod's share."""
        if self._quotas(pod):
            try:
                grown = growth(share_of(pod), share())
            except QuantityError:
                return  # the quotas' next status counts it
            self.quotas.take(pod.metadata.namespace, grown)

    def _quotas(self, pod: Pod) -> Sequence[ResourceQuota]:
        return self.quotas.of(pod.metadata.namespace)

    def _taken(self, pod: Pod) -> ResourceQuantities:
        return self.quotas.taken(pod.metadata.namespace)
