"""How the numbers of a VPA are computed, from the recommender's explanation of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from common.api.autoscaling import VerticalPodAutoscaler
from common.quantity import Quantity
from common.read_model.explanation import (
    ExcludedContainer,
    ExplainedContainer,
    ExplainedNumber,
    RecommendationExplanation,
)
from common.read_model.recommender import ContainerHistograms, UsageHistogram
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import Amount
from common.resources import CPU, MEMORY
from common.target.controlling import mode_of
from kubectl_vpa.judge.pod_groups import PodGroup
from kubectl_vpa.judge.vpa_fields import workload
from kubectl_vpa.results.explain import (
    ComputedContainer,
    ComputedNumber,
    ComputedResource,
    ComputedVpa,
    CurvePoint,
    NumberSource,
    NumberStep,
)
from recommender.publish.status import recommended_amounts

Requests = Mapping[str, Mapping[str, str]]
"""Quantities by container and resource."""


def computed_vpa(
    vpa: VerticalPodAutoscaler,
    explanation: RecommendationExplanation,
    histograms: Iterable[ContainerHistograms],
    requests: Requests,
    *,
    source: NumberSource,
    flags_of: str | None,
) -> ComputedVpa:
    """Return how the numbers of a VPA are computed; ``requests`` are the present ones."""
    by_name = {each.name: each.histograms for each in histograms}
    published = recommended_amounts(vpa.status)
    containers = [
        _container(
            each,
            by_name.get(each.name, ()),
            requests.get(each.name, {}),
            published.get(each.name),
        )
        for each in explanation.containers
    ]
    return ComputedVpa(
        namespace=vpa.metadata.namespace,
        name=vpa.metadata.name,
        **workload(vpa),
        mode=mode_of(vpa),
        source=source,
        flags_of=flags_of,
        held_up=explanation.unsupported or explanation.held_up,
        containers=(*containers, *map(_excluded, explanation.left_out)),
    )


def usual_requests(groups: Sequence[PodGroup] | None) -> Requests:
    """Return the requests of most pods, by container: as the kubelet reports them, else the spec's.

    They are empty without pods.
    """
    if not groups:
        return {}
    pod = max(groups, key=lambda group: group.count).pod
    declared = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    statuses = (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    )
    found = {each.name: each.resources for each in declared}
    found |= {each.name: each.resources for each in statuses if each.resources is not None}
    return {
        name: {
            resource: str(Quantity.from_json(amount))
            for resource, amount in (resources.requests or {}).items()
            if resource in (CPU, MEMORY)
        }
        for name, resources in found.items()
        if resources is not None
    }


def _container(
    container: ExplainedContainer,
    histograms: Sequence[UsageHistogram],
    requests: Mapping[str, str],
    published: ContainerAmounts | None,
) -> ComputedContainer:
    curves = {each.resource: each for each in histograms}
    return ComputedContainer(
        container=container.name,
        samples=container.samples,
        first_sample=container.oldest_sample,
        last_sample=container.newest_sample,
        excluded=None,
        resources=tuple(
            ComputedResource(
                resource=resource,
                request=requests.get(resource),
                confidence=container.confidence.get(resource),
                weight=container.weight.get(resource),
                numbers=tuple(_numbers(container.numbers, resource, published)),
                curve=_curve(curves.get(resource)),
            )
            for resource in (CPU, MEMORY)
        ),
    )


def _excluded(container: ExcludedContainer) -> ComputedContainer:
    return ComputedContainer(
        container=container.name,
        samples=0,
        first_sample=None,
        last_sample=None,
        excluded=container.why,
        resources=(),
    )


def _numbers(
    numbers: Iterable[ExplainedNumber], resource: str, published: ContainerAmounts | None
) -> Iterator[ComputedNumber]:
    for each in numbers:
        if each.resource != resource:
            continue
        stored = Amount(each.amount).of(published).get(resource)
        yield ComputedNumber(
            amount=each.amount,
            value=each.steps[-1].after if each.steps else each.published,
            published=None if stored is None else str(stored),
            steps=tuple(
                NumberStep(
                    step=step.step,
                    by=step.by,
                    before=step.before,
                    after=step.after,
                    meaning=step.meaning,
                )
                for step in each.steps
            ),
        )


def _curve(histogram: UsageHistogram | None) -> tuple[CurvePoint, ...]:
    points = () if histogram is None else histogram.curve
    return tuple(CurvePoint(fraction=each.fraction, amount=each.amount) for each in points)
