"""Dry runs of replacements: the API server is asked before a pod is evicted (X112)."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from common.api.core import Pod
from common.errors import DecodeError, KubeError
from common.recommendation.pod_level import PodLevelMode
from common.target.owners import Controller
from updater.decision import Decision
from updater.dry_run_answer import DryRunRefusal, after_answer, after_error, refusal_after
from updater.snapshot import AutoscaledPods


class Replacements(Protocol):
    """Creates replacements in a dry run; ``actuation.TemplatePods`` and the fakes of tests."""

    def supports(self, controller: Controller) -> bool:
        """Return whether the controller makes its pods from a template that can be read."""

    def generation(self, controller: Controller) -> int:
        """Return the generation of the controller, which changes with its template."""

    async def create(self, pod: Pod, controller: Controller) -> Pod:
        """Return the pod that would follow, as the API server would store it.

        Raises:
            KubeError: the API server refused it, or did not answer.
            DecodeError: the answer can't be read.
        """


@dataclass(slots=True)
class DryRuns:
    """The dry runs of one pass: one for each workload of which a pod is to be evicted.

    A refusal is remembered from pass to pass and tried again with growing pauses. What was
    accepted holds for one pass. Without ``replacements`` the API server is not asked, and what
    is remembered stands.
    """

    before: Mapping[Controller, DryRunRefusal]
    replacements: Replacements | None
    interval: timedelta
    now: datetime
    pod_level: PodLevelMode = PodLevelMode.KEEP
    _answers: dict[Controller, Decision | None] = field(default_factory=dict)
    _refusals: dict[Controller, DryRunRefusal] = field(default_factory=dict)
    _asking: defaultdict[Controller, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    @property
    def after(self) -> dict[Controller, DryRunRefusal]:
        """What to remember: refusals of this pass, and those that did not come up in it."""
        kept = {each: found for each, found in self.before.items() if each not in self._answers}
        return kept | self._refusals

    def known(self, pod: Pod, scaled: AutoscaledPods) -> Decision | None:
        """Return the last answer about the pod's workload, if it keeps the pod from eviction."""
        controller = scaled.controllers.get(pod.metadata.uid)
        if controller is None:
            return None
        if controller in self._answers:
            return self._answers[controller]
        refusal = self.before.get(controller)
        if refusal is None:
            return None
        asked = self.replacements
        generation = None if asked is None else asked.generation(controller)
        stands = refusal.stands(scaled.vpa, now=self.now, generation=generation)
        return refusal.decision if stands else None

    async def ask(
        self, pod: Pod, calls: asyncio.Semaphore, scaled: AutoscaledPods
    ) -> Decision | None:
        """Return why the pod must not be evicted now; one pod of a workload asks for all.

        ``calls`` bounds the calls that are under way.
        """
        replacements = self.replacements
        controller = scaled.controllers.get(pod.metadata.uid)
        if replacements is None or controller is None or not replacements.supports(controller):
            return None
        async with self._asking[controller]:
            if controller not in self._answers:
                async with calls:
                    found = await self._answer(replacements, pod, scaled, controller)
                self._answers[controller] = found
                before = self.before.get(controller)
                if found is not None and found.is_preflight:
                    self._refusals[controller] = refusal_after(
                        found,
                        scaled.vpa,
                        before=before,
                        generation=replacements.generation(controller),
                        interval=self.interval,
                        now=self.now,
                    )
                    self._answers[controller] = self._refusals[controller].decision
                elif found is not None and before is not None:
                    self._refusals[controller] = before  # no result: the next pass asks
        return self._answers[controller]

    async def _answer(
        self, replacements: Replacements, pod: Pod, scaled: AutoscaledPods, controller: Controller
    ) -> Decision | None:
        try:
            created = await replacements.create(pod, controller)
        except (KubeError, DecodeError) as error:
            return after_error(pod, error)
        return after_answer(created, scaled.vpa, scaled.limit_ranges, pod_level=self.pod_level)
