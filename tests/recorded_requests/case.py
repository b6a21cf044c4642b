"""What is asked of a real API server and of the sandbox: cases, told as data."""

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

    In ``path`` and in every text of ``body`` stand ``{ns}`` for the case's own namespace,
    ``{uid}`` and ``{version}`` for those of the last answer that had a name, ``{webhook}`` and
    ``{authority}`` for the URL and the certificate authority of the recorder's webhook.
    ``user`` is a ServiceAccount of that namespace, the administrator where it is empty.
    ``until`` repeats a read, or a dry run, until the field (a dotted path) has the value; that may
    be a refusal.
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
    """Requests whose answers count, after others that only have to succeed, or to be waited for."""

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
    """An object with a name; ``labels`` and other metadata go to ``meta``."""
    meta = fields.pop("meta", {})
    return {"metadata": {"name": name, **meta}, **fields}


def container(name: str = "app", **fields: Any) -> Object:
    return {"name": name, "image": "registry.example/app:1", **fields}


def amounts(requests: Mapping[str, str] | None = None, **limits: str) -> Object:
    """Resources of a container."""
    given = {"requests": dict(requests)} if requests else {}
    return given | ({"limits": limits} if limits else {})


SMALL = amounts({"cpu": "100m", "memory": "64Mi"})


def pod(name: str = "p", *containers: Object, meta: Object | None = None, **spec: Any) -> Object:
    """A pod that no scheduler looks at, unless ``spec`` names a node."""
    return {
        "metadata": {"name": name, **(meta or {})},
        "spec": {
            "schedulerName": "nobody",
            "containers": list(containers) or [container(resources=SMALL)],
            **spec,
        },
    }


def template(*containers: Object, labels: Object | None = None, **spec: Any) -> Object:
    """A pod template with the label ``app: x``."""
    return {
        "metadata": {"labels": labels or {"app": "x"}},
        "spec": {
            "schedulerName": "nobody",
            "containers": list(containers) or [container(resources=SMALL)],
            **spec,
        },
    }


def workload(name: str = "w", **spec: Any) -> Object:
    """The body of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    selector = {"matchLabels": {"app": "x"}}
    return named(name, spec={"selector": selector, "template": template(), **spec})
