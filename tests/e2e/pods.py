"""Pod templates of cases, and accessors for pods as JSON objects."""

from collections.abc import Mapping, Sequence
from typing import Any

from common.kube.endpoints import DEPLOYMENTS

Object = dict[str, Any]

LARGE = {"cpu": "800m", "memory": "1Gi"}  # requests far above the default usage


def template(
    name: str,
    *,
    requests: Mapping[str, str] = LARGE,
    limits: Mapping[str, str] | None = None,
    usage: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
    extra_containers: Sequence[Mapping[str, Any]] = (),
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """Return the pod template of a workload, with the label ``app``.

    ``usage`` is the usage of each container, by default 30m and 60Mi. ``annotations`` configure
    the simulated kubelet (sandbox/scenarios/README.md). ``container`` and ``spec`` add fields to
    the container ``app`` and to the pod's spec.
    """
    used = {"cpu": "30m", "memory": "60Mi", **(usage or {})}
    resources = {"requests": dict(requests), **({"limits": dict(limits)} if limits else {})}
    main = {
        "name": "app",
        "image": "registry.example/app",
        "resources": resources,
        **(container or {}),
    }
    return {
        "metadata": {
            "labels": {"app": name},
            "annotations": {
                **{f"usage.sandbox/{key}": value for key, value in used.items()},
                **(annotations or {}),
            },
        },
        "spec": {"containers": [main, *extra_containers], **(spec or {})},
    }


def deployment(name: str, template: Object, *, replicas: int = 2) -> Object:
    """Return a Deployment with a pod template."""
    labels = template["metadata"]["labels"]
    selected = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, **selected}}


def new_pod(owner: Object) -> Object:
    """Return a pod as the controller of a Deployment would create it."""
    name, template = owner["metadata"]["name"], owner["spec"]["template"]
    reference = {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "name": name,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"generateName": f"{name}-", "ownerReferences": [reference]}
    return {"metadata": {**template["metadata"], **metadata}, "spec": {**template["spec"]}}


def recommendation(
    lower: Mapping[str, str], target: Mapping[str, str], upper: Mapping[str, str]
) -> Object:
    """Return the recommendation of a container, without its name."""
    return {"lowerBound": dict(lower), "target": dict(target), "upperBound": dict(upper)}


def requests(pod: Object) -> dict[str, str]:
    """Return the requests of a pod's first container."""
    found: dict[str, str] = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return found


def restarts(pod: Object) -> int:
    """Return the restart count of a pod's first container."""
    count: int = pod["status"]["containerStatuses"][0]["restartCount"]
    return count


def is_ready(pod: Object) -> bool:
    """Return True if all containers of a pod are ready."""
    statuses = pod["status"].get("containerStatuses") or ()
    return bool(statuses) and all(status["ready"] for status in statuses)


def has_requests(pod: Object, wanted: Mapping[str, str]) -> bool:
    """Return True if a ready pod has these requests in its spec and in its status."""
    if not is_ready(pod):
        return False
    reported = pod["status"]["containerStatuses"][0].get("resources", {}).get("requests", {})
    specified = requests(pod)
    return all(specified.get(name) == reported.get(name) == wanted[name] for name in wanted)


def hpa(name: str) -> Object:
    """Return an HPA for the Deployment of the same name, on half of the CPU requests."""
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "metadata": {"name": name},
        "spec": {
            "minReplicas": 2,
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
