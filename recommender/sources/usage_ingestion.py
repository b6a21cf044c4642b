"""Usage, from its source into the model."""

import asyncio
import enum
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
_OLD = timedelta(minutes=5)  # the oldest usage that is not reported


class _Supply(enum.Enum):
    """How much of the usage is there if some is missing; the value is the log message."""

    BY_NAMESPACE = "usage is read namespace by namespace"  # the list of the cluster failed
    PARTLY = "usage of some pods is missing"
    NONE = "no usage"

    @classmethod
    def of(cls, found: FetchResult) -> "_Supply":
        failed = {bool(answer.place) for answer in found.failures}  # of parts, and of the cluster
        if len(found.failures) == len(found.answers):
            return cls.NONE
        return cls.PARTLY if True in failed else cls.BY_NAMESPACE


class UsageIngestion:
    """Feeds the model once in each cycle; one line when the state of its source changes."""

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
        """Add the latest usage; without any the cycle goes on with what is known."""
        found = await self._source.fetch({key.namespace for key in self._usage.autoscalers})
        self._metrics.metrics_answered(is_error=bool(found.failures))
        for scope, outcomes in found.outcomes.items():
            self._metrics.usage_asked(scope, outcomes)
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
        """A source that answers may have stopped to look: nothing is learnt then, for no error."""
        now = self._clock.now()
        if self.newest is not None and self.newest > now + LONGEST:
            self.newest = None  # the clock has been put back since
        self.newest = _latest(self.newest, newest)
        if self.newest is None:
            return
        age = now - self.newest
        self._metrics.usage_age.set(age.total_seconds())
        if newest is not None:
            self._old.report("usage is old" if age > _OLD else "", age=age)

    def _log_supply(self, found: FetchResult) -> None:
        """Log when it changes how much of the usage there is."""
        failures = found.failures
        if not failures:
            self._supply.report("")
        elif self._informers.client.reachable:  # else the client reports it
            first, text = failures[0], _Supply.of(found).value
            extra = {"reason": first.outcome, "error": first.error, "failed": len(failures)}
            self._supply.report(text, cause=first.outcome, **extra)


def _latest(*times: datetime | None) -> datetime | None:
    return max((one for one in times if one is not None), default=None)
