"""The conversion of a posted manifest to the pod that an API server would send for review.

The manifest is a pod or an object with a pod template. The pod of a template has the object as its
controller.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from common.api.core import Pod
from common.errors import DecodeError, VpaError
from common.quantity import Quantity

LARGEST: Final = 256 * 1024  # bytes; YAML of this size takes a second to parse
_DEEPEST: Final = 100  # levels
_TEMPLATE: Final = ("spec", "template")
# The path of the pod template by kind.
_TEMPLATES: Final = {
    "Deployment": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_KINDS: Final = ("Pod", *_TEMPLATES)  # a tuple, because a posted kind can be unhashable
_AT = re.compile(r"(.*) - at `\$\.?([^`]*)`", re.DOTALL)
_MISSING = re.compile("Object missing required field `(.*)`")


class ManifestError(VpaError):
    """A manifest can't be used. ``fix`` says how to correct ``field``; ``status`` is of HTTP."""

    def __init__(self, problem: str, *, field: str, fix: str, status: int = 422) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field
        self.fix = fix
        self.status = status


@dataclass(frozen=True, slots=True)
class Manifest:
    """A pod as JSON, with its namespace and name. A generated name ends with ``*``."""

    namespace: str
    name: str
    object: bytes


def read(body: bytes, *, namespace: str = "") -> Manifest:
    """Return the pod of a manifest in YAML or JSON; ``namespace`` is for one without a namespace.

    Raises:
        ManifestError: it can't be parsed, or its kind has no pods.
    """
    manifest = _pod_of(_parsed(body), namespace=namespace)
    metadata = manifest["metadata"]
    try:
        raw = msgspec.json.encode(manifest)
        pod = msgspec.json.decode(raw, type=Pod)
    except TypeError as error:  # YAML allows keys that JSON doesn't
        raise _of_body(str(error), "write keys as texts", status=422) from error
    except msgspec.ValidationError as error:
        raise _mistyped(str(error)) from error
    _check(pod)
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}*"
    return Manifest(pod.metadata.namespace, name, raw)


class _Loader(yaml.CSafeLoader):
    """A YAML loader that reads dates as strings, as Kubernetes does."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _parsed(body: bytes) -> dict[str, Any]:
    if len(body) > LARGEST:
        problem = f"larger than {LARGEST} bytes"
        raise _of_body(problem, "post one object alone", status=413)
    if not body.strip():
        raise _of_body("it is empty", "post a manifest: curl --data-binary @pod.yaml")
    with contextlib.suppress(msgspec.DecodeError, RecursionError, ValueError):
        # JSON is read first: YAML doesn't support surrogate pairs.
        return _only_object([msgspec.json.decode(body)])
    try:
        return _only_object(list(yaml.load_all(_bounded(body), _Loader)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = f"neither YAML nor JSON: {' '.join(str(error).split())}"
        raise _of_body(problem, "keep line breaks: curl needs --data-binary, not -d") from error


def _bounded(body: bytes) -> bytes:
    """Return ``body`` if it has no aliases and isn't nested too deeply.

    Aliases can expand a few hundred bytes to gigabytes; nested brackets can exhaust the stack.
    """
    depth = 0
    for event in yaml.parse(body, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            problem = f"it has the alias *{event.anchor}"
            raise _of_body(problem, "write out what the alias stands for")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _of_body(f"it nests deeper than {_DEEPEST} levels", "nest less deeply")
    return body


def _only_object(documents: list[Any]) -> dict[str, Any]:
    """Return the only object, or the only one that has pods if there are several."""
    found = [each for document in documents for each in _listed(document) if each is not None]
    if len(found) > 1:
        found = [each for each in found if isinstance(each, dict) and each.get("kind") in _KINDS]
    if len(found) != 1:
        raise _of_body(f"it holds {len(found)} objects that make pods", "post one at a time")
    if not isinstance(found[0], dict):
        raise _of_body("it is no object", "start with apiVersion: v1 and kind: Pod", status=422)
    return found[0]


def _listed(document: Any) -> list[Any]:
    """Return the items of a List, or the document itself."""
    if isinstance(document, dict) and document.get("kind") == "List":
        items = document.get("items")
        return items if isinstance(items, list) else []
    return [document]


def _pod_of(manifest: dict[str, Any], *, namespace: str) -> dict[str, Any]:
    kind = manifest.get("kind")
    if kind == "AdmissionReview":
        fix = "post reviews to the webhook's own port, and a manifest here"
        raise ManifestError("it is a review, no manifest", field="kind", fix=fix)
    if kind not in _KINDS:
        problem = "it is missing" if kind is None else f"nothing is made of {kind!r} here"
        raise ManifestError(problem, field="kind", fix=f"post one of: {', '.join(_KINDS)}")
    if kind == "Pod" and manifest.get("apiVersion") != "v1":
        problem = f"pods are of v1, not of {manifest.get('apiVersion')!r}"
        raise ManifestError(problem, field="apiVersion", fix="write apiVersion: v1")
    metadata = _member(manifest, "metadata")
    target = metadata.get("namespace") or namespace or "default"
    if namespace and target != namespace:
        problem = f"the manifest says {target!r}, and the address namespace={namespace}"
        raise ManifestError(problem, field="metadata.namespace", fix="leave one of them out")
    if kind == "Pod":
        return manifest | {"metadata": metadata | {"namespace": target}}
    name = metadata.get("name")
    if not name:
        fix = f"name the {kind}: VPAs find it by its name"
        raise ManifestError("it is missing", field="metadata.name", fix=fix)
    template = _member(manifest, *_TEMPLATES[kind])
    owner = {"apiVersion": manifest.get("apiVersion") or "", "kind": kind, "name": name}
    made = {
        "generateName": f"{name}-",
        "namespace": target,
        "ownerReferences": [owner | {"controller": True}],
    }
    return template | {"metadata": _member(template, "metadata", required=False) | made}


def _member(of: dict[str, Any], *path: str, required: bool = True) -> dict[str, Any]:
    found: Any = of
    for depth, name in enumerate(path, start=1):
        found = found.get(name)
        if found is None and not required:
            return {}
        if not isinstance(found, dict):
            problem = "it is missing" if found is None else "it is no object"
            field = ".".join(path[:depth])
            raise ManifestError(problem, field=field, fix="write an object there")
    return dict(found)


def _mistyped(text: str) -> ManifestError:
    """Return the decoder's error as a field and a fix."""
    found = _AT.fullmatch(text)
    problem, field = found.groups() if found is not None else (text, "")
    missing = _MISSING.fullmatch(problem)
    if missing is not None:
        field = f"{field}.{missing[1]}".lstrip(".")
        return ManifestError("it is missing", field=field, fix=f"write {missing[1]}: there")
    return ManifestError(problem, field=field or "(the body)", fix="write what is expected")


def _check(pod: Pod) -> None:
    if not pod.spec.containers:
        fix = "give the pod at least one container"
        raise ManifestError("there are none", field="spec.containers", fix=fix)
    for index, container in enumerate(pod.spec.containers):
        root = f"spec.containers[{index}].resources"
        requirements = container.resources
        if requirements is None:
            continue
        for field, value in _quantities(root, requirements.requests, requirements.limits):
            try:
                Quantity.from_json(value)
            except DecodeError as error:
                fix = "write a quantity such as 250m, 1 or 256Mi"
                raise ManifestError(f"{value!r} is no quantity", field=field, fix=fix) from error


def _quantities(root: str, requests: Any, limits: Any) -> Iterator[tuple[str, Any]]:
    for name, value in (requests or {}).items():
        yield f"{root}.requests.{name}", value
    for name, value in (limits or {}).items():
        yield f"{root}.limits.{name}", value


def _of_body(problem: str, fix: str, *, status: int = 400) -> ManifestError:
    return ManifestError(problem, field="(the body)", fix=fix, status=status)
