"""Targets that are no kind of Kubernetes' own."""

from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import PODS, VPAS, Endpoint
from e2e.world import LARGE, Case, Object, requests
from workloads import autoscaler

_GROUP = "e2e.example"
_DEFINITIONS: Endpoint[Object] = Endpoint(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    dict[str, Any],
    namespaced=False,
)
_ROBOTS: Endpoint[Object] = Endpoint(_GROUP, "v1", "robots", "Robot", dict[str, Any])
_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION: Object = {
    "metadata": {"name": f"robots.{_GROUP}"},
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "robots",
            "singular": "robot",
            "kind": "Robot",
            "listKind": "RobotList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _ANYTHING, "status": _ANYTHING},
                    }
                },
                "subresources": {"status": {}, "scale": _SCALE},
            }
        ],
    },
}


@pytest.mark.abreast
async def test_pods_of_a_custom_resource_with_a_scale_are_resized_and_patched(case: Case) -> None:
    world = case.world
    await world.client.create(_DEFINITIONS, _DEFINITION)
    try:
        robot = await world.until(lambda: _robot(case), "the new kind is served")
        for name in ("left", "right"):
            await case.create(PODS, _pod(name, robot))
        await case.running("robot")
        target = {"apiVersion": f"{_GROUP}/v1", "kind": "Robot", "name": "robot"}
        await case.create(VPAS, autoscaler("robot", "InPlace", targetRef=target))
        await case.fits("robot")
        assert not case.evictions()
        created = await case.create(PODS, _pod("late", robot))
        assert requests(created) == await case.target("robot")
    finally:
        await world.client.delete(_DEFINITIONS, _DEFINITION["metadata"]["name"])


async def _robot(case: Case) -> Object:
    await case.create(_ROBOTS, {"metadata": {"name": "robot"}, "spec": {"replicas": 2}})
    return await case.world.client.patch(
        _ROBOTS,
        "robot",
        {"status": {"replicas": 2, "selector": "app=robot"}},
        patch_type=PatchType.MERGE,
        namespace=case.namespace,
        subresource="status",
    )


def _pod(name: str, robot: Object) -> Object:
    owner = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Robot",
        "name": robot["metadata"]["name"],
        "uid": robot["metadata"]["uid"],
        "controller": True,
    }
    container = {"name": "app", "image": "registry.example/app", "resources": {"requests": LARGE}}
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "robot"},
            "annotations": {"usage.sandbox/cpu": "30m", "usage.sandbox/memory": "60Mi"},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [container]},
    }
