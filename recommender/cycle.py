"""The recommender's minute: load, ingest, recommend, write, checkpoint, forget.

Source: recommender.md section 13; ``recommender.RunOnce``,
vertical-pod-autoscaler/pkg/recommender/routines/recommender.go.
"""

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.errors import DecodeError, KubeError, NotFoundError
from common.kube.client import PatchType
from common.kube.endpoints import VPAS
from common.patches import Operation
from common.quantity import ZERO, QuantityError
from common.recommendation.processing import ContainerAmounts
from common.resources import CPU, RESOURCES
from common.runtime.clock import Clock
from recommender.checkpointing import Checkpointing
from recommender.ingestion import Ingestion
from recommender.instants import instant
from recommender.metrics import Metrics, VpaLabels
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.post_processing import Publication, publish
from recommender.recommend import ContainerEstimate, Estimation, recommend
from recommender.refusals import Refusals
from recommender.sources.cluster import LoadedVpa, PodLoader, VpaLoader
from recommender.sources.followed import Followed
from recommender.status import Findings, is_provided, next_status, open_status, patch, published
from recommender.workers import sliced, spread

logger = logging.getLogger(__name__)

_SLICE = 250  # VPAs estimated before other tasks get their turn
_COLLECT_EVERY = timedelta(hours=1)
_NO_RECOMMENDATION = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """What the flags say about recommendations."""

    estimation: Estimation = field(default_factory=Estimation)
    publication: Publication = field(default_factory=Publication)
    workers: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    key: VpaKey
    vpa: VerticalPodAutoscaler
    operations: tuple[Operation, ...]
    is_first: bool  # there was no recommendation before


class Recommender:
    """Runs cycles; owns the model, which nobody else touches."""

    def __init__(
        self,
        followed: Followed,
        usage: Usage,
        *,
        pods: PodLoader,
        vpas: VpaLoader,
        ingestion: Ingestion,
        checkpointing: Checkpointing,
        routine: Routine,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._followed = followed
        self._client = followed.client
        self._usage = usage
        self._pods = pods
        self._vpas = vpas
        self._ingestion = ingestion
        self._checkpointing = checkpointing
        self._routine = routine
        self._metrics = metrics
        self._clock = clock
        self._refusals = Refusals("status", metrics)
        self._loaded: dict[VpaKey, LoadedVpa] = {}
        self._without_since: dict[VpaKey, datetime] = {}
        self._collected: datetime | None = None
        self._was_fresh = True

    async def start(self) -> None:
        """Read the history, once, before the first cycle.

        Raises:
            KubeError: it could not be read; without it nothing may be written.
            DecodeError: the answer is no list of checkpoints.
        """
        self._loaded = await self._vpas.load(self._followed.vpas.snapshot.items())
        await self._checkpointing.load(self._loaded.keys())

    async def run_once(self) -> None:
        """One cycle. Trouble with the API server costs what it concerns, no more."""
        step = self._metrics.step
        with step("total"):
            fresh = self._followed.fresh  # what follows is read now, and written later
            with step("LoadVPAs"):
                self._loaded = await self._vpas.load(self._followed.vpas.snapshot.items())
            with step("LoadPods"):
                pods = self._followed.pods.snapshot
                vanished = await self._pods.load(pods, instant(self._clock.now()))
            with step("LoadMetrics"):
                await self._ingestion.usage()
                passing = self._ingestion.ooms(self._checkpointing.learnt_until)
                self._metrics.count_aggregates(self._usage.aggregate_count())
            with step("DeleteRemovedPods"):
                for key in vanished | passing:
                    self._usage.remove_pod(key)
            if not self._believe_caches(fresh_before=fresh):
                return
            unknown = await self._checkpointing.load_late(self._loaded.keys())
            known = [key for key in self._loaded if key not in unknown]
            with step("UpdateVPAs"):
                await self._update_vpas(known)
            with step("MaintainCheckpoints"):
                await self._checkpointing.write_all(known)
                await self._checkpointing.collect_when_due(self._followed.vpas)
            with step("GarbageCollect"):
                self._collect_usage()

    def _believe_caches(self, *, fresh_before: bool) -> bool:
        """Whether to write: not what might be old news by the time somebody listens."""
        fresh = fresh_before and self._followed.fresh
        if fresh != self._was_fresh:
            self._was_fresh = fresh
            if fresh:
                logger.info("caches follow the API server again, recommendations go on")
            else:
                logger.warning("nothing is written until the caches follow the API server again")
        return fresh

    # Recommend and write

    async def _update_vpas(self, known: Sequence[VpaKey]) -> None:
        """Estimate and write these VPAs; of the others the history is not there yet."""
        writes: list[_Write] = []
        tally: Tally[VpaLabels] = Tally()
        for keys in sliced(known, _SLICE):
            now = self._clock.now()
            estimates = recommend(self._usage, keys, self._routine.estimation, instant(now))
            for key in keys:
                write = self._decide(key, estimates[key], now, tally)
                if write is not None:
                    writes.append(write)
            await asyncio.sleep(0)
        for key in self._without_since.keys() - self._loaded.keys():
            del self._without_since[key]
        self._metrics.count_vpas(tally)
        await spread(writes, self._write_status, workers=self._routine.workers)
        self._refusals.settle()

    def _decide(
        self,
        key: VpaKey,
        estimates: Sequence[ContainerEstimate],
        now: datetime,
        tally: Tally[VpaLabels],
    ) -> _Write | None:
        """The status patch of one VPA, or None if nothing changes."""
        loaded = self._loaded[key]
        vpa = loaded.vpa
        # Only what nobody has observed needs it, which is next to nothing.
        before = {} if all(one.observed for one in estimates) else published(vpa.status)
        try:
            recommendation = publish(
                estimates,
                self._routine.publication,
                annotations=vpa.metadata.annotations or {},
                policy=vpa.spec.resource_policy,
                published=before,
            )
        except QuantityError:
            return None  # a bound of its policy; the loader has told
        findings = Findings(
            recommendation=recommendation,
            pods=self._usage.pod_count(key),
            unsupported=loaded.resolution.unsupported,
            low_confidence=any(
                confidence < 1 for one in estimates for confidence in one.confidence.values()
            ),
        )
        tally[
            _mode(vpa), bool(recommendation), bool(findings.pods), bool(findings.unsupported)
        ] += 1
        self._compare_with_last(key, vpa, recommendation, findings.pods)
        self._watch_absence(key, vpa, present=bool(recommendation), now=now)
        if loaded.resolution.open:
            wanted = open_status(vpa, findings.unsupported, now)
        else:
            wanted = next_status(vpa, findings, now)
        operations = patch(vpa.status, wanted)
        if not operations:
            return None
        return _Write(
            key=key,
            vpa=vpa,
            operations=operations,
            is_first=is_provided(wanted) and not is_provided(vpa.status),
        )

    def _compare_with_last(
        self,
        key: VpaKey,
        vpa: VerticalPodAutoscaler,
        recommendation: Sequence[ContainerAmounts],
        pods: int,
    ) -> None:
        """Keep uncapped targets beside the aggregates, where samples are compared with them."""
        aggregates = self._usage.aggregates
        policy = vpa.spec.update_policy
        mode = (policy.update_mode if policy is not None else None) or ""
        number = aggregates.mode_number(mode)
        for one in recommendation:
            rows = self._usage.rows_of(key, one.name)
            aggregates.mode[rows] = number
            for resource in RESOURCES:
                quantity = one.uncapped_target.get(resource, ZERO)
                after = quantity.milli if resource == CPU else quantity.value
                before = aggregates.recommended(resource)
                if after:
                    change = self._metrics.quality.change
                    change(resource, mode, pods=pods, before=before[rows], after=after)
                before[rows] = after

    async def _write_status(self, write: _Write) -> None:
        key = write.key
        try:
            await self._client.patch(
                VPAS,
                key.name,
                write.operations,
                patch_type=PatchType.JSON,
                namespace=key.namespace,
                subresource="status",
            )
        except NotFoundError:
            return  # it went in the meantime
        except (KubeError, DecodeError) as error:
            self._refusals.add(error, vpa=f"{key.namespace}/{key.name}")
            return
        created = write.vpa.metadata.creation_timestamp
        if write.is_first and created is not None:
            age = self._clock.now() - created
            self._metrics.first_recommendation(age.total_seconds())

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

    # Forget

    def _collect_usage(self) -> None:
        now = self._clock.now()
        if self._collected is not None and now - self._collected < _COLLECT_EVERY:
            return
        self._collected = now
        contributive = {
            key for key, loaded in self._loaded.items() if not loaded.resolution.unsupported
        }
        collected = self._usage.collect(instant(now), contributive)
        if collected:
            logger.info("aggregates forgotten", extra={"count": collected})


def _mode(vpa: VerticalPodAutoscaler) -> str:
    policy = vpa.spec.update_policy
    return (policy.update_mode if policy is not None else None) or UpdateMode.RECREATE.value
