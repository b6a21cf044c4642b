"""Preflight of a VPA's actions: would the API server accept the pod that follows (X110)?"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from updater.decision import Decision, Reason, leave, wait
from updater.resize.resize_plan import ResizePlan
from updater.snapshot.cluster_snapshot import AutoscaledPods

_Judged = tuple[PodSpec, Refusal | None]
_KINDS_OF_PODS = 1024  # that differ in what counts here, in one VPA


def _cache() -> IdentityCache[_Judged]:
    return IdentityCache(_KINDS_OF_PODS)


@dataclass(slots=True)
class QuotaUse:
    """Quotas by namespace, shared by all VPAs of a pass.

    The status of a quota lags behind: it is read again for the next pass, and an action that
    fails gives nothing back in this one. Reading what is left and taking from it happen in one
    step of planning, with no other VPA in between.
    """

    quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)
    _taken: defaultdict[str, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the quotas of a namespace."""
        return self.quotas.get(namespace, ())

    def taken(self, namespace: str) -> ResourceQuantities:
        """Return what actions of this pass have taken so far."""
        return self._taken.get(namespace, {})

    def take(self, namespace: str, growth: ResourceQuantities) -> None:
        """Record that an action takes this much."""
        taken = self._taken[namespace]
        for name, amount in growth.items():
            taken[name] = taken[name] + amount if name in taken else amount


@dataclass(slots=True)
class Preflight:
    """Judges the pods that would follow the evictions and resizes of one VPA in one pass.

    A judgement costs as much as an admission: it is made once for pods that are alike, and only
    for those that would be evicted or resized otherwise.
    """

    scaled: AutoscaledPods
    quotas: QuotaUse
    most_boost: Quantity | None = None
    pod_level: PodLevelMode = PodLevelMode.KEEP
    _replacements: IdentityCache[_Judged] = field(default_factory=_cache)
    _resizes: IdentityCache[_Judged] = field(default_factory=_cache)

    # Evictions

    def refuse_replacement(self, pod: Pod) -> Decision | None:
        """Return why the pod must not be evicted: the API server would refuse what follows."""
        try:
            spec, refused = self._followed_by(pod)
            quotas = self._quotas(pod)
            if refused is None and quotas:
                refused = replacement_refusal(quotas, pod, spec, taken=self._taken(pod))
        except QuantityError:
            return leave(Reason.UNREADABLE)
        if refused is None:
            return None
        return wait(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail=refused.message)

    def take_for_replacement(self, pod: Pod) -> None:
        """Take what the replacement requests above the pod from the quotas."""
        if self._quotas(pod):
            try:
                grown = growth(share_of(pod), share_of_new(self._followed_by(pod)[0]))
            except QuantityError:
                return  # the quotas' next status counts it
            self.quotas.take(pod.metadata.namespace, grown)

    def _followed_by(self, pod: Pod) -> _Judged:
        # Replicas share what is equal in them.
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
        """Return why the API server would refuse the resize."""
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
        """Take what the pod grows by from the quotas."""
        if plan.changes and self._quotas(pod):
            try:
                grown = growth(share_of(pod), share_of(pod, self._resized(pod, plan)[0]))
            except QuantityError:
                return  # the quotas' next status counts it
            self.quotas.take(pod.metadata.namespace, grown)

    def _resized(self, pod: Pod, plan: ResizePlan) -> _Judged:
        return self._resizes.get((plan, pod.spec), lambda: self._judge_resize(pod, plan))

    def _judge_resize(self, pod: Pod, plan: ResizePlan) -> _Judged:
        limit_ranges = self.scaled.limit_ranges
        spec = resized_spec(pod.spec, plan.operations, limit_ranges)
        refused = spec_refusal(spec, limit_ranges, present=pod.spec) or qos_refusal(pod, spec)
        return spec, refused

    # Quotas

    def has_quotas(self) -> bool:
        """Return whether what is left of quotas may change between two looks at it."""
        return bool(self.quotas.of(self.scaled.vpa.metadata.namespace))

    def _quotas(self, pod: Pod) -> Sequence[ResourceQuota]:
        return self.quotas.of(pod.metadata.namespace)

    def _taken(self, pod: Pod) -> ResourceQuantities:
        return self.quotas.taken(pod.metadata.namespace)
