"""The parts of ``autoscaling.k8s.io/v1`` that we read or write."""

import enum
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from common.api.base import QuantityJson, Time, Wire
from common.api.meta import ObjectMeta

MOST_POLICIES = 200
"""Container policies in one VPA; no pod has as many containers."""

_Few = msgspec.Meta(max_length=8)
_Amounts: TypeAlias = Annotated[Mapping[str, QuantityJson], _Few]
"""Quantities by resource; only cpu and memory have an effect."""


class UpdateMode(enum.StrEnum):
    """The actions that the updater may take to apply a recommendation."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"  # behind the InPlace feature gate
    AUTO = "Auto"  # deprecated, acts like Recreate


class TargetReference(Wire, frozen=True, kw_only=True):
    """The controller whose pods the VPA scales, e.g. ``apps/v1 Deployment web``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class EvictionRequirement(Wire, frozen=True, kw_only=True):
    """A rule on the direction of change that must hold before an eviction (KEP-4831)."""

    resources: Annotated[tuple[str, ...], _Few] | None = None
    change_requirement: str = ""


class UpdatePolicy(Wire, frozen=True, kw_only=True):
    """``spec.updatePolicy``."""

    update_mode: str | None = None  # as written; UpdateMode is parsed where it is used
    min_replicas: int | None = None  # None: the --min-replicas flag decides
    eviction_requirements: Annotated[tuple[EvictionRequirement, ...], _Few] | None = None
    evict_after_oom_seconds: int | None = msgspec.field(default=None, name="evictAfterOOMSeconds")


class GenericStartupBoost(Wire, frozen=True, kw_only=True):
    """``startupBoost.cpu``: the additional CPU of a container during its start."""

    type: str = ""  # Factor or Quantity
    factor: int | None = None
    quantity: QuantityJson = None
    duration_seconds: int | None = None


class StartupBoost(Wire, frozen=True, kw_only=True):
    """``startupBoost`` of a VPA or of one container policy."""

    cpu: GenericStartupBoost | None = None


class ContainerPolicy(Wire, frozen=True, kw_only=True):
    """The scaling rules of one container, or with ``*`` of all others."""

    container_name: str = ""
    mode: str | None = None  # Auto or Off
    min_allowed: _Amounts | None = None
    max_allowed: _Amounts | None = None
    # None: cpu and memory; empty: nothing
    controlled_resources: Annotated[tuple[str, ...], _Few] | None = None
    controlled_values: str | None = None  # RequestsAndLimits or RequestsOnly
    startup_boost: StartupBoost | None = None
    oom_bump_up_ratio: QuantityJson = None
    oom_min_bump_up: QuantityJson = None
    memory_aggregation_interval_seconds: int | None = None
    memory_aggregation_interval_count: int | None = None


class ResourcePolicy(Wire, frozen=True, kw_only=True):
    """``spec.resourcePolicy``; an object with more policies is refused (X126).

    Every process keeps every VPA, and a policy takes far less room in JSON than decoded.
    """

    container_policies: (
        Annotated[tuple[ContainerPolicy, ...], msgspec.Meta(max_length=MOST_POLICIES)] | None
    ) = None


class RecommenderSelector(Wire, frozen=True, kw_only=True):
    """The recommender that is responsible for a VPA."""

    name: str = ""


class VpaSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a VPA."""

    target_ref: TargetReference | None = None
    update_policy: UpdatePolicy | None = None
    resource_policy: ResourcePolicy | None = None
    recommenders: Annotated[tuple[RecommenderSelector, ...], _Few] | None = None
    startup_boost: StartupBoost | None = None


class ContainerRecommendation(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Recommended requests of one container, as quantities: ``{"cpu": "25m"}``."""

    container_name: str = ""
    target: Mapping[str, QuantityJson]  # required: written even when empty
    lower_bound: Mapping[str, QuantityJson] = {}
    upper_bound: Mapping[str, QuantityJson] = {}
    uncapped_target: Mapping[str, QuantityJson] = {}


class RecommendedPodResources(Wire, frozen=True, kw_only=True):
    """``status.recommendation``."""

    container_recommendations: tuple[ContainerRecommendation, ...] | None = None


class VpaCondition(Wire, frozen=True, kw_only=True):
    """One condition of a VPA; we always write the transition time, other clients may omit it."""

    type: str
    status: str
    last_transition_time: Time | msgspec.UnsetType | None = msgspec.UNSET
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class VpaStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a VPA."""

    recommendation: RecommendedPodResources | None = None
    conditions: tuple[VpaCondition, ...] | None = None
    observed_generation: int = 0


class VerticalPodAutoscaler(Wire, frozen=True, kw_only=True):
    """A VPA."""

    metadata: ObjectMeta
    spec: VpaSpec = VpaSpec()
    status: VpaStatus = VpaStatus()


class HistogramCheckpoint(Wire, frozen=True, kw_only=True):
    """A histogram as relative weights; ``total_weight`` is their sum in the histogram."""

    reference_timestamp: Time | None  # always written, null when zero
    bucket_weights: Mapping[str, int] = {}  # bucket index as decimal text -> 1..10000
    total_weight: float = 0.0


class CheckpointSpec(Wire, frozen=True, kw_only=True):
    """The VPA and container of a checkpoint; takes precedence over the object's name."""

    vpa_object_name: str = ""
    container_name: str = ""


def _null() -> None:
    """Return None, as a default that is written: Go writes ``null`` for an unset time."""


class CheckpointStatus(Wire, frozen=True, kw_only=True):
    """The history of one container name under a VPA; times have whole seconds."""

    last_update_time: Time | None = None
    version: str = ""  # checkpoints of other versions than v3 are not loaded
    cpu_histogram: HistogramCheckpoint | None = None
    memory_histogram: HistogramCheckpoint | None = None
    first_sample_start: Time | None = msgspec.field(default_factory=_null)
    last_sample_start: Time | None = msgspec.field(default_factory=_null)
    total_samples_count: int = 0


class VerticalPodAutoscalerCheckpoint(Wire, frozen=True, kw_only=True):
    """A checkpoint; its status is part of the main resource."""

    metadata: ObjectMeta
    spec: CheckpointSpec = CheckpointSpec()
    status: CheckpointStatus = CheckpointStatus()
