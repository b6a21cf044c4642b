"""Requests that are sent to a real API server and to the sandbox, as data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

NS = "/api/v1/namespaces/{ns}"
PODS = f"{NS}/pods"
POD = f"{PODS}/p"
MAPS = f"{NS}/configmaps"
APPS = "/apis/apps/v1/namespaces/{ns}"
BATCH = "/apis/batch/v1/namespaces/{ns}"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    ``path`` and the texts of ``body`` may contain placeholders: ``{ns}`` is the case's namespace;
    ``{uid}`` and ``{version}`` are those of the last response with a name; ``{webhook}`` and
    ``{authority}`` are the URL and the certificate authority of the recorder's webhook.
    ``user`` is a ServiceAccount of that namespace; if empty, it is the administrator.
    ``until`` repeats a read or a dry run until a field (a dotted path) has a value, also that of
    an error.
    """

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    user: str = ""
    until: tuple[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Requests whose responses are compared, after others that only have to succeed."""

    name: str
    before: tuple[Request, ...] = ()
    requests: tuple[Request, ...]


def case(name: str, *requests: Request, before: Iterable[Request] = ()) -> Case:
    return Case(name=name, before=tuple(before), requests=requests)


def get(path: str, **options: Any) -> Request:
    return Request(method="GET", path=path, **options)


def post(path: str, body: Any, **options: Any) -> Request:
    return Request(method="POST", path=path, body=body, **options)


def put(path: str, body: Any, **options: Any) -> Request:
    return Request(method="PUT", path=path, body=body, **options)


def delete(path: str, body: Any = None, **options: Any) -> Request:
    return Request(method="DELETE", path=path, body=body, **options)


def patch(path: str, body: Any, content_type: str = STRATEGIC, **options: Any) -> Request:
    return Request(method="PATCH", path=path, body=body, content_type=content_type, **options)


def named(name: str, **fields: Any) -> Object:
    """Return an object with a name, and with other metadata from ``meta``."""
    meta = fields.pop("meta", {})
    return {"metadata": {"name": name, **meta}, **fields}


def container(name: str = "app", **fields: Any) -> Object:
    return {"name": name, "image": "registry.example/app:1", **fields}


def amounts(requests: Mapping[str, str] | None = None, **limits: str) -> Object:
    """Return the resources of a container."""
    given = {"requests": dict(requests)} if requests else {}
    return given | ({"limits": limits} if limits else {})


SMALL = amounts({"cpu": "100m", "memory": "64Mi"})


def pod(name: str = "p", *containers: Object, meta: Object | None = None, **spec: Any) -> Object:
    """Return a pod that isn't scheduled, unless ``spec`` names a node."""
    return {
        "metadata": {"name": name, **(meta or {})},
        "spec": {
            "schedulerName": "nobody",
            "containers": list(containers) or [container(resources=SMALL)],
            **spec,
        },
    }


def template(*containers: Object, labels: Object | None = None, **spec: Any) -> Object:
    """Return a pod template with the label ``app: x``."""
    return {
        "metadata": {"labels": labels or {"app": "x"}},
        "spec": {
            "schedulerName": "nobody",
            "containers": list(containers) or [container(resources=SMALL)],
            **spec,
        },
    }


def workload(name: str = "w", **spec: Any) -> Object:
    """Return the body of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    selector = {"matchLabels": {"app": "x"}}
    return named(name, spec={"selector": selector, "template": template(), **spec})
