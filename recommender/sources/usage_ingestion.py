"""Ingestion of usage from its source into the model."""

import asyncio
import logging
from datetime import datetime, timedelta

from common.resources import CPU, MEMORY
from common.runtime.clock import Clock
from recommender.metrics import RecommenderMetrics
from recommender.model.clock_tolerance import LONGEST
from recommender.model.column_table import Ints
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage
from recommender.sources import metrics_server
from recommender.sources.fetch_result import FetchResult, UsageSource
from recommender.sources.informers import Informers
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_SLICE = 1000  # PodMetrics ingested before other tasks run
_OLD = timedelta(minutes=5)  # older usage is reported


class UsageIngestion:
    """Adds usage to the model in each cycle; logs when the state of its source changes."""

    def __init__(
        self,
        informers: Informers,
        usage: Usage,
        *,
        source: UsageSource,
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        self._informers = informers
        self._usage = usage
        self._source = source
        self._metrics = metrics
        self._clock = clock
        self._supply = StateLog(logger, over="usage is there again")
        self._ahead = StateLog(logger, over="no more usage with future timestamps")
        self._unreadable = StateLog(logger, over="no more unreadable usage values")
        self._old = StateLog(logger, over="usage is new again")
        self.newest: datetime | None = None  # time of the newest usage that was seen

    async def usage(self) -> None:
        """Fetch the latest usage and add it to the model."""
        found = await self._source.fetch({key.namespace for key in self._usage.autoscalers})
        self._metrics.metrics_answered(is_error=bool(found.failures))
        for scope, outcomes in found.outcomes.items():
            self._metrics.usage_requested(scope, outcomes)
        self._log_supply(found)
        now = instant(self._clock.now())
        latest = now + span(LONGEST)
        ahead = unknown = unreadable = 0
        newest: datetime | None = None
        for part in found.slices(_SLICE):
            batch = metrics_server.batch(part, self._usage.pods, now=now)
            ahead += batch.ahead
            newest = _latest(newest, batch.newest)
            cpu, memory = batch.cpu, batch.memory
            for samples in (cpu, memory):
                self._usage.containers.forget_times_after(latest, samples.rows)
            taken = self._usage.add_cpu(cpu.rows, cpu.times, cpu.amounts, now)
            self._compare(CPU, cpu.rows[taken], cpu.amounts[taken])
            taken = self._usage.add_memory(memory.rows, memory.times, memory.amounts, now)
            self._compare(MEMORY, memory.rows[taken], memory.amounts[taken])
            unknown += batch.unknown
            unreadable += batch.unreadable
            await asyncio.sleep(0)
        text = "usage with future timestamps left out; check the clocks" if ahead else ""
        self._ahead.report(text, pods=ahead)
        self._watch_age(newest)
        text = "unreadable usage values left out" if unreadable else ""
        self._unreadable.report(text, values=unreadable)
        if unknown:
            logger.debug("usage of unknown containers left out", extra={"containers": unknown})

    def _compare(self, resource: str, containers: Ints, amounts: Ints) -> None:
        rows = self._usage.containers.aggregate[containers]
        self._metrics.quality.samples(resource, self._usage.aggregates, rows, amounts)

    def _watch_age(self, newest: datetime | None) -> None:
        """Report old usage: a source may respond without errors, but with no new samples."""
        now = self._clock.now()
        if self.newest is not None and self.newest > now + LONGEST:
            self.newest = None  # the clock moved backwards
        self.newest = _latest(self.newest, newest)
        if self.newest is None:
            return
        age = now - self.newest
        self._metrics.usage_age.set(age.total_seconds())
        if newest is not None:
            self._old.report("usage is old" if age > _OLD else "", age=age)

    def _log_supply(self, found: FetchResult) -> None:
        """Log a change of the available part of the usage."""
        failures = found.failures
        if not failures:
            self._supply.report("")
        elif self._informers.client.reachable:  # otherwise the client logs it
            first, text = failures[0], _supply(found)
            extra = {"reason": first.outcome, "error": first.error, "failed": len(failures)}
            self._supply.report(text, cause=first.outcome, **extra)


def _supply(found: FetchResult) -> str:
    """Return the log message for the part of the usage that is available after a failure."""
    if len(found.failures) == len(found.answers):
        return "no usage"
    if any(answer.place for answer in found.failures):
        return "usage of some pods is missing"
    return "usage is read namespace by namespace"  # the list of the cluster failed


def _latest(*times: datetime | None) -> datetime | None:
    return max((one for one in times if one is not None), default=None)
