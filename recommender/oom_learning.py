"""OOM kills, from what the caches told into the model.

Each kill that is told is counted as seen, and as recorded or discarded, in one step: so the
counters add up at every moment.

Source: recommender.md 4.4 and 12.4.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import numpy as np

from common.resources import MEMORY
from common.runtime.clock import Clock
from recommender.clock_tolerance import tolerated
from recommender.instants import NEVER, instant
from recommender.metrics import Metrics
from recommender.model.keys import PodKey, VpaKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.pods import TrackedPod
from recommender.model.usage import Usage
from recommender.oom import UNDATED, OomKill
from recommender.sources.facts import pod_facts
from recommender.sources.followed import Followed
from recommender.sources.oom_feed import Observation

logger = logging.getLogger(__name__)

_PATIENCE = 3  # cycles that an Event waits for its pod: the two come by different watches
_ROUTINE = (OomOutcome.LEARNT_BEFORE, OomOutcome.UNMATCHED)  # not worth a line each

LearntUntil = Mapping[tuple[VpaKey, str], datetime]
"""When the checkpoint of a VPA's container was written that we have loaded."""


class OomLearning:
    """Feeds the model with OOM kills, in each cycle after usage."""

    def __init__(
        self,
        followed: Followed,
        usage: Usage,
        *,
        memory_saver: bool,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        """``memory_saver`` leaves out pods that no VPA looks at."""
        self._followed = followed
        self._usage = usage
        self._memory_saver = memory_saver
        self._metrics = metrics
        self._clock = clock

    def of_replaced(self, learnt_until: LearntUntil) -> None:
        """Learn from pods whose names others have taken, while their windows are still known."""
        self._take_all(learnt_until, replaced_only=True)

    def of_all(self, learnt_until: LearntUntil) -> frozenset[PodKey]:
        """Learn from all that waits; returns pods that came into the model only for that."""
        return self._take_all(learnt_until, replaced_only=False)

    def _take_all(self, learnt_until: LearntUntil, *, replaced_only: bool) -> frozenset[PodKey]:
        feed = self._followed.ooms
        observations, dropped = feed.take(self._is_replaced) if replaced_only else feed.take()
        self._metrics.oom_seen(OomOutcome.OVERFLOW, dropped)
        passing: set[PodKey] = set()
        for observation in observations:
            with self._metrics.object_errors.around("oom", "Pod", *observation.kill.pod):
                outcome = self._learn(observation, learnt_until, passing)
                if outcome is None:
                    feed.put_back(replace(observation, waited=observation.waited + 1))
                    continue
                self._metrics.oom_seen(outcome)
                _tell(observation.kill, outcome)
        return frozenset(passing)

    def _learn(
        self, observation: Observation, learnt_until: LearntUntil, passing: set[PodKey]
    ) -> OomOutcome | None:
        """What became of a kill; None: its pod may still be told of."""
        kill, now = observation.kill, self._clock.now()
        if kill.at <= UNDATED:
            return OomOutcome.UNDATED
        if kill.at > now + tolerated():
            return OomOutcome.IN_THE_FUTURE
        found = self._find(observation, instant(now), passing)
        if not isinstance(found, TrackedPod):
            return found
        row = found.containers.get(kill.container)
        if row is None:
            return OomOutcome.UNKNOWN_CONTAINER
        at, last = instant(kill.at), self._usage.containers.last_oom
        if kill.initial:
            if last[row] == NEVER:
                last[row] = _known_until(kill.container, found, learnt_until)
            if at <= last[row]:
                return OomOutcome.LEARNT_BEFORE
        learnt = self._usage.add_oom(
            found.key, kill.container, at=at, request=kill.memory, now=instant(now)
        )
        last[row] = max(last[row], at)
        if learnt.outcome is OomOutcome.RECORDED:
            rows, amounts = np.array([learnt.aggregate]), np.array([learnt.amount])
            self._metrics.quality.samples(
                MEMORY, self._usage.aggregates, rows, amounts, is_oom=True
            )
        return learnt.outcome

    def _find(
        self, observation: Observation, now: int, passing: set[PodKey]
    ) -> TrackedPod | OomOutcome | None:
        """The killed pod in the model, where it comes for a moment if it is gone already.

        A pod is told from others of its name by its uid. An Event of a static pod has another
        uid than the pod; then the name decides, as it does for the reference.
        """
        kill, pods = observation.kill, self._usage.pods
        tracked = pods.get(kill.pod)
        if tracked is not None and tracked.uid == kill.pod_uid:
            return tracked
        current = self._followed.pods.get(*kill.pod)
        if current is not None and current.metadata.uid == kill.pod_uid:
            facts = pod_facts(current)  # it came after the cycle had loaded the pods
        elif observation.pod is not None:
            # Its name may be another's by now, so it is kept under one that no pod can have.
            name = f"{kill.pod.name}/{kill.pod_uid}"
            facts = replace(observation.pod, key=PodKey(kill.pod.namespace, name))
        elif tracked is not None:
            return tracked
        elif observation.waited < _PATIENCE:
            return None
        else:
            return OomOutcome.UNKNOWN_CONTAINER
        if self._memory_saver and not self._usage.matching.is_matched(
            facts.key.namespace, facts.labels
        ):
            return OomOutcome.UNMATCHED
        self._usage.put_pod(facts, now)
        if facts.key != kill.pod:
            passing.add(facts.key)
        return pods[facts.key]

    def _is_replaced(self, kill: OomKill) -> bool:
        tracked = self._usage.pods.get(kill.pod)
        if tracked is None or tracked.uid != kill.pod_uid:
            return False
        current = self._followed.pods.get(*kill.pod)
        return current is not None and current.metadata.uid != tracked.uid


def _known_until(container: str, pod: TrackedPod, learnt_until: LearntUntil) -> int:
    """Until when what was loaded knows the kills of a container that has no record of its own.

    The time of the checkpoint then has to do. The record is better: a kill may be older than the
    checkpoint, and yet have been told after it was written.
    """
    times = (learnt_until.get((key, container)) for key in pod.label_set.autoscalers)
    return max((instant(time) for time in times if time is not None), default=NEVER)


def _tell(kill: OomKill, outcome: OomOutcome) -> None:
    logger.log(
        logging.DEBUG if outcome in _ROUTINE else logging.INFO,
        "OOM kill",
        extra={
            "pod": f"{kill.pod.namespace}/{kill.pod.name}",
            "container": kill.container,
            "memory": kill.memory,
            "outcome": outcome.value,
        },
    )
