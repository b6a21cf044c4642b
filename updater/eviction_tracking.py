"""The evictions of VPAs while a pass sends them, and what the breaker makes of them."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.pod_level import PodLevelMode
from common.target.owners import Controller
from updater.abreast import Begin
from updater.breaker import (
    MOST_MISSES,
    Allowance,
    Breaker,
    Note,
    Observation,
    Transition,
    WorkloadView,
    allowance,
    observe,
    record_eviction,
)
from updater.group_size import tells
from updater.live_vpa import in_force_since
from updater.replacement_result import ReplacementResult
from updater.snapshot import AutoscaledPods, ClusterSnapshot

Tell = Callable[[VerticalPodAutoscaler, Observation], None]

_UNPATCHED = (
    "was not patched: see whether the API server reaches the webhook, and whether the webhook "
    "excludes this namespace"
)
_OUTSIDE_RANGE = (
    "was seen by the webhook, and its requests are not those recommended: see whether something "
    "else changes them"
)
_NOT_CREATED = (
    "the last one was not created within two minutes: see the events of the pods' controller for "
    "a quota, a LimitRange or a webhook that refuses pods"
)
_BEFORE = (
    "it was there when the updater started: see whether the API server reaches the webhook, and "
    "whether the webhook excludes this namespace"
)


@dataclass(slots=True)
class EvictionTracker:
    """The evictions of one VPA in one pass.

    Its breaker is a value of :mod:`updater.breaker`; this replaces it as answers come in.
    """

    scaled: AutoscaledPods
    breaker: Breaker | None  # None: the process hasn't looked at the VPA yet
    terminating: frozenset[str]  # UIDs
    now: datetime
    tell: Tell
    pod_level: PodLevelMode = PodLevelMode.KEEP
    in_flight: int = 0  # evictions without an answer
    observed: bool = False

    def observe_if_waiting(self) -> None:
        """Look at new pods where they matter; most VPAs have nothing to wait for."""
        if self.breaker is not None and self.breaker.watches:
            self.observe()

    def observe(self) -> Breaker:
        """Look at new pods once in a pass, before anything is evicted; return the breaker."""
        if self.breaker is None or not self.observed:
            self.observed = True
            view = view_of(self.scaled, self.terminating, self.pod_level)
            found = observe(self.breaker, view, now=self.now)
            self.breaker = found.breaker
            self.tell(self.scaled.vpa, found)
        return self.breaker

    def allowance(self) -> Allowance:
        """Return how many more evictions pass now."""
        return allowance(self.observe(), now=self.now, in_flight=self.in_flight)

    def counted(self, call: Begin) -> Begin:
        """Return the same call, which counts as in flight from its begin until it has ended."""

        def begin() -> Coroutine[Any, Any, None]:
            self.in_flight += 1
            return until_answered()

        async def until_answered() -> None:
            await call()  # not made before: an end that comes first would find it never begun
            self.in_flight -= 1

        return begin

    def note_eviction(self, pod: Pod, controller: Controller, *, now: datetime) -> None:
        """Record an eviction that the API server took, or may have taken."""
        breaker, scaled = self.observe(), self.scaled
        workload = scaled.workload(controller)
        # A breaker that watches has seen the pods of this pass already.
        known = () if breaker.watches else [each.metadata.uid for each in scaled.pods]
        had = 0 if tells(workload) else list(scaled.controllers.values()).count(controller)
        self.breaker = record_eviction(
            breaker, pod.metadata.uid, workload, scaled.vpa, known=known, now=now, among=had
        )


@dataclass(slots=True)
class EvictionTrackers:
    """Those of all VPAs; a pass makes of the breakers before it those for the next one."""

    before: Mapping[str, Breaker]  # by UID of the VPA
    snapshot: ClusterSnapshot
    now: datetime
    tell: Tell
    pod_level: PodLevelMode = PodLevelMode.KEEP
    begun: list[EvictionTracker] = field(default_factory=list)

    def of(self, scaled: AutoscaledPods) -> EvictionTracker:
        """Return the tracker of a VPA, which is its only one in this pass."""
        found = EvictionTracker(
            scaled,
            self.before.get(scaled.vpa.metadata.uid),
            self.snapshot.terminating,
            self.now,
            self.tell,
            self.pod_level,
        )
        self.begun.append(found)
        return found

    @property
    def breakers(self) -> dict[str, Breaker]:
        """By UID of the VPA; without those that the process hasn't looked at."""
        after = {each.scaled.vpa.metadata.uid: each.breaker for each in self.begun}
        merged = {**self.before, **after}
        return {uid: breaker for uid, breaker in merged.items() if breaker is not None}


def view_of(
    scaled: AutoscaledPods, terminating: frozenset[str], pod_level: PodLevelMode
) -> WorkloadView:
    """Return a VPA's pods as :func:`updater.breaker.observe` takes them."""
    return WorkloadView(
        vpa=scaled.vpa,
        pods=scaled.pods,
        workloads={uid: scaled.workload(owner) for uid, owner in scaled.controllers.items()},
        wanted={workload: size.wanted for workload, size in scaled.sizes.items()},
        existing={workload: size.existing for workload, size in scaled.sizes.items()},
        terminating=terminating,
        limit_ranges=scaled.limit_ranges,
        in_force_since=in_force_since(scaled.vpa),
        pod_level=pod_level,
    )


def sentence(found: Observation) -> str:
    """Return why evictions are suspended or resumed, and what to look at; empty if neither."""
    if found.transition is Transition.RESUMED:
        return "Evictions go on: a new pod came up with the recommendation."
    if found.transition is Transition.NONE:
        return ""
    last = next((note for note in reversed(found.notes) if note.result.is_miss), None)
    which = "the youngest pod" if last is None else f"{MOST_MISSES} pods in a row"
    return (
        f"Evictions are suspended, except for one per hour: {which} did not come up with the "
        f"recommendation, {_cause(last)}."
    )


def _cause(last: Note | None) -> str:
    if last is None:
        return _BEFORE
    if last.result is ReplacementResult.NOT_CREATED:
        return _NOT_CREATED
    cause = _UNPATCHED if last.result is ReplacementResult.UNPATCHED else _OUTSIDE_RANGE
    return f"the last one, {last.pod}, {cause}"
