"""OOM kills, from the caches into the model.

Each kill is counted as seen, and as recorded or discarded, in one step, so that the counters add up
at every moment.

Source: recommender.md 4.4 and 12.4.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

import numpy as np

from common.resources import MEMORY
from common.runtime.clock import Clock
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.metrics import RecommenderMetrics
from recommender.model.clock_tolerance import tolerated
from recommender.model.keys import PodKey, VpaKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.pods import TrackedPod
from recommender.model.timestamps import NEVER, instant
from recommender.model.usage import Usage
from recommender.sources.conversion import pod_facts
from recommender.sources.informers import Informers
from recommender.sources.oom_feed import PendingOomEvent
from recommender.sources.oom_kills import UNDATED, OomEvent
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_PATIENCE = 3  # cycles that an Event waits for its pod: the two come by different watches
_ROUTINE = (OomOutcome.LEARNT_BEFORE, OomOutcome.UNMATCHED)  # not worth a line each

LearntUntil = Mapping[tuple[VpaKey, str], datetime]
"""When the checkpoint of a VPA's container was written that we have loaded."""


class OomIngestion:
    """Feeds the model with OOM kills, in each cycle after usage."""

    def __init__(
        self,
        informers: Informers,
        usage: Usage,
        schedule: CheckpointSchedule,
        *,
        memory_saver: bool,
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        """``memory_saver`` leaves out pods that no VPA looks at; ``schedule`` is of checkpoints."""
        self._informers = informers
        self._usage = usage
        self._schedule = schedule
        self._memory_saver = memory_saver
        self._metrics = metrics
        self._clock = clock
        self._passing: set[PodKey] = set()  # pods that came into the model only for their kills
        self._postponed = StateLog(logger, over="no more OOM kills with future timestamps")

    def of_replaced(self, learnt_until: LearntUntil) -> None:
        """Learn what has to be learnt before this cycle's pods and usage.

        These are kills of pods whose names others have taken, while their windows are still
        known, and kills that were postponed and are due: newer usage would make them too old.
        """
        feed = self._informers.ooms
        due = feed.due(self._clock.now() + tolerated())
        replaced, dropped = feed.take(self._is_replaced)
        self._learn_all((*due, *replaced), dropped, learnt_until)

    def of_all(self, learnt_until: LearntUntil) -> frozenset[PodKey]:
        """Learn from all that waits; returns pods that came into the model only for that."""
        self._learn_all(*self._informers.ooms.take(), learnt_until)
        kills = self._informers.ooms.postponed
        self._metrics.ooms_postponed.set(kills)
        text = "OOM kills with future timestamps postponed; check the clocks" if kills else ""
        self._postponed.report(text, kills=kills)
        passing, self._passing = frozenset(self._passing), set()
        return passing

    def _learn_all(
        self, observations: Iterable[PendingOomEvent], dropped: int, learnt_until: LearntUntil
    ) -> None:
        feed = self._informers.ooms
        self._metrics.oom_seen(OomOutcome.OVERFLOW, dropped)
        for observation in observations:
            with self._metrics.object_errors.around("oom", "Pod", *observation.kill.pod):
                if observation.kill.at > self._clock.now() + tolerated():
                    self._postpone(observation)
                    continue
                outcome = self._learn(observation, learnt_until)
                if outcome is None:
                    feed.put_back(replace(observation, waited=observation.waited + 1))
                    continue
                self._decide(observation.kill, outcome)

    def _decide(self, kill: OomEvent, outcome: OomOutcome) -> None:
        self._metrics.oom_seen(outcome)
        _log_change(kill, outcome)

    def _postpone(self, observation: PendingOomEvent) -> None:
        """Wait until the kill is no longer ahead of the clock (X122).

        Our clock is put right, or was right and the node's time comes.
        """
        kill = observation.kill
        current = self._informers.pods.get(*kill.pod)
        if observation.pod is None and current is not None and current.metadata.uid == kill.pod_uid:
            observation = replace(observation, pod=pod_facts(current))  # it may go until then
        dropped = self._informers.ooms.postpone(observation)
        if dropped is not None:
            self._decide(dropped.kill, OomOutcome.IN_THE_FUTURE)

    def _learn(self, observation: PendingOomEvent, learnt_until: LearntUntil) -> OomOutcome | None:
        """Return the outcome of a kill; None: its pod may still appear."""
        kill, now = observation.kill, self._clock.now()
        if kill.at <= UNDATED:
            return OomOutcome.UNDATED
        found = self._find(observation, instant(now))
        if not isinstance(found, TrackedPod):
            return found
        row = found.containers.get(kill.container)
        if row is None:
            return OomOutcome.UNKNOWN_CONTAINER
        at, last = instant(kill.at), self._usage.containers.last_oom
        latest = instant(now + tolerated())
        if kill.initial:
            if last[row] == NEVER:
                last[row] = self._known_until(kill.container, found, learnt_until, latest)
            if at <= last[row] <= latest:
                return OomOutcome.LEARNT_BEFORE
        # A sample that is ahead of the clock makes no kill too old.
        last_memory = self._usage.containers.last_memory
        last_memory[row] = min(last_memory[row], instant(now))
        learnt = self._usage.add_oom(
            found.key, kill.container, at=at, request=kill.memory, now=instant(now)
        )
        last[row] = max(last[row], at)
        if learnt.outcome is OomOutcome.RECORDED:
            rows, amounts = np.array([learnt.aggregate]), np.array([learnt.amount])
            self._metrics.quality.samples(
                MEMORY, self._usage.aggregates, rows, amounts, is_oom=True
            )
            for key in found.label_set.autoscalers:
                self._schedule.at_once(key)
        return learnt.outcome

    def _find(self, observation: PendingOomEvent, now: int) -> TrackedPod | OomOutcome | None:
        """Return the killed pod in the model, where it comes for a moment if it is gone already.

        Pods of one name are distinguished by their uids. An Event of a static pod has another uid
        than the pod; then the name decides, as it does for the reference.
        """
        kill, pods = observation.kill, self._usage.pods
        tracked = pods.get(kill.pod)
        if tracked is not None and tracked.uid == kill.pod_uid:
            return tracked
        current = self._informers.pods.get(*kill.pod)
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
            self._passing.add(facts.key)
        return pods[facts.key]

    def _known_until(
        self, container: str, pod: TrackedPod, learnt_until: LearntUntil, latest: int
    ) -> int:
        """Return until when loaded history covers the kills of a container that has no record.

        The time of the checkpoint then has to do. The record is better: a kill may be older than
        the checkpoint, and yet have been reported after it was written.

        A checkpoint that was written after ``latest`` was written by a clock that was ahead, and
        then its last sample has to do, whose time is not by that clock. If that is in the future
        as well, nothing is known: to learn a kill twice is better than to lose it.
        """
        known = NEVER
        for key in pod.label_set.autoscalers:
            until = instant(learnt_until.get((key, container)))
            if until > latest:
                loaded = self._usage.autoscalers[key].loaded.get(container)
                sampled = self._usage.aggregates.last_sample
                until = NEVER if loaded is None else int(sampled[loaded])
            if until <= latest:
                known = max(known, until)
        return known

    def _is_replaced(self, kill: OomEvent) -> bool:
        tracked = self._usage.pods.get(kill.pod)
        if tracked is None or tracked.uid != kill.pod_uid:
            return False
        current = self._informers.pods.get(*kill.pod)
        return current is not None and current.metadata.uid != tracked.uid


def _log_change(kill: OomEvent, outcome: OomOutcome) -> None:
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
