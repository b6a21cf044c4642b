"""The numbers of pods, and reasons of VPAs without decisions, as the endpoints answer them."""

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.read_model.updater import (
    Amounts,
    ContainerNumbers,
    PodLevelNumbers,
    WorkloadReference,
)
from common.recommendation.actual_resources import actual_requests
from common.recommendation.container_resources import wanted_resources
from common.recommendation.processing import Processed
from common.recommendation.scaled_containers import scaled_specs
from common.resources import ResourceQuantities, parse_quantities
from common.target.owners import Controller
from updater.evaluate.recommendation_fit import Measured, RecommendationFit
from updater.snapshot.cluster_snapshot import AutoscaledPods, update_mode
from updater.snapshot.live_pod import LivePod

_NO_PODS = "it controls none of the running pods"
_ALL_GONE = "its pods are being deleted"


def why_no_decisions(vpa: VerticalPodAutoscaler, scaled: AutoscaledPods | None) -> str:
    """Return the reason that there are no decisions on the pods of a VPA."""
    mode = update_mode(vpa)
    if mode in (UpdateMode.OFF, UpdateMode.INITIAL):
        return f"mode {mode} changes no running pods"
    return _ALL_GONE if scaled is not None and scaled.pods else _NO_PODS


def container_numbers(pod: LivePod, measured: Measured) -> tuple[ContainerNumbers, ...]:
    """Return the requests of each container, and its processed recommendation."""
    return tuple(
        ContainerNumbers(
            name=name,
            requests=_amounts(actual_requests(pod, name)),
            target=_amounts(amounts.target),
            lower_bound=_amounts(amounts.lower_bound),
            upper_bound=_amounts(amounts.upper_bound),
        )
        for name, amounts in measured.processed.containers.items()
    )


def pod_level_numbers(
    pod: LivePod, processed: Processed, fit: RecommendationFit
) -> PodLevelNumbers | None:
    """Return the pod-level resources of a pod, now and after an update; None: it has none."""
    whole, bounds = pod.spec.resources, processed.pod_level
    if whole is None or bounds is None:
        return None
    wanted = wanted_resources(pod, fit.vpa, processed, fit.limit_ranges)
    names = [container.name for container in scaled_specs(pod)]
    after = bounds.after(pod, dict(zip(names, wanted, strict=True)))
    return PodLevelNumbers(
        requests=_amounts(parse_quantities(whole.requests)),
        limits=_amounts(parse_quantities(whole.limits)),
        new_requests=_amounts(after.requests),
        new_limits=_amounts(after.limits),
    )


def reference(owner: Controller) -> WorkloadReference:
    """Return a workload as the read API names it."""
    return WorkloadReference(api_version=owner.api_version, kind=owner.kind, name=owner.name)


def _amounts(amounts: ResourceQuantities) -> Amounts:
    return {resource: str(amount) for resource, amount in amounts.items()}
