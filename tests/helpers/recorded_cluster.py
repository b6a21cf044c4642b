"""The nodes, LimitRanges and pods of the recorded requests, and a client of the API server."""

from typing import Any

import msgspec

import asgi
from recorded_cases import Recorded
from sandbox.apiserver.server import ApiServer
from sandbox.objects.resources import LIMIT_RANGES, NAMESPACES, NODES
from sandbox.objects.store import Store
from sandbox.patching.apply import copied

FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]


def node(name: str, *, system: str = "linux", cpu: str = "4") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/os": system} if system else {}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi"},
            "declaredFeatures": FEATURES if name == "featured" else [],
        },
    }


def furnish(store: Store) -> None:
    """Create the namespaces, nodes and LimitRanges of the recordings."""
    for name in ("golden", "limited", "quota"):
        store.create(NAMESPACES, {"metadata": {"name": name}})
    for one in (
        node("manual"),
        node("featured"),
        node("win", system="windows"),
        node("nolabel", system=""),
        node("shrink", cpu="1"),
    ):
        store.create(NODES, one)
    store.create(
        LIMIT_RANGES,
        {
            "metadata": {"name": "lr", "namespace": "limited"},
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "max": {"cpu": "500m", "memory": "1Gi"},
                        "min": {"cpu": "50m", "memory": "16Mi"},
                        "maxLimitRequestRatio": {"memory": "4"},
                        "default": {"cpu": "400m", "memory": "256Mi"},
                        "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
                    },
                    {"type": "Pod", "max": {"cpu": "600m"}},
                ]
            },
        },
    )


def pod_before(case: Recorded) -> dict[str, Any]:
    """Return the pod before the request, with the status of the recording's notes."""
    before = case.raw["before"]
    spec = copied(before["spec"])
    name, namespace = case.path[6], case.path[4]
    if case.minor == 33:
        spec.pop("resources", None)  # dropped at creation: PodLevelResources is off
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": "u",
        "resourceVersion": "1",
    }
    meta |= {"generation": before["generation"], "labels": {"app": name}}
    if case.case == "resize-deployment-pod":
        meta["labels"] = case.response["metadata"]["labels"]
    if case.case == "resize-mirror-pod":
        meta["annotations"] = {"kubernetes.io/config.mirror": "x"}
    if case.case == "resize-windows-pod":
        spec["os"] = {"name": "windows"}
    if case.case == "resize-restart-never":
        spec["restartPolicy"] = "Never"
    # The recordings omit volumes, but not their mounts.
    mounts = [one for each in spec["containers"] for one in each.get("volumeMounts") or ()]
    spec.setdefault("volumes", [{"name": one["name"], "emptyDir": {}} for one in mounts])
    running = before["phase"] == "Running"
    reported = []
    for index, container in enumerate(spec["containers"]):
        one: dict[str, Any] = {"name": container["name"]}
        one["state"] = {"running": {}} if running else {"terminated": {}}
        silent = {
            "resize-running-without-status-resources": 0,
            "resize-running-second-container-without-status-resources": 1,
        }.get(case.case)
        if index != silent:
            one["resources"] = container.get("resources") or {}
        reported.append(one)
    status = {"phase": before["phase"], "qosClass": before["qosClass"]}
    if before["phase"] != "Pending":
        status["containerStatuses"] = reported
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {"restartPolicy": "Always", **spec},
        "status": status,
    }


def quota(used_cpu: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "rq", "namespace": "quota"},
        "spec": {"hard": {"requests.cpu": "500m", "limits.memory": "512Mi"}},
        "status": {
            "hard": {"requests.cpu": "500m", "limits.memory": "512Mi"},
            "used": {"requests.cpu": used_cpu, "limits.memory": "128Mi"},
        },
    }


async def call(
    api: ApiServer,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    token: str,
    content_type: str = "application/json",
) -> tuple[int, dict[str, str], Any]:
    """Send one request without a network; return status, headers and the decoded body."""
    sent = {"authorization": f"Bearer {token}", "content-type": content_type}
    response = await asgi.call(api, asgi.scope_of(method, path, sent), asgi.pieces(body))
    return response.status, dict(response.headers), msgspec.json.decode(response.body)
