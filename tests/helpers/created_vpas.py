"""VPAs and HPAs of the namespace ``shop``, for tests of the creation of VPAs."""

from common.api.autoscaling import (
    TargetReference,
    UpdatePolicy,
    VerticalPodAutoscaler,
    VpaSpec,
)
from common.api.horizontal_autoscaling import (
    HorizontalPodAutoscaler,
    HpaSpec,
    MetricSpec,
    MetricTarget,
    ResourceMetric,
)
from common.api.meta import ObjectMeta
from common.vpa_creation.new_vpas import CREATED_BY


def vpa_of(
    name: str,
    *,
    target: str,
    kind: str = "Deployment",
    namespace: str = "shop",
    mode: str = "Recreate",
    created_by: str = "",
) -> VerticalPodAutoscaler:
    """Return a VPA for a workload; ``created_by`` is the value of its label."""
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels={CREATED_BY: created_by} if created_by else None,
        ),
        spec=VpaSpec(
            target_ref=TargetReference(api_version="apps/v1", kind=kind, name=target),
            update_policy=UpdatePolicy(update_mode=mode),
        ),
    )


def hpa_of(
    name: str, resource: str, *, target: str = "web", type: str = "Utilization"
) -> HorizontalPodAutoscaler:
    """Return an HPA of a Deployment with one metric."""
    metric = ResourceMetric(name=resource, target=MetricTarget(type=type))
    return HorizontalPodAutoscaler(
        metadata=ObjectMeta(name=name, namespace="shop"),
        spec=HpaSpec(
            scale_target_ref=TargetReference(kind="Deployment", name=target),
            metrics=(MetricSpec(type="Resource", resource=metric),),
        ),
    )
