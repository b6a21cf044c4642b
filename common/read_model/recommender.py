"""The answers of the recommender's read API."""

from collections.abc import Mapping
from typing import TypeAlias

from common.api.autoscaling import TargetReference
from common.api.base import Time, Wire
from common.read_model.explanation import RecommendationExplanation
from common.read_model.page import ListMetadata, ReadMetadata

VPAS_PATH = "/api/v1/vpas"
VPA_PATH = "/api/v1/vpas/{namespace}/{name}"

Amounts: TypeAlias = Mapping[str, str]
"""Quantities by resource."""


class ContainerSummary(Wire, frozen=True, kw_only=True):
    """A container's published recommendation, and the extent of its history.

    The amounts are those in the status of the VPA; empty if it has none. ``samples`` is the number
    of CPU samples, and the times are those of the first and last of them. ``confidence`` is in
    units of ``--confidence-interval-cpu`` and ``-memory``.
    """

    name: str
    target: Amounts
    lower_bound: Amounts
    upper_bound: Amounts
    uncapped_target: Amounts
    samples: int
    first_sample: Time | None
    last_sample: Time | None
    confidence: Mapping[str, float]


class ConditionSummary(Wire, frozen=True, kw_only=True):
    """A condition in the status of a VPA; ``since`` is its last transition."""

    type: str
    status: str
    reason: str
    message: str
    since: Time | None


class VpaSummary(Wire, frozen=True, kw_only=True):
    """A VPA in the list.

    ``mode`` is the update mode as written, or Recreate, the default. ``pods`` counts the pods that
    its target selects. ``checkpointed_at`` is the time at which the oldest checkpoint of the VPA
    was last written or found unchanged; null: not yet.
    """

    namespace: str
    name: str
    target_ref: TargetReference | None
    mode: str
    pods: int
    containers: tuple[ContainerSummary, ...]
    conditions: tuple[ConditionSummary, ...]
    checkpointed_at: Time | None


class VpaList(Wire, frozen=True, kw_only=True):
    """The answer of ``/api/v1/vpas``, sorted by namespace and name."""

    metadata: ListMetadata
    items: tuple[VpaSummary, ...]


class Bucket(Wire, frozen=True, kw_only=True):
    """A bucket that isn't empty: its smallest amount, and its share of the weight (0 to 1)."""

    start: int
    share: float


class PercentilePoint(Wire, frozen=True, kw_only=True):
    """A point of the percentile curve; ``fraction`` is 0.9 for the 90th percentile."""

    fraction: float
    amount: int


class UsageHistogram(Wire, frozen=True, kw_only=True):
    """The usage of one resource of a container; amounts are in ``unit``: millicores or bytes.

    ``weight`` is the present total weight of the samples, of which each loses half its own in
    ``half_life_seconds``. The recommendation is the amount at the ``target`` fraction of the
    curve, plus the ``margin`` (relative), before bounds and policies apply; so are the bounds.
    """

    resource: str
    unit: str
    weight: float
    half_life_seconds: float
    target: float
    lower_bound: float
    upper_bound: float
    margin: float
    buckets: tuple[Bucket, ...]
    curve: tuple[PercentilePoint, ...]


class ContainerHistograms(Wire, frozen=True, kw_only=True):
    """The histograms of a container, one for each resource."""

    name: str
    histograms: tuple[UsageHistogram, ...]


class VpaDetail(Wire, frozen=True, kw_only=True):
    """The answer of ``/api/v1/vpas/{namespace}/{name}``.

    ``explanation`` is null if there is none at present; then ``unexplained`` has the reason.
    """

    metadata: ReadMetadata
    summary: VpaSummary
    explanation: RecommendationExplanation | None
    unexplained: str | None
    containers: tuple[ContainerHistograms, ...]
