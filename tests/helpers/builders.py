"""Builders of ordinary objects for tests; keywords change the parts that a case is about."""

from collections.abc import Mapping
from datetime import UTC, datetime

from common.api.autoscaling import (
    ContainerPolicy,
    ContainerRecommendation,
    RecommendedPodResources,
    ResourcePolicy,
    TargetReference,
    UpdatePolicy,
    VerticalPodAutoscaler,
    VpaSpec,
    VpaStatus,
)
from common.api.base import QuantityJson
from common.api.core import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta, OwnerReference

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def container(
    name: str = "app",
    *,
    requests: Mapping[str, QuantityJson] | None = None,
    limits: Mapping[str, QuantityJson] | None = None,
) -> Container:
    """Return a container with requests and limits as quantities."""
    return Container(name=name, resources=ResourceRequirements(requests=requests, limits=limits))


def pod(
    name: str = "web-0",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    containers: tuple[Container, ...] = (),
    phase: str = "Running",
    owner: tuple[str, str] | None = ("ReplicaSet", "web"),
    start_time: datetime | None = CREATED,
) -> Pod:
    """Return a running pod of the ReplicaSet ``web`` with one container."""
    owners = (
        None
        if owner is None
        else (OwnerReference(api_version="apps/v1", kind=owner[0], name=owner[1], controller=True),)
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            labels=labels if labels is not None else {"app": "web"},
            annotations=annotations,
            owner_references=owners,
            creation_timestamp=CREATED,
        ),
        spec=PodSpec(
            containers=containers or (container(requests={"cpu": "100m", "memory": "100Mi"}),),
            node_name="node-1",
        ),
        status=PodStatus(phase=phase, start_time=start_time),
    )


def recommendation(
    name: str = "app",
    *,
    target: Mapping[str, QuantityJson] | None = None,
    lower: Mapping[str, QuantityJson] | None = None,
    upper: Mapping[str, QuantityJson] | None = None,
) -> ContainerRecommendation:
    """Return the recommendation for one container in a VPA's status."""
    return ContainerRecommendation(
        container_name=name,
        target=target if target is not None else {"cpu": "250m", "memory": "256Mi"},
        lower_bound=lower or {},
        upper_bound=upper or {},
    )


def vpa(
    name: str = "web",
    *,
    namespace: str = "default",
    mode: str | None = "Recreate",
    target: tuple[str, str] | None = ("Deployment", "web"),
    policies: tuple[ContainerPolicy, ...] = (),
    recommendations: tuple[ContainerRecommendation, ...] | None = None,
    created: datetime = CREATED,
) -> VerticalPodAutoscaler:
    """Return a VPA for the Deployment ``web``; without ``recommendations`` its status is empty."""
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-vpa-{name}",
            generation=1,
            creation_timestamp=created,
        ),
        spec=VpaSpec(
            target_ref=None
            if target is None
            else TargetReference(api_version="apps/v1", kind=target[0], name=target[1]),
            update_policy=None if mode is None else UpdatePolicy(update_mode=mode),
            resource_policy=ResourcePolicy(container_policies=policies) if policies else None,
        ),
        status=VpaStatus(
            recommendation=None
            if recommendations is None
            else RecommendedPodResources(container_recommendations=recommendations)
        ),
    )
