"""The parts of ``autoscaling/v2`` that we read."""

from typing import Annotated

import msgspec

from common.api.autoscaling import TargetReference
from common.api.base import Wire
from common.api.meta import ObjectMeta


class MetricTarget(Wire, frozen=True, kw_only=True):
    """The wanted value of a metric."""

    type: str = ""  # Utilization, AverageValue or Value


class ResourceMetric(Wire, frozen=True, kw_only=True):
    """The usage of a resource, by which an HPA scales."""

    name: str = ""
    target: MetricTarget = MetricTarget()


class MetricSpec(Wire, frozen=True, kw_only=True):
    """One metric of an HPA."""

    type: str = ""
    resource: ResourceMetric | None = None
    container_resource: ResourceMetric | None = None


class HpaSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a HorizontalPodAutoscaler."""

    scale_target_ref: TargetReference = TargetReference()
    metrics: Annotated[tuple[MetricSpec, ...], msgspec.Meta(max_length=1000)] | None = None


class HorizontalPodAutoscaler(Wire, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler of ``autoscaling/v2``."""

    metadata: ObjectMeta
    spec: HpaSpec = HpaSpec()
