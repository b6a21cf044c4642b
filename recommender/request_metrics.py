"""Metrics of requests beside targets: by namespace, and optionally for each container."""

import enum
from collections.abc import Collection, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter

from common.resources import CPU
from recommender.metric_types import SnapshotGauge
from recommender.model.keys import VpaKey
from recommender.model.request_balance import RequestBalance

_BALANCES: Mapping[str, str] = {
    "given_back": "Sum of how much less the containers of VPAs request than in their pod template, "
    "in cores or bytes.",
    "added": "Sum of how much more the containers of VPAs request than in their pod template, in "
    "cores or bytes.",
    "above_target": "Sum of how much more the containers of VPAs request than the target, in cores "
    "or bytes.",
    "below_target": "Sum of how much less the containers of VPAs request than the target, in cores "
    "or bytes.",
}


class ContainerFigure(enum.StrEnum):
    """A number of a container of a VPA; the value is a part of the metric's name."""

    REQUEST = "request"
    TARGET = "target"
    LOWER_BOUND = "lower_bound"
    UPPER_BOUND = "upper_bound"
    UNCAPPED_TARGET = "uncapped_target"


_MEANINGS: Mapping[ContainerFigure, str] = {
    ContainerFigure.REQUEST: "Average request of the containers of this name in the pods of a VPA",
    ContainerFigure.TARGET: "Published target of a container",
    ContainerFigure.LOWER_BOUND: "Published lower bound of a container",
    ContainerFigure.UPPER_BOUND: "Published upper bound of a container",
    ContainerFigure.UNCAPPED_TARGET: "Published target of a container without regard to policies",
}

ContainerLabels: TypeAlias = tuple[str, ...]
"""Namespace and name of the VPA, container name, resource."""


class RequestMetrics:
    """The metrics of requests; amounts are in millicores or bytes."""

    def __init__(self, registry: CollectorRegistry, *, per_container: bool) -> None:
        """Register the metrics; those of containers only with ``per_container``."""
        self._balances = {
            part: SnapshotGauge(
                f"vpa_recommender_requests_{part}", text, ("vpa_namespace", "resource"), registry
            )
            for part, text in _BALANCES.items()
        }
        self._ooms = Counter(
            "vpa_recommender_oom_after_downsize",
            "OOM kills and evictions for lack of memory of containers that request less memory "
            "than in their pod template.",
            ("vpa_name", "vpa_namespace"),
            registry=registry,
        )
        self._oom_vpas: set[VpaKey] = set()
        self.per_container = per_container
        self._figures = {
            figure: SnapshotGauge(
                f"vpa_recommender_container_{figure}",
                f"{text}, in cores or bytes; only with --container-metrics.",
                ("vpa_namespace", "vpa_name", "container_name", "resource"),
                registry,
            )
            for figure, text in _MEANINGS.items()
            if per_container
        }

    def publish_balances(self, found: Mapping[str, Mapping[str, RequestBalance]]) -> None:
        """Replace the sums, which are given by resource and namespace."""
        for part, gauge in self._balances.items():
            gauge.publish(
                {
                    (namespace, resource): in_units(resource, getattr(balance, part))
                    for resource, balances in found.items()
                    for namespace, balance in balances.items()
                }
            )

    def publish_containers(
        self, found: Mapping[ContainerFigure, Mapping[ContainerLabels, float]]
    ) -> None:
        """Replace the figures of all containers."""
        for figure, gauge in self._figures.items():
            gauge.publish(found[figure])

    def oom_after_downsize(self, vpa: VpaKey) -> None:
        """Count an OOM kill of a container that requests less memory than in its template."""
        self._oom_vpas.add(vpa)
        self._ooms.labels(vpa.name, vpa.namespace).inc()

    def keep_only(self, vpas: Collection[VpaKey]) -> None:
        """Drop the counters of all other VPAs."""
        for gone in self._oom_vpas - set(vpas):
            self._oom_vpas.discard(gone)
            self._ooms.remove(gone.name, gone.namespace)


def in_units(resource: str, amount: float) -> float:
    """Return an amount of millicores or bytes in cores or bytes."""
    return amount / 1000 if resource == CPU else amount
