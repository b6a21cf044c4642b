"""The recommendations for workloads: of VPAs, estimated from checkpoints or from Prometheus."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaSpec
from common.api.meta import ObjectMeta
from common.runtime.clock import SystemClock
from common.target.owners import Controller
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.workloads import Workload
from kubectl_vpa.judge.workload_report import is_bare
from kubectl_vpa.results import Source
from recommender.sources.usage_source_settings import UsageSourceSettings


@dataclass(frozen=True, slots=True)
class Recommended:
    """A VPA with a recommendation, and the basis of it."""

    vpa: VerticalPodAutoscaler
    source: Source


async def recommendations(
    reader: Reader,
    workloads: Sequence[Workload],
    sources: Collection[Source],
    prometheus: UsageSourceSettings,
) -> Mapping[Controller, Recommended]:
    """Return the recommendation for each workload that has one, from the first source with one.

    A workload without a VPA gets the recommendation of a VPA without policies.

    Raises:
        ConfigError: the settings of Prometheus can't be used.
    """
    found: dict[Controller, Recommended] = {}
    if Source.VPA in sources:
        for each in workloads:
            if each.vpa is not None and _recommends(each.vpa):
                found[each.controller] = Recommended(each.vpa, Source.VPA)
    if Source.CHECKPOINTS in sources:
        pass
    if Source.PROMETHEUS in sources:
        vpas = {
            each.controller: each.vpa or default_vpa(each.controller)
            for each in _without(workloads, found)
            if each.groups and not is_bare(each.controller.key)
        }
        # Imported here, because the recommender's model takes time and memory.
        from kubectl_vpa.cluster.prometheus_history import recommended_by_history  # noqa: PLC0415

        estimated = await recommended_by_history(
            reader, vpas, prometheus, environ=os.environ, clock=SystemClock()
        )
        found |= {each: Recommended(vpa, Source.PROMETHEUS) for each, vpa in estimated.items()}
    return found


def default_vpa(controller: Controller) -> VerticalPodAutoscaler:
    """Return a VPA without policies; no stored VPA can have its name."""
    name = f"{controller.kind}/{controller.name}"
    target = TargetReference(
        api_version=controller.api_version, kind=controller.kind, name=controller.name
    )
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(namespace=controller.namespace, name=name),
        spec=VpaSpec(target_ref=target),
    )


def _without(
    workloads: Sequence[Workload], found: Mapping[Controller, Recommended]
) -> Iterator[Workload]:
    return (each for each in workloads if each.controller not in found)


def _recommends(vpa: VerticalPodAutoscaler) -> bool:
    recommendation = vpa.status.recommendation
    return recommendation is not None and bool(recommendation.container_recommendations)
