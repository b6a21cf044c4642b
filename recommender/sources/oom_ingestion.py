"""Ingestion of OOM kills from the caches into the model.

Each kill is counted as seen, and as recorded or discarded, in one step, so that the counters always
add up.

Source: recommender.md 4.4 and 12.4.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from common.resources import MEMORY
from common.runtime.clock import Clock
from recommender.checkpoints.loading import CheckpointLoading
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.metrics import RecommenderMetrics
from recommender.model.clock_tolerance import tolerated
from recommender.model.keys import PodKey
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

_MAX_WAIT = 3  # cycles that an Event waits for its pod, which comes from another watch
_ROUTINE = (OomOutcome.LEARNT_BEFORE, OomOutcome.UNMATCHED)  # logged as debug


class OomIngestion:
    """Records OOM kills in the model."""

    def __init__(
        self,
        informers: Informers,
        usage: Usage,
        loading: CheckpointLoading,
        schedule: CheckpointSchedule,
        *,
        memory_saver: bool,
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        """Initialize; ``memory_saver`` leaves out pods that no VPA matches."""
        self._informers = informers
        self._usage = usage
        self._loading = loading
        self._schedule = schedule
        self._memory_saver = memory_saver
        self._metrics = metrics
        self._clock = clock
        self._temporary: set[PodKey] = set()  # pods that are in the model only for their kills
        self._postponed = StateLog(logger, over="no more OOM kills with future timestamps")

    def of_replaced(self) -> None:
        """Record the kills that must be recorded before this cycle's pods and usage.

        These are kills of pods whose name another pod has now, while the model has their windows,
        and postponed kills that are due: newer usage would make them too old.
        """
        feed = self._informers.ooms
        due = feed.due(self._clock.now() + tolerated())
        replaced, dropped = feed.take(self._is_replaced)
        self._learn_all((*due, *replaced), dropped)

    def of_all(self) -> frozenset[PodKey]:
        """Record all queued kills; return the pods that were added to the model only for that."""
        self._learn_all(*self._informers.ooms.take())
        kills = self._informers.ooms.postponed
        self._metrics.ooms_postponed.set(kills)
        text = "OOM kills with future timestamps postponed; check the clocks" if kills else ""
        self._postponed.report(text, kills=kills)
        temporary, self._temporary = frozenset(self._temporary), set()
        return temporary

    def _learn_all(self, observations: Iterable[PendingOomEvent], dropped: int) -> None:
        feed = self._informers.ooms
        self._metrics.oom_seen(OomOutcome.OVERFLOW, dropped)
        for observation in observations:
            with self._metrics.object_errors.around("oom", "Pod", *observation.kill.pod):
                if observation.kill.at > self._clock.now() + tolerated():
                    self._postpone(observation)
                    continue
                outcome = self._learn(observation)
                if outcome is None:
                    feed.append(replace(observation, waited=observation.waited + 1))
                    continue
                self._report(observation.kill, outcome)

    def _report(self, kill: OomEvent, outcome: OomOutcome) -> None:
        self._metrics.oom_seen(outcome)
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

    def _postpone(self, observation: PendingOomEvent) -> None:
        """Keep a kill until it is no longer ahead of the clock (X122).

        Either this clock is behind and gets corrected, or the node's clock is ahead and the time
        comes.
        """
        kill = observation.kill
        current = self._informers.pods.get(*kill.pod)
        if observation.pod is None and current is not None and current.metadata.uid == kill.pod_uid:
            observation = replace(observation, pod=pod_facts(current))  # it may be gone later
        dropped = self._informers.ooms.postpone(observation)
        if dropped is not None:
            self._report(dropped.kill, OomOutcome.IN_THE_FUTURE)

    def _learn(self, observation: PendingOomEvent) -> OomOutcome | None:
        """Record a kill and return the outcome; None: its pod may still appear."""
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
                last[row] = self._known_until(kill.container, found, latest)
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
                if self._is_downsized(row, learnt.aggregate):
                    self._metrics.requests.oom_after_downsize(key)
        return learnt.outcome

    def _is_downsized(self, container: int, aggregate: int) -> bool:
        """Return True if a container requests less memory than in its pod template."""
        request = self._usage.containers.request_memory[container]
        return bool(0 < request < self._usage.aggregates.template_memory[aggregate])

    def _find(self, observation: PendingOomEvent, now: int) -> TrackedPod | OomOutcome | None:
        """Return the killed pod in the model; add it for this cycle if it is gone.

        Pods with the same name are distinguished by their UIDs. The Event of a static pod has
        another UID than the pod; then the name decides, as in the reference.
        """
        kill, pods = observation.kill, self._usage.pods
        tracked = pods.get(kill.pod)
        if tracked is not None and tracked.uid == kill.pod_uid:
            return tracked
        current = self._informers.pods.get(*kill.pod)
        if current is not None and current.metadata.uid == kill.pod_uid:
            facts = pod_facts(current)  # it was added after the cycle had loaded the pods
        elif observation.pod is not None:
            # Another pod may have its name now, so use a name that no pod can have.
            name = f"{kill.pod.name}/{kill.pod_uid}"
            facts = replace(observation.pod, key=PodKey(kill.pod.namespace, name))
        elif tracked is not None:
            return tracked
        elif observation.waited < _MAX_WAIT:
            return None
        else:
            return OomOutcome.UNKNOWN_CONTAINER
        if self._memory_saver and not self._usage.matching.is_matched(
            facts.key.namespace, facts.labels
        ):
            return OomOutcome.UNMATCHED
        self._usage.put_pod(facts, now)
        if facts.key != kill.pod:
            self._temporary.add(facts.key)
        return pods[facts.key]

    def _known_until(self, container: str, pod: TrackedPod, latest: int) -> int:
        """Return the time until which loaded history covers the kills of a container.

        It is the time of the checkpoint, for containers without ``last_oom``. That one is exact: a
        kill may be older than a checkpoint, but reported after its write.

        A checkpoint with a time after ``latest`` was written by a clock that was ahead. Then use
        the time of its last sample, which is not from that clock. If that is in the future too,
        return NEVER: it is better to record a kill twice than to lose it.
        """
        known = NEVER
        for key in pod.label_set.autoscalers:
            until = instant(self._loading.learnt_until.get((key, container)))
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
