"""Pods of a case: how they are written, and what an object of the API says of them."""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

LARGE = {"cpu": "800m", "memory": "1Gi"}  # requests of a pod that uses little


def template(
    name: str,
    *,
    requests: Mapping[str, str] = LARGE,
    limits: Mapping[str, str] | None = None,
    uses: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
    beside: Sequence[Mapping[str, Any]] = (),
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A simulated pod with the label ``app``, as a workload's template has it.

    ``uses`` is what each container uses (30m and 60Mi unless said), ``annotations`` steer the
    simulated kubelet (sandbox/scenarios/README.md), ``container`` adds fields, ``beside`` are
    more containers, ``spec`` more fields of the pod.
    """
    usage = {"cpu": "30m", "memory": "60Mi", **(uses or {})}
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
                **{f"usage.sandbox/{key}": value for key, value in usage.items()},
                **(annotations or {}),
            },
        },
        "spec": {"containers": [main, *beside], **(spec or {})},
    }


def within(lower: Mapping[str, str], target: Mapping[str, str], upper: Mapping[str, str]) -> Object:
    """What is recommended for a container."""
    return {"lowerBound": dict(lower), "target": dict(target), "upperBound": dict(upper)}


def requests(pod: Object) -> dict[str, str]:
    """What the first container of a pod requests."""
    found: dict[str, str] = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return found


def restarts(pod: Object) -> int:
    """How often the first container was restarted."""
    count: int = pod["status"]["containerStatuses"][0]["restartCount"]
    return count


def is_ready(pod: Object) -> bool:
    """Whether all containers are."""
    statuses = pod["status"].get("containerStatuses") or ()
    return bool(statuses) and all(status["ready"] for status in statuses)


def runs_with(pod: Object, wanted: Mapping[str, str]) -> bool:
    """Whether a pod asks for these requests, and its kubelet says that it has them."""
    if not is_ready(pod):
        return False
    reported = pod["status"]["containerStatuses"][0].get("resources", {}).get("requests", {})
    asked = requests(pod)
    return all(asked.get(name) == reported.get(name) == wanted[name] for name in wanted)
