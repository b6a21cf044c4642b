"""A small API server for benchmarks of the webhook, and the reviews of its pods.

It only lists: page by page, as whole objects or as metadata, as requested. Its watches send
nothing. Each Deployment has twelve ReplicaSets, of which only the newest has pods.
"""

import argparse
import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from aiohttp import web

from admission.pod_patch import pod_patch
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRange, Pod
from common.features import FeatureGates
from common.quantity import ZERO

GENERATIONS = 12  # ReplicaSets of a Deployment
NAMESPACES = 50
CONTAINERS = ("app", "proxy")
POD_BYTES = 8 * 1024

_WHEN = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of objects."""

    vpas: int
    replica_sets: int

    @property
    def deployments(self) -> int:
        return max(self.vpas, self.replica_sets // GENERATIONS)


def meta(kind: str, name: str, namespace: str, **more: Any) -> dict[str, Any]:
    """Return metadata as an API server stores it, with a page of managedFields."""
    fields: dict[str, Any] = {
        f"f:{field}": {} for field in ("labels", "replicas", "selector", "strategy")
    }
    spec = {"f:spec": fields, "f:metadata": {"f:ownerReferences": {".": {}, "k:{uid}": fields}}}
    return {
        "name": name,
        "namespace": namespace,
        "uid": _uid(kind, namespace, name),
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": _WHEN,
        "labels": {"app": _app_of(name), "team": namespace, "tier": "backend"},
        "managedFields": [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "apps/v1",
                "time": _WHEN,
                "fieldsType": "FieldsV1",
                "fieldsV1": spec,
            }
            for manager in ("kubectl-client-side-apply", "kube-controller-manager")
        ],
        **more,
    }


def deployment(index: int) -> dict[str, Any]:
    """Return the target of the VPA with the same index."""
    app, namespace = f"app-{index}", _namespace(index)
    return {
        "metadata": meta("Deployment", app, namespace),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": app}}, "template": _template()},
        "status": {"replicas": 3},
    }


def replica_set(index: int, deployments: int) -> dict[str, Any]:
    """Return a ReplicaSet. Those of one Deployment are not adjacent in the list."""
    owner, generation = index % deployments, index // deployments
    app, namespace = f"app-{owner}", _namespace(owner)
    labels = {"app": app, "pod-template-hash": f"{generation:010x}"}
    owners = [_owner("apps/v1", "Deployment", app, namespace)]
    named = meta("ReplicaSet", _replica_set_name(owner, generation), namespace)
    return {
        "metadata": {**named, "ownerReferences": owners},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": _template()},
        "status": {"replicas": 0},
    }


def vpa(index: int) -> dict[str, Any]:
    """Return a VPA with bounds and a recommendation for every container."""
    app, namespace = f"app-{index}", _namespace(index)
    policy = {
        "containerName": "*",
        "minAllowed": {"cpu": "10m", "memory": "32Mi"},
        "maxAllowed": {"cpu": "4", "memory": "8Gi"},
    }
    advice = [_advice(name, index) for name in CONTAINERS]
    return {
        "metadata": meta("VerticalPodAutoscaler", app, namespace),
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
            "updatePolicy": {"updateMode": "Recreate"},
            "resourcePolicy": {"containerPolicies": [policy]},
        },
        "status": {
            "recommendation": {"containerRecommendations": advice},
            "conditions": [
                {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": _WHEN}
            ],
        },
    }


def limit_range(index: int) -> dict[str, Any]:
    """Return a LimitRange with bounds and defaults for containers, and bounds for pods."""
    namespace = _namespace(index)
    container = {
        "type": "Container",
        "min": {"cpu": "5m", "memory": "16Mi"},
        "max": {"cpu": "8", "memory": "16Gi"},
        "default": {"cpu": "1", "memory": "1Gi"},
    }
    pod = {"type": "Pod", "max": {"cpu": "16", "memory": "32Gi"}}
    return {
        "metadata": meta("LimitRange", "bounds", namespace),
        "spec": {"limits": [container, pod]},
    }


def review(index: int, size: Size, variant: int = 0) -> bytes:
    """Return the review of a pod of 8 KiB of the ``index``-th Deployment, as one line of JSON."""
    namespace = _namespace(index)
    newest = (size.replica_sets - 1 - index) // size.deployments
    replica_set = _replica_set_name(index, newest)
    hashed = f"{newest:010x}"
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{replica_set}-",
            "namespace": namespace,
            "creationTimestamp": None,
            "labels": {"app": f"app-{index}", "pod-template-hash": hashed},
            "annotations": {"checksum/config": f"{variant:064}"},
            "ownerReferences": [_owner("apps/v1", "ReplicaSet", replica_set, namespace)],
        },
        "spec": _template()["spec"],
        "status": {},
    }
    short = POD_BYTES - len(msgspec.json.encode(pod))
    pod["metadata"]["annotations"]["padding"] = "x" * max(0, short - 13)
    request = {
        "uid": _uid("review", namespace, str(index)),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    )


def decision_alone(size: Size, pods: int) -> float:
    """Return the microseconds of CPU to compute one patch in this process, for different pods.

    The webhook does this for the first pod of a template, and again after its VPA has changed.
    """
    count = min(size.vpas, pods)
    asked = [
        (
            msgspec.convert(msgspec.json.decode(review(at, size))["request"]["object"], Pod),
            msgspec.convert(vpa(at), VerticalPodAutoscaler),
            (msgspec.convert(limit_range(at), LimitRange).spec,),
        )
        for at in range(count)
    ]
    features = FeatureGates.parse("")
    rounds = max(1, pods // count)
    began = time.process_time()
    for _ in range(rounds):
        for pod, found, bounds in asked:
            pod_patch(pod, found, bounds, features=features, most_boost=ZERO)
    return (time.process_time() - began) / (rounds * count) * 1e6


class Lists:
    """The lists of the resources, which are generated on first use."""

    def __init__(self, size: Size) -> None:
        deployments = size.deployments
        self._of: Mapping[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
            "deployments": (deployments, deployment),
            "replicasets": (size.replica_sets, lambda at: replica_set(at, deployments)),
            "verticalpodautoscalers": (size.vpas, vpa),
            "limitranges": (NAMESPACES, limit_range),
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer with one page or a silent watch. There is no Lease. Every write is accepted."""
        if request.query.get("watch"):
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await asyncio.Event().wait()
        if request.method != "GET":
            return web.json_response(await request.json())
        if "/leases/" in request.path:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        resource = request.path.rpartition("/")[2]
        count, make = self._of.get(resource, (0, deployment))
        start = int(request.query.get("continue") or 0)
        end = min(start + int(request.query.get("limit") or count or 1), count)
        items: list[Any] = [make(at) for at in range(start, end)]
        if "as=PartialObjectMetadataList" in request.headers.get("Accept", ""):
            items = [{"metadata": item["metadata"]} for item in items]
        left = {"continue": str(end)} if end < count else {}
        page = {"metadata": {"resourceVersion": "1", **left}, "items": items}
        body = msgspec.json.encode(page)
        return web.Response(body=body, content_type="application/json")


def _namespace(index: int) -> str:
    return f"team-{index % NAMESPACES}"


def _replica_set_name(owner: int, generation: int) -> str:
    return f"app-{owner}-{generation:010x}"


def _app_of(name: str) -> str:
    return "-".join(name.split("-")[:2])


def _uid(*parts: str) -> str:
    digits = hashlib.sha256("/".join(parts).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def _owner(api_version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": _uid(kind, namespace, name),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _advice(name: str, index: int) -> dict[str, Any]:
    """Return a recommendation that differs for each VPA, so that no other VPA's patch fits."""
    milli, mebi = 20 + index % 977, 64 + index % 1009
    return {
        "containerName": name,
        "target": {"cpu": f"{milli}m", "memory": f"{mebi * 2**20}"},
        "lowerBound": {"cpu": f"{milli // 2}m", "memory": f"{mebi * 2**19}"},
        "upperBound": {"cpu": f"{milli * 2}m", "memory": f"{mebi * 2**21}"},
        "uncappedTarget": {"cpu": f"{milli}m", "memory": f"{mebi * 2**20}"},
    }


def _template() -> dict[str, Any]:
    """Return a pod template with environment, mounts and probes."""
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [_container(name) for name in CONTAINERS],
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
        },
    }


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"images.example/shop/{name}:1.27.3",
        "env": [
            {"name": f"SETTING_{number:02}", "value": f"value-{number:02}-of-{name}"}
            for number in range(45)
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
        "volumeMounts": [{"name": "config", "mountPath": f"/etc/{name}", "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
        "imagePullPolicy": "IfNotPresent",
    }


async def _serve(size: Size, port_file: Path) -> None:
    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{path:.*}", Lists(size).answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(runner.addresses[0][1]))
    partial.rename(port_file)
    await asyncio.Event().wait()


def main() -> None:
    """Serve the lists until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vpas", type=int, required=True)
    parser.add_argument("--replica-sets", type=int, required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    asked = parser.parse_args()
    uvloop.run(_serve(Size(vpas=asked.vpas, replica_sets=asked.replica_sets), asked.port_file))


if __name__ == "__main__":
    main()
