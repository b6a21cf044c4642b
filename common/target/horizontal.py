"""HorizontalPodAutoscalers and the workloads that they scale."""

from collections.abc import Iterable, Mapping, Sequence

from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.target.owners import TargetKey


def hpas_by_target(
    hpas: Iterable[HorizontalPodAutoscaler],
) -> Mapping[TargetKey, Sequence[HorizontalPodAutoscaler]]:
    """Return HPAs by the workload that they scale."""
    found: dict[TargetKey, list[HorizontalPodAutoscaler]] = {}
    for hpa in hpas:
        ref = hpa.spec.scale_target_ref
        found.setdefault((hpa.metadata.namespace, ref.kind, ref.name), []).append(hpa)
    return found


def utilized_resources(hpa: HorizontalPodAutoscaler) -> Sequence[str]:
    """Return the resources on whose utilization the HPA scales.

    Utilization is relative to requests. So a VPA that changes requests changes the number of
    replicas, too. Average values are absolute and don't conflict.
    """
    return [
        measured.name
        for metric in hpa.spec.metrics or ()
        for measured in (metric.resource, metric.container_resource)
        if measured is not None and measured.target.type == "Utilization"
    ]
