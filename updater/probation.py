"""A VPA's evictions while a pass sends them: how many may follow, and what came of them."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from common.annotations import OBSERVED_CONTAINERS
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.target.owners import Controller
from updater.abreast import Begin
from updater.group_size import tells
from updater.live_vpa import in_force_since
from updater.outcomes import (
    MOST_MISSES,
    NOTHING_YET,
    Allowance,
    Observation,
    Outcomes,
    Sight,
    Turn,
    allowance,
    evicted,
    observe,
)
from updater.sighting import Sighting
from updater.snapshot import AutoscaledPods, ClusterSnapshot

Tell = Callable[[VerticalPodAutoscaler, Observation], None]

_UNPATCHED = (
    "was not patched: see whether the API server reaches the webhook, and whether the webhook "
    "leaves this namespace out"
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
    "they were there when the updater started: see whether the API server reaches the webhook, "
    "and whether the webhook leaves this namespace out"
)


@dataclass(slots=True)
class Probation:
    """The evictions of one VPA in one pass.

    What can be known without a clock or an API server is :mod:`updater.outcomes`; this is what
    changes while answers come in.
    """

    scaled: AutoscaledPods
    outcomes: Outcomes
    terminating: frozenset[str]  # UIDs
    now: datetime
    tell: Tell
    under_way: int = 0  # evictions without an answer
    observed: bool = False

    def observe_if_waiting(self) -> None:
        """Look at the pods that came, where that matters; most VPAs have nothing to wait for."""
        if self.outcomes.waits:
            self.observe()

    def observe(self) -> None:
        """Look at the pods that came, once in a pass; necessary before anything is evicted."""
        if self.observed:
            return
        self.observed = True
        found = observe(self.outcomes, sight(self.scaled, self.terminating), now=self.now)
        self.outcomes = found.outcomes
        self.tell(self.scaled.vpa, found)

    def came_up_unpatched(self, pod: Pod) -> bool:
        """Whether the pod should rather go last, of those that are to be evicted.

        Until a right pod was seen, one that came up without being patched is the one that tells
        least if it goes. And if it went again and again, no trace of three evictions would be
        left: a process that restarts would send three more.
        """
        if self.outcomes.verified or OBSERVED_CONTAINERS in (pod.metadata.annotations or {}):
            return False
        since, created = in_force_since(self.scaled.vpa), pod.metadata.creation_timestamp
        return since is not None and created is not None and created > since

    def allowance(self) -> Allowance:
        return allowance(self.outcomes, now=self.now, under_way=self.under_way)

    def counted(self, call: Begin) -> Begin:
        """The same call, which counts as under way from its begin until it has ended."""

        def begin() -> Coroutine[Any, Any, None]:
            self.under_way += 1
            return until_answered()

        async def until_answered() -> None:
            await call()  # not made before: an end that comes first would find it never begun
            self.under_way -= 1

        return begin

    def note_eviction(self, pod: Pod, controller: Controller, *, now: datetime) -> None:
        """An eviction that the API server took, or may have taken."""
        # Whoever waits has seen the pods of this pass already.
        known = () if self.outcomes.waits else [each.metadata.uid for each in self.scaled.pods]
        had = 0 if tells(controller) else list(self.scaled.controllers.values()).count(controller)
        self.outcomes = evicted(
            self.outcomes,
            pod.metadata.uid,
            controller,
            self.scaled.vpa,
            known=known,
            now=now,
            among=had,
        )


@dataclass(slots=True)
class Probations:
    """Those of all VPAs; a pass makes of the outcomes before it those for the next one."""

    before: Mapping[str, Outcomes]  # by UID of the VPA
    snapshot: ClusterSnapshot
    now: datetime
    tell: Tell
    begun: list[Probation] = field(default_factory=list)

    def of(self, scaled: AutoscaledPods) -> Probation:
        outcomes = self.before.get(scaled.vpa.metadata.uid, NOTHING_YET)
        found = Probation(scaled, outcomes, self.snapshot.terminating, self.now, self.tell)
        self.begun.append(found)
        return found

    @property
    def outcomes(self) -> dict[str, Outcomes]:
        """By UID of the VPA; without those of which nothing is known."""
        after = {each.scaled.vpa.metadata.uid: each.outcomes for each in self.begun}
        merged = {**self.before, **after}
        return {uid: outcomes for uid, outcomes in merged.items() if outcomes is not NOTHING_YET}


def sight(scaled: AutoscaledPods, terminating: frozenset[str]) -> Sight:
    """A VPA's pods as :func:`updater.outcomes.observe` takes them."""
    return Sight(
        vpa=scaled.vpa,
        pods=scaled.pods,
        controllers=scaled.controllers,
        configured={controller: size.wanted for controller, size in scaled.sizes.items()},
        existing={controller: size.existing for controller, size in scaled.sizes.items()},
        terminating=terminating,
        limit_ranges=scaled.limit_ranges,
        in_force_since=in_force_since(scaled.vpa),
    )


def sentence(found: Observation) -> str:
    """What a turn is told with: why, and what to look at; empty without a turn."""
    if found.turn is Turn.RESUMED:
        return "Evictions go on: a new pod came up with the recommendation."
    if found.turn is Turn.NONE:
        return ""
    pods = f"{MOST_MISSES} pods in a row" if found.outcomes.misses >= MOST_MISSES else "all pods"
    return (
        f"Evictions are suspended, but for one an hour: {pods} did not come up with the "
        f"recommendation, {_last_miss(found)}."
    )


def _last_miss(found: Observation) -> str:
    last = next((note for note in reversed(found.notes) if note.sighting.is_miss), None)
    if last is None:
        return _BEFORE
    if last.sighting is Sighting.NOT_CREATED:
        return _NOT_CREATED
    told = _UNPATCHED if last.sighting is Sighting.UNPATCHED else _OUTSIDE_RANGE
    return f"the last one, {last.pod}, {told}"
