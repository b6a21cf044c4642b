"""Types of ``metrics.k8s.io/v1beta1`` and ``external.metrics.k8s.io/v1beta1``."""

from collections.abc import Mapping
from typing import Any

import msgspec

from common.api.base import Time, Wire


class MetricsMeta(Wire, frozen=True, kw_only=True, gc=False):
    """``metadata`` of the usage of one pod."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class ContainerMetrics(Wire, frozen=True, kw_only=True, gc=False):
    """Usage of one container; a resource may be missing.

    ``usage`` maps resources to quantities. The type of each value is checked where it is read, so
    that a value of another type is dropped without the rest of the pod.
    """

    name: str
    usage: Any = None


class PodMetrics(Wire, frozen=True, kw_only=True, gc=False):
    """Usage of one pod; ``timestamp`` is the end of ``window``, a Go duration."""

    metadata: MetricsMeta
    timestamp: Time | None = None
    window: Any = None  # checked where it is read, so that an invalid window drops no usage
    containers: tuple[ContainerMetrics, ...] | None = None


class ExternalMetricValue(Wire, frozen=True, kw_only=True):
    """One value of a metric from outside the cluster."""

    metric_labels: Mapping[str, str] | None = None
    timestamp: Time | None = None
    window: Any = None  # seconds; checked where it is read
    value: Any = None  # a quantity; checked where it is read


class ExternalMetricValueList(Wire, frozen=True, kw_only=True):
    """The values of one metric that a selector matches."""

    items: tuple[msgspec.Raw, ...] | None = None
