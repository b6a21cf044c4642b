"""The pods of one VPA in one pass: which are worth an update, and what their groups may lose."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from common.annotations import is_boosted
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.runtime.object_errors import Boundary, ObjectErrors
from common.runtime.pausing import pausing
from common.target.owners import Controller
from updater.attempts import PodMemory, Rest
from updater.candidate import (
    Candidate,
    is_out,
    judge_pod,
    note_kills,
    note_resizing,
    pending_candidate,
)
from updater.daemons import Daemons
from updater.decision import Decision, Reason, wait
from updater.disruption import ReplicaGroup, RolloutFloor, groups_of, replica_group
from updater.finished_resizes import last_resize
from updater.fitting import Fits
from updater.group_size import UNKNOWN
from updater.ledger import Ledger, Subject
from updater.live_pod import LivePod
from updater.pending_resize import PENDING
from updater.resize import ResizeStatus, resize_status, resizing_since, unfinished
from updater.settling import is_settling
from updater.snapshot import IN_PLACE, NEW_PODS_ONLY, AutoscaledPods
from updater.update_order import rank
from updater.work import Rules

_SLICE = 500  # pods before other tasks get their turn

NoteBlocked = Callable[[Pod, Decision, PodMemory], PodMemory]
"""Reports a change of what blocks a pod's in-place update, and returns the memory with it."""


class Judge:
    """Looks at one VPA's pods, and writes down what there is to say of those that need nothing."""

    def __init__(
        self,
        scaled: AutoscaledPods,
        *,
        rules: Rules,
        daemons: Daemons,
        ledger: Ledger,
        note_blocked: NoteBlocked,
        errors: ObjectErrors,
        now: datetime,
    ) -> None:
        self._errors = errors
        self._scaled = scaled
        self._subject = Subject(scaled.vpa)
        self._note_blocked = note_blocked
        self._rules = rules
        self._daemons = daemons
        self._ledger = ledger
        self._now = now
        self.live: Sequence[LivePod] = [
            pod for pod in scaled.pods if not ledger.memory(pod).evicted
        ]
        self.has_daemons = any(owner.kind == "DaemonSet" for owner in scaled.sizes)
        self._idle: Counter[Decision] = Counter()  # of the pods that need nothing
        self._until: datetime | None = None  # the first time at which one may need something

    @property
    def acts_on_running_pods(self) -> bool:
        """Whether pods are resized or evicted for their VPA's sake."""
        mode = self._scaled.mode
        if mode is UpdateMode.IN_PLACE:
            return self._rules.features.in_place
        return mode not in NEW_PODS_ONLY

    def groups(self) -> dict[Controller, ReplicaGroup]:
        """The replica groups of the pods, and what each may lose in this pass."""
        scaled, rules = self._scaled, self._rules.disruption
        policy = scaled.vpa.spec.update_policy
        own = None if policy is None else policy.min_replicas
        if own is not None:
            rules = replace(rules, min_replicas=own)
        out = {pod.metadata.uid for pod in self.live if self._counts_as_out(pod)}
        floors = self._floors(out)
        found = {
            controller: replica_group(
                controller,
                pods,
                replicas=self._daemons.replicas(
                    controller,
                    scaled.replicas.get(controller),
                    desired=scaled.sizes.get(controller, UNKNOWN).wanted,
                    live=len(pods),
                ),
                existing=scaled.sizes.get(controller, UNKNOWN).existing,
                out=out,
                boosted=any(is_boosted(pod.metadata.annotations) for pod in pods),
                mode=scaled.mode,
                policy=rules,
            )
            for controller, pods in groups_of(self.live, scaled.controllers).items()
        }
        if not floors:
            return found
        return {
            controller: replace(group, floor=floors.get(scaled.workload(controller)))
            for controller, group in found.items()
        }

    def _floors(self, out: Collection[str]) -> dict[Controller, RolloutFloor]:
        """Return what each workload that is rolled out keeps available, over all its groups."""
        scaled = self._scaled
        available: dict[Controller, set[str]] = {workload: set() for workload in scaled.rollouts}
        for pod in self.live if available else ():
            uid = pod.metadata.uid
            controller = scaled.controllers.get(uid)
            workload = None if controller is None else scaled.workload(controller)
            rollout = None if workload is None else scaled.rollouts.get(workload)
            if workload is None or rollout is None:
                continue
            if rollout.is_available(pod, now=self._now):
                available[workload].add(uid)
        fraction = self._rules.disruption.tolerance_fraction
        return {
            workload: RolloutFloor(
                must_stay=rollout.must_stay(fraction)
                + self._surplus(available[workload].difference(out)),
                available=frozenset(available[workload]),
                out=frozenset(available[workload].intersection(out)),
                recreates=rollout.recreates,
            )
            for workload, rollout in scaled.rollouts.items()
        }

    def _surplus(self, available: Iterable[str]) -> int:
        """Return how many available pods their ReplicaSets don't want: those are about to go."""
        owners = Counter(self._scaled.controllers[uid] for uid in available)
        wanted = self._scaled.replicas
        return sum(
            max(count - (wanted.get(owner) or 0), 0)
            for owner, count in owners.items()
            if owner.kind == "ReplicaSet"
        )

    def _counts_as_out(self, pod: Pod) -> bool:
        """Whether the pod is out of service; one of which that can't be told is."""
        with self._around(pod):
            return self._is_out(pod)
        return True

    def _around(self, pod: Pod) -> Boundary:
        meta = pod.metadata
        return self._errors.around("judge", "Pod", meta.namespace, meta.name)

    def _is_out(self, pod: Pod) -> bool:
        memory, pace = self._ledger.memory(pod), self._rules.pace
        if is_out(pod, memory, now=self._now):
            return True
        return bool(pace) and is_settling(pod, memory, within=pace, now=self._now)

    async def candidates(self, pods: Iterable[LivePod]) -> list[Candidate]:
        """The pods that are worth an update, best first; the others are settled at once."""
        fits = self._ledger.fits(self._scaled, pod_level=self._rules.pod_level)
        candidates = []
        async for pod in pausing(pods, every=_SLICE):
            with self._around(pod):
                candidate = self._candidate(pod, fits)
                if candidate is not None:
                    candidates.append(candidate)
        if len(candidates) > 1:
            candidates.sort(key=lambda candidate: rank(candidate.drift, candidate.pod))
        return candidates

    def _candidate(self, pod: LivePod, fits: Fits) -> Candidate | None:
        status = resize_status(pod)
        memory = note_resizing(self._ledger.memory(pod), status, now=self._now)
        if not memory.shows(pod):
            self._ledger.settle(pod, wait(Reason.RESIZE_SENT), memory, self._subject)
            return None
        judged = judge_pod(
            pod,
            fits,
            memory=memory,
            resized_at=last_resize(pod, memory),
            thresholds=self._rules.thresholds,
            features=self._rules.features,
            now=self._now,
        )
        pending = status in PENDING and self._scaled.mode in IN_PLACE
        if isinstance(judged, Decision) and pending:
            candidate = pending_candidate(pod, fits, judged, memory=memory, now=self._now)
            judged = candidate or judged
        if isinstance(judged, Decision):
            self._leave(pod, judged, memory)
            return None
        self._ledger.remember(pod, note_kills(memory, pod))
        return judged

    def _leave(self, pod: Pod, decision: Decision, memory: PodMemory) -> None:
        if memory.refusal is not None:  # those from now on are not in a row with earlier
            memory = replace(memory, refusal=None)
        if memory.refused is not None:  # the next one is news
            memory = replace(memory, refused=None)
        if memory.blocked is not None:
            memory = self._note_blocked(pod, decision, memory)
        self._ledger.settle(pod, decision, memory, self._subject)
        if decision.needs_nothing:
            self._idle[decision] += 1
            until = decision.until
            if until is not None and (self._until is None or until < self._until):
                self._until = until

    @property
    def rest(self) -> Rest | None:
        """What stands as long as nothing but time changes; None: the next pass has to look again.

        All pods were found to need nothing; those with a start-up boost are none of these. Of a
        DaemonSet each pass counts the pods.
        """
        scaled = self._scaled
        if self.has_daemons or sum(self._idle.values()) < len(scaled.pods):
            return None
        return Rest(
            picture=scaled,
            since=self._now,
            until=self._until,
            decisions=tuple(self._idle.items()),
        )

    def unfinished(self, pod: Pod, memory: PodMemory) -> Decision | None:
        """The wait for the pod's present resize, unless it has had its time."""
        status = resize_status(pod)
        if status is ResizeStatus.NONE:
            return None
        sent, since = memory.sent, self.resizing_since(pod, memory)
        if sent is not None and sent.pending_since is not None and since is not None:
            grace = self._rules.interval - self._rules.timeouts.deferred
            since = max(since, sent.at + grace)
        return unfinished(status, since=since, timeouts=self._rules.timeouts, now=self._now)

    def resizing_since(self, pod: Pod, memory: PodMemory) -> datetime | None:
        """Return when the clock of the pod's present resize started.

        A resize that replaced a pending one doesn't restart it, or a recommendation that falls in
        small steps would postpone an eviction indefinitely. The kubelet has at least an interval
        for the new size (X100).
        """
        sent = memory.sent
        sent_at = None if sent is None else sent.pending_since or sent.at
        return resizing_since(pod, sent_at=sent_at, first_seen=memory.resizing_seen_at)

    def has_had_its_time(self, pod: Pod, memory: PodMemory) -> bool:
        """Return whether the resize that replaced a pending one is the last that did so (X100)."""
        sent, since = memory.sent, self.resizing_since(pod, memory)
        if sent is None or sent.pending_since is None or since is None:
            return False
        is_late = sent.at - since >= self._rules.timeouts.deferred
        return is_late or self.unfinished(pod, memory) is None
