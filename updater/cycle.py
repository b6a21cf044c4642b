"""One pass over all pods: decide, act, settle, for each VPA in order."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.endpoints import VPAS
from common.runtime.clock import Clock
from common.runtime.object_errors import Boundary
from common.target.owners import Controller
from updater.attempts import Attempts
from updater.breaker import Observation, Transition
from updater.daemons import Daemons
from updater.dry_run import DryRuns, Replacements
from updater.dry_run_answer import DryRunRefusal
from updater.eviction_tracking import EvictionTrackers, sentence
from updater.ledger import Ledger, Tell, log_change
from updater.live_node import NodeCapacities
from updater.metrics import UpdaterMetrics
from updater.pass_context import Means
from updater.preflight import QuotaUse
from updater.sending import CALLS_ABREAST, Sender, Turns
from updater.snapshot import AutoscaledPods, ClusterSnapshot, key_of
from updater.vpa_pass import VpaPass
from updater.work import Hands, Present, Rules

logger = logging.getLogger(__name__)

_SLICE = 1000  # VPAs that are left alone before other tasks get their turn


class Pass:
    """Works through one snapshot once; what it learned is in ``attempts`` afterwards.

    VPAs go through two lanes: the first one judges and resizes, the second one evicts what is
    left to it. So where evictions wait for a rate limit, resizes go on. In each lane a few VPAs
    wait for answers at a time. The pods of one replica group count against each other, and for
    the rest no call waits for another one's answer.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        attempts: Attempts,
        *,
        rules: Rules,
        present: Present,
        hands: Hands,
        metrics: UpdaterMetrics,
        turns: Turns,
        clock: Clock,
        admission_ready: bool,
        deadline: float,
        stop: asyncio.Event,
        tell: Tell = log_change,
        replacements: Replacements | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._ledger = Ledger(attempts, tell=tell)
        self._hands = hands
        now = clock.now()
        self._breakers = attempts.breakers if rules.checks_outcomes else {}
        self._trackers = None
        if rules.checks_outcomes:
            self._trackers = EvictionTrackers(
                attempts.breakers, snapshot, now, self._tell_results, rules.pod_level
            )
        self._sender = Sender(
            present=present,
            hands=hands,
            turns=turns,
            metrics=metrics,
            interval=rules.interval,
            pace=rules.pace,
            clock=clock,
            now=now,
            deadline=deadline,
            stop=stop,
        )
        self._dry_runs = None
        if replacements is not None or attempts.dry_runs:
            self._dry_runs = DryRuns(
                attempts.dry_runs, replacements, rules.interval, now, rules.pod_level
            )
        self._daemons = Daemons(attempts.turnouts, now)
        self._means = Means(
            rules=rules,
            daemons=self._daemons,
            ledger=self._ledger,
            sender=self._sender,
            hands=hands,
            metrics=metrics,
            trackers=self._trackers,
            quota_use=QuotaUse(snapshot.quotas),
            dry_runs=self._dry_runs,
            admission_ready=admission_ready,
            nodes=NodeCapacities(snapshot.nodes),
            now=now,
        )
        self._evicting: asyncio.Queue[VpaPass | None] = asyncio.Queue()

    @property
    def attempts(self) -> Attempts:
        """What to remember for the next pass."""
        turnouts = self._daemons.after(complete=not self._sender.over)
        attempts = replace(
            self._ledger.attempts(self._snapshot.living),
            turnouts=turnouts,
            dry_runs=self._remembered_dry_runs(),
        )
        if self._trackers is None:
            return attempts
        return replace(attempts, breakers=self._trackers.breakers)

    def _remembered_dry_runs(self) -> dict[Controller, DryRunRefusal]:
        """Refusals of the controllers that still have pods under a VPA."""
        if self._dry_runs is None:
            return {}
        present = {each for scaled in self._snapshot.autoscaled for each in scaled.replicas}
        return {each: found for each, found in self._dry_runs.after.items() if each in present}

    def _tell_results(self, vpa: VerticalPodAutoscaler, found: Observation) -> None:
        for note in found.notes:
            self._metrics.came_out(note.result)
        if found.transition is not Transition.NONE:
            self._hands.tell_turn(vpa, found.transition, sentence(found))

    async def run(self, *, first: int = 0) -> None:
        """Visit every VPA once, starting with the one at ``first``.

        Where a rate limit ends passes early, a start that moves on gives every VPA its turn. The
        end of the pass cancels nobody: a call that has been sent is waited for, or the next pass
        would not know of it.
        """
        autoscaled = self._snapshot.autoscaled
        start = first % len(autoscaled) if autoscaled else 0
        left = iter((*autoscaled[start:], *autoscaled[:start]))
        pace = asyncio.Lock()
        try:
            async with asyncio.TaskGroup() as second:
                for _ in range(CALLS_ABREAST):
                    second.create_task(self._evict())
                async with asyncio.TaskGroup() as group:
                    for _ in range(CALLS_ABREAST):
                        group.create_task(self._resize(left, pace))
                for _ in range(CALLS_ABREAST):
                    self._evicting.put_nowait(None)
        finally:
            self._metrics.publish(self._ledger.figures)
        if self._sender.over:
            logger.warning("pass ended early", extra={"cause": self._sender.over})

    async def _resize(self, left: Iterator[AutoscaledPods], pace: asyncio.Lock) -> None:
        resting = 0
        for scaled in left:
            if self._rests(scaled):
                resting += 1
                if resting % _SLICE == 0:
                    await asyncio.sleep(0)
                continue
            async with pace:  # one at a time goes on, or all of them think at a stretch
                await asyncio.sleep(0)  # watches, health and the Lease have their turn
            if self._sender.over:
                return
            with self._around("resize", scaled):
                each = VpaPass(scaled, self._means)
                if await each.resize():
                    self._evicting.put_nowait(each)

    def _rests(self, scaled: AutoscaledPods) -> bool:
        """Whether nothing has changed about a VPA that needed nothing; then that is all of it."""
        breaker = self._breakers.get(scaled.vpa.metadata.uid)
        if breaker is not None and breaker.watches:
            return False
        if not self._ledger.rests(scaled, now=self._means.now):
            return False
        self._ledger.figures.left_alone(scaled.mode, len(scaled.pods))
        return True

    async def _evict(self) -> None:
        while (each := await self._evicting.get()) is not None:
            with self._around("evict", each.scaled):
                await each.evict()

    def _around(self, stage: str, scaled: AutoscaledPods) -> Boundary:
        return self._metrics.object_errors.around(stage, VPAS.kind, *key_of(scaled.vpa))
