"""The resources that a pod template would have with the recommendation of its VPA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Container, LimitRangeSpec, Pod, PodSpec
from common.api.meta import ObjectMeta
from common.api.workloads import TemplateSpec
from common.quantity import QuantityError
from common.recommendation.container_resources import wanted_resources
from common.recommendation.processing import process
from common.resources import ResourceQuantities, in_order

Amounts = Mapping[str, Mapping[str, str]]
"""``requests`` and ``limits``: quantities by resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadResources:
    """The recommended resources of a workload's containers, as its template would have them."""

    api_version: str
    kind: str
    namespace: str
    name: str
    containers: Mapping[str, Amounts]


def recommended_resources(
    vpa: VerticalPodAutoscaler, template: TemplateSpec, limit_ranges: Sequence[LimitRangeSpec]
) -> Mapping[str, Amounts]:
    """Return requests and limits by container, as the webhook sets them in a pod.

    Limits are there only if the template has some and the VPA controls them: a limit keeps its
    ratio to the request. Containers without a recommendation are left out.

    Raises:
        QuantityError: a quantity can't be read.
    """
    pod = Pod(
        metadata=ObjectMeta(namespace=vpa.metadata.namespace),
        spec=PodSpec(
            containers=tuple(
                Container(name=each.name, resources=each.resources)
                for each in template.containers or ()
            )
        ),
    )
    processed = process(pod, vpa, limit_ranges)
    wanted = wanted_resources(pod, vpa, processed, limit_ranges)
    return {
        container.name: {
            kind: _texts(quantities)
            for kind, quantities in (("requests", each.requests), ("limits", each.limits))
            if quantities
        }
        for container, each in zip(pod.spec.containers, wanted, strict=True)
        if each.requests
    }


def workload_resources(
    vpa: VerticalPodAutoscaler,
    template: TemplateSpec | None,
    limit_ranges: Sequence[LimitRangeSpec],
) -> WorkloadResources | str:
    """Return the resources of a VPA's workload, or the reason why there are none.

    ``template`` is None if the workload doesn't exist or has no pod template.
    """
    target = vpa.spec.target_ref
    named = f"VPA {vpa.metadata.namespace}/{vpa.metadata.name}"
    if target is None:
        return f"{named} has no targetRef"
    if template is None:
        return f"{named}: {target.kind} {target.name} doesn't exist, or has no known template"
    try:
        containers = recommended_resources(vpa, template, limit_ranges)
    except QuantityError as error:
        return f"{named}: {error}"
    if not containers:
        return f"{named} has no recommendation for the containers of {target.kind} {target.name}"
    return WorkloadResources(
        api_version=target.api_version,
        kind=target.kind,
        namespace=vpa.metadata.namespace,
        name=target.name,
        containers=containers,
    )


def _texts(quantities: ResourceQuantities) -> Mapping[str, str]:
    return {name: str(quantities[name]) for name in in_order(quantities)}
