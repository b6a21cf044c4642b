"""``metrics.k8s.io/v1beta1``: what containers use."""

from collections.abc import Mapping

from common.api.base import QuantityJson, Time, Wire
from common.api.meta import ObjectMeta


class ContainerMetrics(Wire, frozen=True, kw_only=True):
    """Usage of one container; a resource may be missing."""

    name: str
    usage: Mapping[str, QuantityJson] | None = None


class PodMetrics(Wire, frozen=True, kw_only=True):
    """Usage of one pod; ``timestamp`` is the end of ``window``."""

    metadata: ObjectMeta
    timestamp: Time | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] | None = None
