"""From estimates to the statuses of VPAs: decided for all of them, written where a reader notices.

Source: recommender.md sections 8 and 9.
"""

import asyncio
import logging
import zlib
from array import array
from collections import Counter as Tally
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler, VpaStatus
from common.errors import DecodeError, KubeError
from common.kube.endpoints import VPAS
from common.quantity import QuantityError
from common.runtime.clock import Clock
from recommender.batches import parts
from recommender.concurrency import spread_as_made
from recommender.estimate.estimation import (
    ContainerEstimate,
    Estimates,
    Estimation,
    Recall,
    estimates,
    living,
)
from recommender.estimate.post_processing import Publication
from recommender.estimate.published import idle_containers, settle
from recommender.estimate.trace import Trail
from recommender.metrics import RecommenderMetrics, VpaLabels
from recommender.model.keys import VpaKey
from recommender.model.timestamps import instant
from recommender.model.usage import Group, Usage
from recommender.publish.explanation import Account, neglect
from recommender.publish.status import LATEST, ConditionType, is_provided, is_true, moved
from recommender.publish.status_decision import Circumstances, Writing, outcome
from recommender.publish.status_decision_cache import Grounds, Standing, room
from recommender.publish.status_store import StatusStore
from recommender.publish.target_changes import TargetChanges
from recommender.sources.cluster import LoadedVpa
from recommender.sources.conversion import vpa_key, written_mode
from recommender.write_failures import Refusals

logger = logging.getLogger(__name__)

_NO_RECOMMENDATION = timedelta(minutes=30)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """What the flags say about recommendations."""

    estimation: Estimation = field(default_factory=Estimation)
    publication: Publication = field(default_factory=Publication)
    workers: int = 10
    interval: timedelta = timedelta(minutes=1)  # between cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    key: VpaKey
    vpa: VerticalPodAutoscaler
    wanted: VpaStatus
    is_first: bool  # there was no recommendation before
    grounds: Grounds
    compared: Mapping[str, int]  # by resource, see Standing
    labels: VpaLabels  # by which the VPA was counted, for what is stored
    stands: bool  # once it is written, nothing is decided anew on the same grounds


class Publisher:
    """Decides what statuses should say, and writes those of which a reader would notice it."""

    def __init__(
        self,
        statuses: StatusStore,
        usage: Usage,
        *,
        routine: Routine,
        fetching: Callable[[VpaKey], bool],
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        """``fetching`` says of which VPAs history is still missing."""
        self._statuses = statuses
        self._usage = usage
        self._routine = routine
        self._fetching = fetching
        self._metrics = metrics
        self._clock = clock
        self._refusals = Refusals("status", metrics)
        self._without_since: dict[VpaKey, datetime] = {}
        self._standing: dict[VpaKey, Standing] = {}
        self._recall = Recall(routine.estimation)
        self._since: dict[VpaKey, datetime] = {}  # when it was written
        self._unwritten: set[VpaKey] = set()  # not by this process; then ``_since`` is made up
        self._vpas: Tally[VpaLabels] = Tally()  # of this cycle
        self._changes = TargetChanges(usage, metrics.quality)

    async def publish(self, vpas: Mapping[VpaKey, LoadedVpa], known: Sequence[VpaKey]) -> None:
        """Estimate and write these VPAs; of those that aren't ``known`` the history is missing.

        Those that waited longest come first: what they should say is written while the others are
        still estimated. What can't be written within an interval is decided anew in the next cycle.
        """
        self._forget_all_but(vpas)
        await asyncio.sleep(0)
        ordered = sorted(known, key=self._turn)
        await asyncio.sleep(0)
        seconds = self._routine.interval.total_seconds()
        async with aclosing(self._decided(vpas, ordered)) as decided:
            await spread_as_made(
                decided, self._write, workers=self._routine.workers, seconds=seconds
            )
            async for _ in decided:
                pass  # too late to be written, but all are counted
        self._count()
        self._refusals.settle()

    def explain(self, loaded: LoadedVpa) -> Account:
        """How the recommendation of a VPA comes about: it is made up as it is for its status.

        Raises:
            QuantityError: a bound of the VPA's policy is no quantity.
        """
        now, key = self._clock.now(), vpa_key(loaded.vpa)
        at, usage, trail = instant(now), self._usage, Trail(instant(now))
        found = estimates(usage, (key,), self._routine.estimation, at, trail)
        circumstances = self._circumstances(
            loaded, found.groups[key], self._since.get(key, now), now
        )
        publication = self._routine.publication
        reached = outcome(loaded.vpa, found.of(key, trail), publication, circumstances, trail)
        alive = {group.container for group in living(usage, key, at)}
        sidecars = usage.sidecars.left_out(key, usage.matching)
        return Account(
            vpa=loaded.vpa,
            circumstances=circumstances,
            outcome=reached,
            trail=trail,
            neglected={
                group.container: neglect(group.container, alive=alive, sidecars=sidecars)
                for group in usage.groups(key)
                if group not in found.groups[key]
            },
        )

    async def _decided(
        self, vpas: Mapping[VpaKey, LoadedVpa], keys: Sequence[VpaKey]
    ) -> AsyncGenerator[_Write, None]:
        """The status patches that are due, slice by slice as they are asked for."""
        for part in parts(self._usage, keys):
            now = self._clock.now()
            estimation = self._routine.estimation
            found = estimates(self._usage, part, estimation, instant(now), known=self._recall)
            for key in part:
                write = None
                with self._metrics.object_errors.around("recommend", VPAS.kind, *key):
                    write = self._consider(key, vpas[key], found, now)
                if write is not None:
                    yield write
            await asyncio.sleep(0)

    def _forget_all_but(self, vpas: Mapping[VpaKey, LoadedVpa]) -> None:
        for state in (self._without_since, self._standing, self._since):
            for key in [key for key in state if key not in vpas]:
                del state[key]
        self._unwritten &= self._since.keys()
        self._recall.forget_all_but(vpas.keys())

    def _count(self) -> None:
        self._metrics.count_vpas(self._vpas)
        self._vpas.clear()
        self._changes.count()

    # Decide

    def _consider(
        self, key: VpaKey, loaded: LoadedVpa, found: Estimates, now: datetime
    ) -> _Write | None:
        """The status patch of one VPA, or None if none is due."""
        place = found.place(key)
        pods = self._usage.pod_count(key)
        grounds = Grounds(
            version=loaded.vpa.metadata.resource_version,
            unsupported=loaded.resolution.message,
            controlled_by=loaded.controlled_by,
            groups=found.groups[key],
            has_pods=pods > 0,
            is_sure=found.is_sure(key),
            targets=array("q", chain.from_iterable(found.targets[place])),
            bounds=array("q", chain.from_iterable(found.bounds[place])),
        )
        standing = self._standing.get(key)
        passing = loaded.resolution.open or self._fetching(key)
        if standing is None or not standing.holds(grounds, now) or passing:
            self._standing.pop(key, None)
            return self._decide(loaded, grounds, found.of(key), now)
        mode = _mode(loaded.vpa)
        self._vpas[mode, True, pods > 0, bool(grounds.unsupported)] += 1
        self._changes.unchanged(loaded.vpa, standing.compared, pods)
        return None

    def _decide(
        self,
        loaded: LoadedVpa,
        grounds: Grounds,
        estimated: Sequence[ContainerEstimate],
        now: datetime,
    ) -> _Write | None:
        vpa, key = loaded.vpa, vpa_key(loaded.vpa)
        since = self._last_write(key, now)
        circumstances = self._circumstances(loaded, grounds.groups, since, now)
        publication = self._routine.publication
        try:
            reached = outcome(vpa, estimated, publication, circumstances)
        except QuantityError:  # a bound of its policy; the loader has told
            self._count_one(vpa, grounds, matches=circumstances.pods > 0)
            return None
        settle(vpa, circumstances.marks, reached.chosen)
        recommendation, pods = reached.recommendation, circumstances.pods
        matches = not is_true(reached.wanted, ConditionType.NO_PODS_MATCHED)
        labels = self._count_one(vpa, grounds, matches=matches)
        compared = self._changes.changed(vpa, recommendation, pods)
        self._watch_absence(key, vpa, present=bool(recommendation), now=now)
        stands = bool(recommendation) and not circumstances.fetching and reached.is_plain
        if reached.writing is Writing.WRITTEN:
            return _Write(
                key=key,
                vpa=vpa,
                wanted=reached.wanted,
                is_first=is_provided(reached.wanted) and not is_provided(vpa.status),
                grounds=grounds,
                compared=compared,
                labels=labels,
                stands=stands,
            )
        if stands:
            self._let_stand(key, grounds, compared, by=reached.by, since=since)
        return None

    def _count_one(
        self, vpa: VerticalPodAutoscaler, grounds: Grounds, *, matches: bool
    ) -> VpaLabels:
        """Count a VPA by the status that is stored; a write that succeeds corrects that."""
        labels = (_mode(vpa), is_provided(vpa.status), matches, bool(grounds.unsupported))
        self._vpas[labels] += 1
        return labels

    def _let_stand(
        self,
        key: VpaKey,
        grounds: Grounds,
        compared: Mapping[str, int],
        *,
        by: float,
        since: datetime,
    ) -> None:
        """Nothing is to be written: the status has ``moved`` so far from what was written."""
        self._standing[key] = Standing(
            grounds=grounds,
            room=room(by) if self._routine.publication.is_plain else 0.0,
            due=since + LATEST - self._routine.interval,
            is_equal=not by,
            compared=compared,
        )

    def _circumstances(
        self, loaded: LoadedVpa, groups: Sequence[Group], since: datetime, now: datetime
    ) -> Circumstances:
        key, estimated = vpa_key(loaded.vpa), {group.container for group in groups}
        exists = not loaded.resolution.unsupported
        return Circumstances(
            resolution=loaded.resolution,
            controlled_by=loaded.controlled_by,
            pods=self._usage.pod_count(key),
            fetching=self._fetching(key),
            now=now,
            waited=now - since,
            interval=self._routine.interval,
            marks=self._usage.autoscalers[key].marks,
            idle=idle_containers(self._usage, loaded.vpa, estimated) if exists else {},
        )

    def _watch_absence(
        self, key: VpaKey, vpa: VerticalPodAutoscaler, *, present: bool, now: datetime
    ) -> None:
        """Say every half hour that a VPA still has no recommendation."""
        if present:
            self._without_since.pop(key, None)
            return
        since = self._without_since.setdefault(key, vpa.metadata.creation_timestamp or now)
        if now - since > _NO_RECOMMENDATION:
            self._without_since[key] = now
            name = f"{key.namespace}/{key.name}"
            logger.info("VPA has had no recommendation for long", extra={"vpa": name})

    # Write

    async def _write(self, write: _Write) -> None:
        with self._metrics.object_errors.around("write", VPAS.kind, *write.key):
            await self._write_one(write)

    async def _write_one(self, write: _Write) -> None:
        key = write.key
        try:
            written = await self._statuses.write(write.vpa, write.wanted)
        except (KubeError, DecodeError) as error:
            self._refusals.add(error, vpa=f"{key.namespace}/{key.name}")
            return
        if written is None:
            return  # it went in the meantime
        mode, _, matches, is_unsupported = write.labels
        self._vpas[write.labels] -= 1
        self._vpas[mode, is_provided(write.wanted), matches, is_unsupported] += 1
        now = self._clock.now()
        self._since[key] = now - _phase(key) if key in self._unwritten else now
        self._unwritten.discard(key)
        if write.stands and not moved(written.status, write.wanted):
            grounds = replace(write.grounds, version=written.metadata.resource_version)
            self._let_stand(key, grounds, write.compared, by=0.0, since=self._since[key])
        created = write.vpa.metadata.creation_timestamp
        if write.is_first and created is not None:
            self._metrics.first_recommendation((now - created).total_seconds())

    def _turn(self, key: VpaKey) -> tuple[datetime, VpaKey]:
        """What this process never wrote comes first."""
        unwritten = key in self._unwritten or key not in self._since
        return (_LONG_AGO if unwritten else self._since[key], key)

    def _last_write(self, key: VpaKey, now: datetime) -> datetime:
        """When the status was written.

        What was before the start nobody knows. It is taken to be some time in the last ten
        minutes, another one for each VPA: so not all of them are due in the same cycle.
        """
        since = self._since.get(key)
        if since is None or since > now:  # that clock was put back
            since = self._since[key] = now - _phase(key)
            self._unwritten.add(key)
        return since


def _phase(key: VpaKey) -> timedelta:
    return LATEST * (zlib.crc32("/".join(key).encode()) / 2**32)


def _mode(vpa: VerticalPodAutoscaler) -> str:
    return written_mode(vpa) or UpdateMode.RECREATE.value
