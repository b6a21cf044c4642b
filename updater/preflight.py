"""Preflight of a VPA's actions: would the API server accept the pod that follows?"""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from common.api.core import Pod, PodSpec, ResourceQuota
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
from updater.abreast import Begin
from updater.decision import Decision, Reason, leave, wait
from updater.dry_run import DryRuns
from updater.eviction_tracking import EvictionTracker
from updater.resize_plan import ResizePlan
from updater.sending import Ask
from updater.snapshot import AutoscaledPods


@dataclass(slots=True)
class QuotaUse:
    """The ResourceQuotas of a snapshot, and what the actions of this pass have taken of them.

    The status of a quota lags behind: it is read again for the next pass.
    """

    quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)  # by namespace
    _taken: defaultdict[str, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, namespace: str) -> Sequence[ResourceQuota]:
        return self.quotas.get(namespace, ())

    def taken(self, namespace: str) -> ResourceQuantities:
        return self._taken.get(namespace, {})

    def take(self, namespace: str, grown: ResourceQuantities) -> None:
        """Note that an action was begun; one that fails gives nothing back in this pass."""
        taken = self._taken[namespace]
        for name, amount in grown.items():
            taken[name] = taken[name] + amount if name in taken else amount


class Preflight:
    """Judges the pods that follow the evictions and resizes of one VPA in one pass (X110).

    A judgement costs as much as an admission: it is made once for pods that are alike, and only
    for those that would be evicted or resized otherwise.
    """

    def __init__(
        self,
        scaled: AutoscaledPods,
        evictions: EvictionTracker | None,
        *,
        most_boost: Quantity | None = None,
        pod_level: PodLevelMode = PodLevelMode.KEEP,
        quota_use: QuotaUse | None = None,
        dry_runs: DryRuns | None = None,
    ) -> None:
        self._scaled = scaled
        self._evictions = evictions
        self._most_boost = most_boost
        self._pod_level = pod_level
        self._quota_use = quota_use or QuotaUse()
        self._dry_runs = dry_runs
        self._replacements: dict[tuple[int, int], tuple[Pod, PodSpec, Refusal | None]] = {}
        self._resizes: dict[int, tuple[ResizePlan, PodSpec, Refusal | None]] = {}

    # Evictions

    def hold_up(self, pod: Pod) -> Decision | None:
        """Why the pod is not to be evicted now, though everything else allows it."""
        if self._evictions is not None:
            allowed = self._evictions.allowance()
            if not allowed.allows_one:
                return wait(allowed.reason, until=allowed.until)
        try:
            refused = self._replacement(pod)
        except QuantityError:
            return leave(Reason.UNREADABLE)
        if refused is not None:
            return wait(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail=refused.message)
        return None if self._dry_runs is None else self._dry_runs.known(pod, self._scaled)

    @property
    def ask(self) -> Ask | None:
        """Ask the API server about the replacement of a pod; None: that is switched off."""
        dry_runs = self._dry_runs
        return None if dry_runs is None else partial(dry_runs.ask, scaled=self._scaled)

    def evicting(self, pod: Pod, call: Begin) -> Begin:
        """The same call, which takes the replacement's part of the quotas when it is begun."""
        return self._taking(pod, call, lambda: share_of_new(self._followed_by(pod)[0]))

    def _replacement(self, pod: Pod) -> Refusal | None:
        spec, refused = self._followed_by(pod)
        quotas = self._quotas(pod)
        if refused is None and quotas:
            refused = replacement_refusal(quotas, pod, spec, taken=self._taken(pod))
        return refused

    def _followed_by(self, pod: Pod) -> tuple[PodSpec, Refusal | None]:
        # Replicas share what is equal in them; a pod that is kept keeps the identities of its own.
        alike = id(pod.spec), id(pod.metadata.annotations)
        if alike not in self._replacements:
            scaled = self._scaled
            spec = replacement_spec(
                pod,
                scaled.vpa,
                scaled.limit_ranges,
                most_boost=self._most_boost,
                pod_level=self._pod_level,
            )
            self._replacements[alike] = (
                pod,
                spec,
                spec_refusal(spec, scaled.limit_ranges, present=pod.spec),
            )
        _, spec, refused = self._replacements[alike]
        return spec, refused

    # Resizes

    def resize(self, pod: Pod, plan: ResizePlan) -> Refusal | None:
        """Why the API server would refuse the resize."""
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

    def resizing(self, pod: Pod, plan: ResizePlan, call: Begin) -> Begin:
        """The same call, which takes what the pod grows by from the quotas when it is begun."""
        if not plan.changes:
            return call
        return self._taking(pod, call, lambda: share_of(pod, self._resized(pod, plan)[0]))

    def _resized(self, pod: Pod, plan: ResizePlan) -> tuple[PodSpec, Refusal | None]:
        known = self._resizes.get(id(plan))
        if known is None:  # pods that are alike have one plan
            limit_ranges = self._scaled.limit_ranges
            spec = resized_spec(pod.spec, plan.operations, limit_ranges)
            refused = spec_refusal(spec, limit_ranges, present=pod.spec) or qos_refusal(pod, spec)
            known = self._resizes[id(plan)] = plan, spec, refused
        return known[1], known[2]

    # Quotas

    def _quotas(self, pod: Pod) -> Sequence[ResourceQuota]:
        return self._quota_use.of(pod.metadata.namespace)

    def _taken(self, pod: Pod) -> ResourceQuantities:
        return self._quota_use.taken(pod.metadata.namespace)

    def _taking(self, pod: Pod, call: Begin, after: Callable[[], ResourceQuantities]) -> Begin:
        if not self._quotas(pod):
            return call
        try:
            grown = growth(share_of(pod), after())
        except QuantityError:
            return call  # the quotas' next status counts it

        def begin() -> Coroutine[Any, Any, None]:
            self._quota_use.take(pod.metadata.namespace, grown)
            return call()

        return begin
