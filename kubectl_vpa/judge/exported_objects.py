"""Objects as they can be applied to the same cluster later, or to another one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common.api.autoscaling import ContainerRecommendation, VerticalPodAutoscaler
from common.api.base import QuantityJson
from kubectl_vpa.judge.vpa_fields import workload
from kubectl_vpa.results.export import RecommendationResult

_KEPT = ("name", "namespace", "labels", "annotations")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def exported(api_version: str, kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what only its cluster knows: UID, versions, owners, times.

    The status stays. A server ignores that of a VPA, and stores that of a checkpoint.
    """
    old = item["metadata"]
    metadata = {name: old[name] for name in _KEPT if old.get(name)}
    annotations = {
        name: value
        for name, value in (metadata.pop("annotations", None) or {}).items()
        if name != _LAST_APPLIED
    }
    if annotations:
        metadata["annotations"] = annotations
    parts = {name: item[name] for name in ("spec", "status") if item.get(name)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def recommendations(vpas: Sequence[VerticalPodAutoscaler]) -> Iterator[RecommendationResult]:
    """Yield the recommendation of each container."""
    for vpa in sorted(vpas, key=lambda each: (each.metadata.namespace, each.metadata.name)):
        found = vpa.status.recommendation
        for each in (found.container_recommendations if found is not None else None) or ():
            yield RecommendationResult(
                namespace=vpa.metadata.namespace,
                name=vpa.metadata.name,
                **workload(vpa),
                container=each.container_name,
                **_amounts(each),
            )


def _amounts(each: ContainerRecommendation) -> dict[str, Mapping[str, str]]:
    return {
        "target": _texts(each.target),
        "lower_bound": _texts(each.lower_bound),
        "upper_bound": _texts(each.upper_bound),
        "uncapped_target": _texts(each.uncapped_target),
    }


def _texts(raw: Mapping[str, QuantityJson]) -> Mapping[str, str]:
    return {name: str(value) for name, value in raw.items()}
