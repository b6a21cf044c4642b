"""Workloads of VPAs as ResourceQuotas see them."""

from typing import Any

import msgspec

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.workloads import ResourcesTemplate
from common.labels import NOTHING
from common.quantity import Quantity
from common.resources import CPU
from common.target.pod_counts import PodCounts
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.post_processing import PostProcessingSettings
from recommender.estimate.quota_bounds import QuotaWorkload
from recommender.publish.quota_workloads import quota_workload
from recommender.publish.status_decision import PublishingSettings
from recommender.sources.cached_pod import CachedPod
from recommender.sources.conversion import container_rules
from recommender.sources.target_resolution import LoadedVpa, TargetResolution

Json = dict[str, Any]

SETTINGS = PublishingSettings(
    estimation=EstimationSettings(pod_min_cpu=10, pod_min_memory=0),
    publication=PostProcessingSettings(max_allowed={CPU: Quantity.parse("2")}),
)
ONE = PodCounts(wanted=1, existing=1)


def container(name: str = "app", cpu: str = "100m", *, limits: Json | None = None) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu}, "limits": limits or {}}}


def pod(
    *containers: Json,
    phase: str = "Running",
    deleted: bool = False,
    kind: type[CachedPod] = CachedPod,
    **spec: Any,
) -> CachedPod:
    made = {
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
        },
        "spec": {"containers": containers or (container(),), **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(made, kind)


def vpa(*policies: Json, mode: str = "Auto", **uncapped: str) -> VerticalPodAutoscaler:
    """Return a VPA with a policy, and published uncapped targets of CPU by container."""
    recommended = [
        {"containerName": name, "target": {"cpu": "1m"}, "uncappedTarget": {"cpu": cpu}}
        for name, cpu in uncapped.items()
    ]
    made = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": policies},
        },
        "status": {"recommendation": {"containerRecommendations": recommended}},
    }
    return msgspec.convert(made, VerticalPodAutoscaler)


def workload(
    *pods: CachedPod,
    of: VerticalPodAutoscaler | None = None,
    counts: PodCounts | None = ONE,
    template: Json | None = None,
    controlled_by: str = "",
    scales_sidecars: bool = False,
) -> QuotaWorkload | None:
    one = vpa(app="300m") if of is None else of
    made = msgspec.convert({"spec": template or {}}, ResourcesTemplate)
    loaded = LoadedVpa(
        vpa=one,
        resolution=TargetResolution(selector=NOTHING, template=made),
        controlled_by=controlled_by,
    )
    return quota_workload(
        loaded,
        pods,
        counts,
        rules=container_rules(one, per_vpa_config=False),
        settings=SETTINGS,
        scales_sidecars=scales_sidecars,
    )
