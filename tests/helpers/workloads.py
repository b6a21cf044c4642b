"""Manifests of ordinary objects, and functions that create them, for tests of whole clusters."""

from collections.abc import Callable
from typing import Any

from common.kube.client import KubeClient
from common.kube.endpoints import DEPLOYMENTS, NAMESPACES, VPAS, Endpoint
from definitions import all_definitions

NAMESPACE = "shop"
DEFINITIONS: Endpoint[dict[str, Any]] = Endpoint(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    dict[str, Any],
    namespaced=False,
)

Change = Callable[[dict[str, Any]], dict[str, Any]]


async def prepare(client: KubeClient, *, change: Change = lambda definition: definition) -> None:
    """Create the project's definitions, changed by ``change``, and a namespace."""
    for definition in all_definitions():
        await client.create(DEFINITIONS, change(definition))
    await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": NAMESPACE}})


def loosened(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition that accepts any text as a mode or quantity, as of another version."""

    def loosen(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: loosen(one)
                for key, one in value.items()
                if key not in ("enum", "pattern") or isinstance(one, dict)
            }
        return [loosen(one) for one in value] if isinstance(value, list) else value

    changed: dict[str, Any] = loosen(definition)
    return changed


async def deploy(
    client: KubeClient,
    name: str,
    *,
    replicas: int = 2,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    node: str = "",
    mode: str = "Recreate",
    **spec: Any,
) -> None:
    """Create a Deployment of pods with the label ``app``, and a VPA with the same name.

    The scheduler chooses a node, unless ``node`` is given.
    """
    labels = {"app": name}
    resources: dict[str, Any] = {
        "requests": {"cpu": "800m", "memory": "1Gi"} if requests is None else requests
    }
    if limits is not None:
        resources["limits"] = limits
    container = {"name": "app", "image": "registry.example/app", "resources": resources}
    pod = {"containers": [container], **({"nodeName": node} if node else {})}
    await client.create(
        DEPLOYMENTS.as_dicts(),
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        namespace=NAMESPACE,
    )
    await client.create(VPAS.as_dicts(), autoscaler(name, mode, **spec), namespace=NAMESPACE)


def autoscaler(name: str, mode: str = "Recreate", **spec: Any) -> dict[str, Any]:
    """Return a VPA for the Deployment of the same name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": mode},
            **spec,
        },
    }


def refusing_webhook(name: str = "refuses", *, namespace: str = "") -> dict[str, Any]:
    """Return a third party's webhook configuration without a server: it refuses all new pods."""
    creation = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    hook: dict[str, Any] = {
        "name": "refuses.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [creation],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    if namespace:
        hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {"metadata": {"name": name}, "webhooks": [hook]}
