"""Merge rules of lists of built-in kinds in a strategic merge patch.

The API server reads them from the tags ``patchStrategy`` and ``patchMergeKey`` of its Go types.
Here they are a tree per kind, with the lists that are merged in practice. Other maps merge key by
key; other lists and scalars are replaced.

Source: the tags in k8s.io/api and k8s.io/apimachinery, releases 1.33 to 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Fields: TypeAlias = Mapping[str, "Fields | MergedList"]
"""The fields of a map that are not plain; a nested mapping is a map with such fields."""


@dataclass(frozen=True, slots=True)
class MergedList:
    """A list that is merged: of maps by ``key``, or of scalars when ``key`` is empty."""

    key: str = ""
    item: Fields = field(default_factory=dict)


_CONDITIONS: Fields = {"conditions": MergedList("type")}
_META: Fields = {"ownerReferences": MergedList("uid"), "finalizers": MergedList()}

_CONTAINER: Fields = {
    "ports": MergedList("containerPort"),
    "env": MergedList("name"),
    "volumeMounts": MergedList("mountPath"),
}
_POD_SPEC: Fields = {
    "volumes": MergedList("name"),
    "initContainers": MergedList("name", _CONTAINER),
    "containers": MergedList("name", _CONTAINER),
    "schedulingGates": MergedList("name"),
}
_TEMPLATE: Fields = {"metadata": _META, "spec": _POD_SPEC}
_TEMPLATE_OWNER: Fields = {"spec": {"template": _TEMPLATE}, "status": _CONDITIONS}
_WEBHOOKS: Fields = {"webhooks": MergedList("name")}

_KINDS: Mapping[tuple[str, str], Fields] = {
    ("", "Pod"): {"spec": _POD_SPEC, "status": _CONDITIONS},
    ("", "Node"): {"status": {**_CONDITIONS, "addresses": MergedList("type")}},
    ("apps", "Deployment"): _TEMPLATE_OWNER,
    ("apps", "ReplicaSet"): _TEMPLATE_OWNER,
    ("apps", "StatefulSet"): _TEMPLATE_OWNER,
    ("apps", "DaemonSet"): _TEMPLATE_OWNER,
    ("batch", "Job"): _TEMPLATE_OWNER,
    ("policy", "PodDisruptionBudget"): {"status": _CONDITIONS},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
}


def fields_of(group: str, kind: str) -> Fields:
    """Return the merge rules of a built-in kind; by default those of metadata."""
    return _TREES.get((group, kind), _PLAIN)


_PLAIN: Fields = {"metadata": _META}
_TREES = {key: {**_PLAIN, **fields} for key, fields in _KINDS.items()}
