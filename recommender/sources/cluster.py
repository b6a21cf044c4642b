"""Loading of pods and VPAs from the caches into the model."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.api.workloads import NO_TEMPLATE
from common.errors import KubeError, VpaError
from common.kube.cache import Snapshot
from common.kube.endpoints import VPAS
from common.kube.targets import TargetError, Targets
from common.labels import NOTHING
from common.quantity import QuantityError
from common.runtime.pausing import pausing
from common.target.owners import Controller
from recommender.concurrency import run_concurrently
from recommender.metrics import RecommenderMetrics
from recommender.model.keys import PodKey, VpaKey
from recommender.model.usage import Usage
from recommender.sources.cached_pod import CachedPod
from recommender.sources.conversion import (
    container_rules,
    is_ours,
    pod_facts,
    pod_key,
    request_sources,
    target_name,
    template_requests,
    vpa_key,
    written_mode,
)
from recommender.sources.target_conflicts import controlled_vpas
from recommender.sources.target_resolution import (
    LoadedVpa,
    TargetResolution,
    resolved,
    unchecked,
    unreadable,
)

logger = logging.getLogger(__name__)

_BUG = "an unexpected error, see the recommender's log"
_POLICY = "policy"  # the metric's reason for an unreadable resource policy
_SLICE = 500  # objects before other tasks run
_SEARCHED = 10_000  # pods that are searched in a snapshot before other tasks run
_RESOLVED = 50  # VPAs that are resolved before other tasks run; most need no call


class PodLoader:
    """Synchronizes the model's pods with the cluster; processes only changed pods."""

    def __init__(self, usage: Usage, *, memory_saver: bool, metrics: RecommenderMetrics) -> None:
        self._usage = usage
        self._memory_saver = memory_saver
        self._metrics = metrics
        self._seen: Mapping[str, Mapping[str, Pod]] = {}  # by namespace and name
        self._selectors = 0  # version of the selectors in the last cycle

    async def load(self, pods: Snapshot[Pod], now: int) -> frozenset[PodKey]:
        """Load new and changed pods; return the tracked pods that are gone.

        These stay in the model until their last samples and OOM kills are added.
        """
        if self._memory_saver and self._selectors != self._usage.selectors_version:
            self._selectors = self._usage.selectors_version
            self._seen = {}  # check all pods again: other ones may be matched now
        before, self._seen = self._seen, pods.by_namespace()
        number = 0
        for namespace, there in self._seen.items():
            known = before.get(namespace, {})
            if there is known:
                continue
            for name, pod in there.items():
                number += 1
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
                if known.get(name) is not pod:
                    with self._metrics.object_errors.around("pod", "Pod", namespace, name):
                        self._put(pod, now)
        nothing: Mapping[str, Pod] = {}
        vanished = {
            key
            async for key in pausing(self._usage.pods, every=_SEARCHED)
            if key.name not in self._seen.get(key.namespace, nothing)
        }
        return frozenset(vanished)

    def _put(self, pod: Pod, now: int) -> None:
        if self._wanted(pod):
            shape = pod.shape if isinstance(pod, CachedPod) else None
            self._usage.put_pod(pod_facts(pod), now, shape)
            self._metrics.requests_read(request_sources(pod))

    def _wanted(self, pod: Pod) -> bool:
        """Return True if the model needs a pod.

        With ``--memory-saver`` a VPA must match it; a pod that was matched stays until it is gone.
        """
        if not self._memory_saver or pod_key(pod) in self._usage.pods:
            return True
        labels = pod.metadata.labels or {}
        return self._usage.matching.is_matched(pod.metadata.namespace, labels)


class VpaLoader:
    """Synchronizes the model's VPAs with those in the cluster that this recommender handles."""

    def __init__(
        self,
        usage: Usage,
        targets: Targets,
        *,
        recommender: str,
        ignored: Collection[str],
        per_vpa_config: bool,
        workers: int,
        interval: timedelta,
        metrics: RecommenderMetrics,
    ) -> None:
        self._usage = usage
        self._targets = targets
        self._interval = interval
        self._recommender = recommender
        self._ignored = ignored
        self._per_vpa_config = per_vpa_config
        self._workers = workers
        self._metrics = metrics
        self._logged: dict[VpaKey, str] = {}
        self._loaded: dict[VpaKey, LoadedVpa] = {}

    async def load(self, vpas: Iterable[VerticalPodAutoscaler]) -> dict[VpaKey, LoadedVpa]:
        """Resolve the targets of the VPAs and load them; remove all others from the model.

        The result is sorted by key, so that each cycle has the same order. Targets whose look-ups
        didn't fit in the last cycles are resolved first.
        """
        known = tuple(vpas)
        self._targets.begin_cycle(self._interval.total_seconds())
        ours = sorted(
            (
                vpa
                for vpa in known
                if is_ours(vpa, recommender=self._recommender, ignored=self._ignored)
            ),
            key=vpa_key,
        )
        controlled = controlled_vpas(known)
        controls: dict[VpaKey, list[str]] = {}
        for (namespace, name), by in sorted(controlled.items()):
            controls.setdefault(VpaKey(namespace, by), []).append(name)
        found: dict[VpaKey, LoadedVpa] = {}

        async def load_one(vpa: VerticalPodAutoscaler) -> None:
            key = vpa_key(vpa)
            # A VPA that causes an error keeps its last state.
            found[key] = self._loaded.get(key) or LoadedVpa(vpa=vpa, resolution=unreadable(_BUG))
            with self._metrics.object_errors.around("resolve", VPAS.kind, *key):
                resolution, by = await self._resolve(vpa), controlled.get(key, "")
                found[key] = LoadedVpa(
                    vpa=vpa,
                    resolution=resolution,
                    controlled_by=by,
                    controls=tuple(controls.get(key, ())),
                )

        in_turn = pausing(self._targets.postponed_first(ours), every=_RESOLVED)
        await run_concurrently(in_turn, load_one, workers=self._workers)
        for key in [key for key in self._usage.autoscalers if key not in found]:
            self._usage.remove_autoscaler(key)
            self._logged.pop(key, None)
        loaded = {vpa_key(vpa): found[vpa_key(vpa)] for vpa in ours}
        async for key in pausing(loaded, every=_SLICE):
            if not loaded[key].is_unchanged_since(self._loaded.get(key)):
                with self._metrics.object_errors.around("vpa", VPAS.kind, *key):
                    self._put(key, loaded[key])
        self._loaded = loaded
        return {key: one for key, one in loaded.items() if key in self._usage.autoscalers}

    def why_not_loaded(self, vpa: VerticalPodAutoscaler) -> str:
        """Return why a VPA of the cluster was not loaded."""
        named = f"VPA {vpa.metadata.namespace}/{vpa.metadata.name}"
        if vpa.metadata.namespace in self._ignored:
            return f"{named}: its namespace is one of --ignored-vpa-object-namespaces"
        if not is_ours(vpa, recommender=self._recommender, ignored=()):
            asked = ", ".join(one.name for one in vpa.spec.recommenders or ()) or "default"
            return f"{named} asks for the recommender {asked}, and this one is {self._recommender}"
        return f"{named} is new: the next cycle will load it"

    def _put(self, key: VpaKey, loaded: LoadedVpa) -> None:
        try:
            rules = container_rules(loaded.vpa, per_vpa_config=self._per_vpa_config)
        except QuantityError as error:
            known = self._usage.autoscalers.get(key)
            rules = () if known is None else known.rules
            if self._log_change(key, f"the resource policy can't be read: {error}"):
                self._metrics.read_failed(VPAS.resource, _POLICY)
        else:
            self._log_change(key, loaded.resolution.message)
        mode = written_mode(loaded.vpa)
        selector, target = loaded.resolution.selector, target_name(loaded.vpa)
        template = template_requests(loaded.resolution.template)
        self._usage.put_autoscaler(key, selector, rules, mode, target, template_requests=template)

    async def _resolve(self, vpa: VerticalPodAutoscaler) -> TargetResolution:
        """Return the target's selector, if the target is the topmost controller.

        After a look-up that fails temporarily the last selector still applies (Q1).
        """
        target = vpa.spec.target_ref
        try:
            selector = await self._targets.selector(vpa)
        except (TargetError, KubeError) as error:
            return self._after_error(vpa, unreadable(str(error)), error)
        if target is None:
            return unreadable()
        namespace = vpa.metadata.namespace
        controller = Controller(namespace, target.kind, target.name, target.api_version)
        try:
            topmost = await self._targets.topmost(controller)
        except (TargetError, KubeError) as error:
            return self._after_error(vpa, unchecked(target, str(error)), error)
        template = self._targets.template(controller)
        return resolved(selector, target, namespace, topmost, template)

    def _after_error(
        self, vpa: VerticalPodAutoscaler, resolution: TargetResolution, error: VpaError
    ) -> TargetResolution:
        """Return the resolution after a failed look-up; a transient error keeps the selector."""
        if isinstance(error, TargetError) and not error.transient:
            return resolution
        known, last = self._usage.autoscalers.get(vpa_key(vpa)), self._loaded.get(vpa_key(vpa))
        if last is not None and last.vpa.spec.target_ref != vpa.spec.target_ref:
            return resolution  # the known selector is that of another target
        if known is None or known.selector == NOTHING:
            return replace(resolution, open=True)
        return TargetResolution(
            selector=known.selector,
            unsupported=resolution.unsupported,
            template=NO_TEMPLATE if last is None else last.resolution.template,
        )

    def _log_change(self, key: VpaKey, trouble: str) -> bool:
        """Log a VPA's trouble if it changed; return True if it did."""
        if self._logged.get(key, "") == trouble:
            return False
        self._logged[key] = trouble
        name = f"{key.namespace}/{key.name}"
        if trouble:
            logger.warning("VPA can't be used as it is", extra={"vpa": name, "why": trouble})
        else:
            logger.info("VPA can be used again", extra={"vpa": name})
        return True
