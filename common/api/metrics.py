"""``metrics.k8s.io/v1beta1`` and ``external.metrics.k8s.io/v1beta1``: what containers use."""

from collections.abc import Mapping

import msgspec

from common.api.base import QuantityJson, Time, Wire


class MetricsMeta(Wire, frozen=True, kw_only=True, gc=False):
    """``metadata`` of usage, of which there is one for each pod in each list."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class ContainerMetrics(Wire, frozen=True, kw_only=True, gc=False):
    """Usage of one container; a resource may be missing."""

    name: str
    usage: Mapping[str, QuantityJson] | None = None


class PodMetrics(Wire, frozen=True, kw_only=True, gc=False):
    """Usage of one pod; ``timestamp`` is the end of ``window``."""

    metadata: MetricsMeta
    timestamp: Time | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] | None = None


class ExternalMetricValue(Wire, frozen=True, kw_only=True):
    """One value of a metric from outside the cluster."""

    metric_labels: Mapping[str, str] | None = None
    timestamp: Time | None = None
    value: QuantityJson = None


class ExternalMetricValueList(Wire, frozen=True, kw_only=True):
    """The values of one metric that a selector matches."""

    items: tuple[msgspec.Raw, ...] | None = None
