"""The recommendations for workloads: of VPAs, estimated from checkpoints or from Prometheus."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaSpec, VpaStatus
from common.api.meta import ObjectMeta
from common.runtime.clock import SystemClock
from common.target.owners import Controller
from kubectl_vpa.cluster.checkpoint_estimates import recommended_by_checkpoints
from kubectl_vpa.cluster.prometheus_history import recommended_by_history
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.workloads import Vpas, Workload
from kubectl_vpa.judge.vpa_fields import has_recommendation
from kubectl_vpa.judge.workload_report import is_bare
from kubectl_vpa.results.report import Source
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

    Estimates ignore the present status of a VPA. A workload without a VPA gets the recommendation
    of a VPA without policies.

    Raises:
        ConfigError: the settings of Prometheus can't be used.
    """
    found: dict[Controller, Recommended] = {}
    if Source.VPA in sources:
        for each in workloads:
            if each.vpa is not None and has_recommendation(each.vpa.status):
                found[each.controller] = Recommended(each.vpa, Source.VPA)
    clock = SystemClock()
    left = {
        each.controller: each
        for each in workloads
        if each.controller not in found and not is_bare(each.controller.key)
    }
    vpas = {each: _without_status(one.vpa) for each, one in left.items() if one.vpa is not None}
    if Source.CHECKPOINTS in sources and vpas:
        pods = {each: [group.pod for group in left[each].groups] for each in vpas}
        by_checkpoints = await recommended_by_checkpoints(reader, vpas, pods, clock.now())
        found |= _all_from(Source.CHECKPOINTS, by_checkpoints)
    if Source.PROMETHEUS in sources:
        asked = {
            each: vpas.get(each) or default_vpa(each)
            for each, one in left.items()
            if one.groups and each not in found
        }
        by_history = await recommended_by_history(
            reader, asked, prometheus, environ=os.environ, clock=clock
        )
        found |= _all_from(Source.PROMETHEUS, by_history)
    return found


def _all_from(source: Source, vpas: Vpas) -> Mapping[Controller, Recommended]:
    return {each: Recommended(vpa, source) for each, vpa in vpas.items()}


def _without_status(vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
    return replace(vpa, status=VpaStatus())


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
