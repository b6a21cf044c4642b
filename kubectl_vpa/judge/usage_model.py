"""The recommender's model of usage, filled from stored history instead of live usage.

All numbers are computed by the recommender's own functions, so they are those that the recommender
publishes if it knows nothing but this history.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.api.core import Pod, is_sidecar
from common.features import FeatureGates
from common.labels import Operator, Requirement, Selector
from common.quantity import QuantityError
from common.read_model.explanation import RecommendationExplanation
from common.read_model.recommender import ContainerHistograms
from kubectl_vpa.judge.vpa_fields import has_recommendation
from recommender.estimate.vpa_estimates import Estimates, estimate_vpas, vpa_batches
from recommender.model.aggregates import AggregationRules, HalfLives, History
from recommender.model.checkpoint_merge import merge_checkpoint
from recommender.model.expiry import expire_loaded
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.running_windows import RunningWindow, SavedWindows, WindowRestorer
from recommender.model.sidecars import Sidecars
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.publish.explanation import explanation
from recommender.publish.status_decision import (
    DecisionContext,
    PublishingSettings,
    StatusDecision,
    VpaRecord,
    decide,
)
from recommender.publish.summary import container_histograms
from recommender.sources.conversion import container_rules, target_name, vpa_key
from recommender.sources.target_resolution import LoadedVpa, TargetResolution

_VPA = "vpa"  # the label of a pod in the model: the name of the VPA that controls it


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """The contents of a checkpoint."""

    vpa: VpaKey
    container: str
    history: History
    windows: Sequence[RunningWindow] = ()  # memory windows that had not ended
    target: str = ""  # see ``target_name``; empty: unknown
    is_sidecar: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The recommender's settings that decide how usage is counted."""

    rules: AggregationRules = field(default_factory=AggregationRules)
    half_lives: HalfLives = field(default_factory=HalfLives)
    gates: FeatureGates = field(default_factory=FeatureGates)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVpa:
    """A VPA with pods that have all names of containers in its pods; one of each kind will do."""

    vpa: VerticalPodAutoscaler
    pods: Sequence[Pod] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A recommendation with its steps, and the histograms that it is based on."""

    explanation: RecommendationExplanation
    histograms: Sequence[ContainerHistograms]


def usage_of(
    vpas: Iterable[StoredVpa],
    histories: Iterable[StoredHistory],
    now: datetime,
    settings: ModelSettings | None = None,
) -> Usage:
    """Return a model with these VPAs and the histories of their containers.

    Histories of other VPAs, and of a former target (X123), are ignored. So are VPAs whose policy
    can't be read, and history that is too old.
    """
    chosen, at = settings or ModelSettings(), instant(now)
    usage = Usage(
        defaults=chosen.rules,
        half_lives=chosen.half_lives,
        sidecars=Sidecars(scaled=chosen.gates.native_sidecar),
    )
    there = [each for each in vpas if _put(usage, each.vpa, chosen.gates)]
    windows = list[SavedWindows]()
    newest = 0
    # Before the pods: a container without any other history takes that of its checkpoint as it is.
    for one in histories:
        autoscaler = usage.autoscalers.get(one.vpa)
        if autoscaler is None or one.target not in ("", autoscaler.target):
            continue
        merge_checkpoint(usage, one.vpa, one.container, one.history, at)
        newest = max(newest, one.history.last_sample)
        if one.is_sidecar:
            usage.sidecars.mark(one.vpa, one.container)
        if one.windows:
            windows.append(SavedWindows(one.vpa, one.container, one.windows))
    for each in there:
        for pod in each.pods:
            facts = _facts(pod, vpa_key(each.vpa), scales_sidecars=usage.sidecars.scaled)
            usage.put_pod(facts, at)
    WindowRestorer(usage).resume(windows, at)
    # Age counts from the newest usage, as in the recommender: a clock may be wrong (X98).
    expire_loaded(usage, min(at, newest))
    return usage


def _put(usage: Usage, vpa: VerticalPodAutoscaler, gates: FeatureGates) -> bool:
    """Add a VPA, whose pods have a label of our own; return False if its policy can't be read."""
    try:
        rules = container_rules(vpa, per_vpa_config=gates.per_vpa_config)
    except QuantityError:
        return False
    key = vpa_key(vpa)
    selector = Selector((Requirement(_VPA, Operator.EQUALS, (key.name,)),))
    usage.put_autoscaler(key, selector, rules, target=target_name(vpa))
    return True


def _facts(pod: Pod, vpa: VpaKey, *, scales_sidecars: bool) -> PodFacts:
    regular = tuple(each.name for each in pod.spec.containers)
    sidecars = tuple(each.name for each in pod.spec.init_containers or () if is_sidecar(each))
    return PodFacts(
        key=PodKey(vpa.namespace, f"{vpa.name}/{pod.metadata.name}"),
        uid=pod.metadata.uid,
        labels={_VPA: vpa.name},
        active=True,
        containers=(*regular, *sidecars) if scales_sidecars else regular,
        sidecars=sidecars,
    )


def recommended(
    usage: Usage,
    vpas: Sequence[VerticalPodAutoscaler],
    now: datetime,
    settings: PublishingSettings | None = None,
) -> Mapping[VpaKey, VpaStatus]:
    """Return the status of each VPA that gets a recommendation.

    As in the recommender, the amounts in the present status stay where no sample is known. A VPA
    that the model doesn't have, or whose policy can't be read, is left out.
    """
    deciding = _Deciding(usage, settings or PublishingSettings(), now)
    by_key = {vpa_key(each): each for each in vpas if vpa_key(each) in usage.autoscalers}
    found: dict[VpaKey, VpaStatus] = {}
    for batch in vpa_batches(usage, tuple(by_key)):
        estimates = deciding.estimates(batch)
        for key in batch:
            with contextlib.suppress(QuantityError):
                status = deciding.decision(by_key[key], estimates).wanted
                if status is not None and has_recommendation(status):
                    found[key] = status
    return found


def explained(
    usage: Usage,
    vpa: VerticalPodAutoscaler,
    now: datetime,
    settings: PublishingSettings | None = None,
) -> Explained:
    """Explain the recommendation of a VPA that the model has.

    Raises:
        QuantityError: a bound of the VPA's policy is not a quantity.
    """
    container_rules(vpa, per_vpa_config=True)  # raises for what ``usage_of`` has left out
    deciding, key = _Deciding(usage, settings or PublishingSettings(), now), vpa_key(vpa)
    estimates = deciding.estimates((key,))
    decision = deciding.decision(vpa, estimates)
    return Explained(
        explanation=explanation(deciding.loaded(vpa), estimates, decision, deciding.context),
        histograms=container_histograms(key, estimates, deciding.settings.estimation, now),
    )


@dataclass(frozen=True, slots=True)
class _Deciding:
    """The recommender's decisions about statuses, with these settings at this time."""

    usage: Usage
    settings: PublishingSettings
    now: datetime

    @property
    def context(self) -> DecisionContext:
        return DecisionContext(
            usage=self.usage, settings=self.settings, fetching_history=False, now=self.now
        )

    def estimates(self, keys: Sequence[VpaKey]) -> Estimates:
        return estimate_vpas(self.usage, keys, self.settings.estimation, instant(self.now))

    def loaded(self, vpa: VerticalPodAutoscaler) -> LoadedVpa:
        selector = self.usage.autoscalers[vpa_key(vpa)].selector
        return LoadedVpa(vpa=vpa, resolution=TargetResolution(selector=selector))

    def decision(self, vpa: VerticalPodAutoscaler, estimates: Estimates) -> StatusDecision:
        record = VpaRecord(last_write=self.now, is_assumed=True)
        return decide(self.loaded(vpa), estimates.of(vpa_key(vpa)), record, self.context)
