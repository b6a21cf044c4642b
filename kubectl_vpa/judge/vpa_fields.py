"""Fields of VPAs as commands show them."""

from typing import TypedDict

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus


class Workload(TypedDict):
    """Kind and name of the target of a VPA, as fields of a result."""

    workload_kind: str
    workload_name: str


def workload(vpa: VerticalPodAutoscaler) -> Workload:
    """Return the target; its fields are empty if the VPA has none."""
    target = vpa.spec.target_ref
    if target is None:
        return {"workload_kind": "", "workload_name": ""}
    return {"workload_kind": target.kind, "workload_name": target.name}


def has_recommendation(status: VpaStatus) -> bool:
    """Return True if the status recommends something for a container."""
    recommendation = status.recommendation
    return recommendation is not None and bool(recommendation.container_recommendations)
