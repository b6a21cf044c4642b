"""The result of each type of patch, with directives as kubectl and clients send them."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from sandbox.errors import ApiError
from sandbox.objects.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, Resource
from sandbox.patching.apply import ContentType, apply_patch

WIDGETS = Resource(group="shop", plural="widgets", kind="Widget", custom=True)


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "i"} for name in names]}}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    before: dict[str, Any]
    patch: Any
    want: dict[str, Any]
    kind: ContentType = ContentType.STRATEGIC
    resource: Resource = field(default=PODS)


STRATEGIC = [
    Case(
        id="a container is found by its name",
        before=containers("a", "b"),
        patch={"spec": {"containers": [{"name": "b", "image": "j"}]}},
        want={"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}},
    ),
    Case(
        id="a new item is appended",
        before=containers("a"),
        patch=containers("b"),
        want=containers("a", "b"),
    ),
    Case(
        id="$patch: delete removes an item",
        before=containers("a", "b"),
        patch={"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        want=containers("b"),
    ),
    Case(
        id="null deletes",
        before={"metadata": {"labels": {"a": "1", "b": "2"}}},
        patch={"metadata": {"labels": {"a": None, "z": None}}},
        want={"metadata": {"labels": {"b": "2"}}},
    ),
    Case(
        id="nulls in a new map are dropped",
        before={"metadata": {}},
        patch={"metadata": {"creationTimestamp": None, "labels": {"a": None, "b": "1"}}},
        want={"metadata": {"labels": {"b": "1"}}},
    ),
    Case(
        id="finalizers are a set",
        before={"metadata": {"finalizers": ["a", "b"]}},
        patch={"metadata": {"finalizers": ["b", "c"]}},
        want={"metadata": {"finalizers": ["a", "b", "c"]}},
    ),
    Case(
        id="owners are found by uid",
        before={"metadata": {"ownerReferences": [{"uid": "1", "name": "x"}]}},
        patch={"metadata": {"ownerReferences": [{"uid": "1", "controller": True}]}},
        want={"metadata": {"ownerReferences": [{"uid": "1", "name": "x", "controller": True}]}},
    ),
    Case(
        id="tolerations are atomic",
        before={"spec": {"tolerations": [{"key": "a"}]}},
        patch={"spec": {"tolerations": [{"key": "b"}]}},
        want={"spec": {"tolerations": [{"key": "b"}]}},
    ),
    Case(
        id="container statuses are atomic",
        before={"status": {"containerStatuses": [{"name": "a"}, {"name": "b"}]}},
        patch={"status": {"containerStatuses": [{"name": "a", "ready": True}]}},
        want={"status": {"containerStatuses": [{"name": "a", "ready": True}]}},
    ),
    Case(
        id="conditions are found by type and keep what is not sent",
        before={"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}},
        patch={"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        want={"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}},
    ),
    Case(
        id="a Deployment's template merges like a pod",
        resource=DEPLOYMENTS,
        before={"spec": {"template": containers("a", "b")}},
        patch={"spec": {"template": {"spec": {"containers": [{"name": "a", "image": None}]}}}},
        want={
            "spec": {
                "template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "i"}]}}
            }
        },
    ),
    Case(
        id="another type replaces",
        resource=POD_DISRUPTION_BUDGETS,
        before={"spec": {"minAvailable": 1}},
        patch={"spec": {"minAvailable": "50%"}},
        want={"spec": {"minAvailable": "50%"}},
    ),
]
OTHERS = [
    Case(
        id="a merge patch replaces lists and deletes by null",
        kind=ContentType.MERGE,
        before={**containers("a", "b"), "metadata": {"labels": {"a": "1"}}},
        patch={**containers("b"), "metadata": {"labels": {"a": None, "b": "2"}}},
        want={**containers("b"), "metadata": {"labels": {"b": "2"}}},
    ),
    Case(
        id="a JSON patch works on paths, escaped where needed",
        kind=ContentType.JSON,
        before={"metadata": {"annotations": {"a/b": "1"}}},
        patch=[
            {"op": "test", "path": "/metadata/annotations/a~1b", "value": "1"},
            {"op": "remove", "path": "/metadata/annotations/a~1b"},
            {"op": "add", "path": "/metadata/annotations/c", "value": "2"},
        ],
        want={"metadata": {"annotations": {"c": "2"}}},
    ),
    Case(
        id="a JSON patch without a value means null",
        kind=ContentType.JSON,
        before={"a": 1},
        patch=[{"op": "add", "path": "/b"}],
        want={"a": 1, "b": None},
    ),
    Case(
        id="a merge patch works on custom resources",
        kind=ContentType.MERGE,
        resource=WIDGETS,
        before={"spec": {"a": 1}},
        patch={"spec": {"b": 2}},
        want={"spec": {"a": 1, "b": 2}},
    ),
]


@pytest.mark.parametrize("case", [*STRATEGIC, *OTHERS], ids=lambda case: case.id)
def test_apply_patch(case: Case) -> None:
    before = msgspec.json.decode(msgspec.json.encode(case.before))
    body = msgspec.json.encode(case.patch)
    assert apply_patch(case.kind, case.before, body, resource=case.resource) == case.want
    assert case.before == before, "the current object must stay as it is"


@dataclass(frozen=True, kw_only=True)
class Refused:
    id: str
    code: int
    body: bytes
    kind: str = ContentType.JSON
    resource: Resource = field(default=PODS)


REFUSED = [
    Refused(id="truncated", code=400, body=b'[{"op":"ad'),
    Refused(id="not a list", code=400, body=b"{}"),
    Refused(id="an operation that is not a map", code=422, body=b"[1]"),
    Refused(id="an unknown operation", code=422, body=b'[{"op":"twist","path":"/spec"}]'),
    Refused(id="a missing parent", code=422, body=b'[{"op":"add","path":"/x/y/z","value":1}]'),
    Refused(id="a path into a string", code=422, body=b'[{"op":"add","path":"/kind/z","value":1}]'),
    Refused(id="a failed test", code=422, body=b'[{"op":"test","path":"/kind","value":"x"}]'),
    Refused(
        id="removal of the whole object", code=422, body=b'[{"op":"replace","path":"","value":1}]'
    ),
    Refused(
        id="10001 operations",
        code=413,
        body=msgspec.json.encode([{"op": "test", "path": "/kind", "value": "Pod"}] * 10_001),
    ),
    Refused(id="a merge patch that is not a map", code=400, body=b"[]", kind=ContentType.MERGE),
    Refused(id="strategic, not a map", code=400, body=b"1", kind=ContentType.STRATEGIC),
    Refused(
        id="strategic, no merge key",
        code=500,
        body=b'{"spec":{"containers":[{"image":"x"}]}}',
        kind=ContentType.STRATEGIC,
    ),
    Refused(
        id="strategic on a custom resource",
        code=415,
        body=b"{}",
        kind=ContentType.STRATEGIC,
        resource=WIDGETS,
    ),
    Refused(id="server-side apply", code=415, body=b"{}", kind=ContentType.APPLY),
    Refused(id="plain JSON", code=415, body=b"{}", kind="application/json"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_apply_patch_refuses(case: Refused) -> None:
    current = {"kind": "Pod", **containers("a")}
    with pytest.raises(ApiError) as caught:
        apply_patch(case.kind, current, case.body, resource=case.resource)
    assert caught.value.code == case.code


def test_ten_thousand_operations_are_allowed() -> None:
    body = msgspec.json.encode([{"op": "test", "path": "/kind", "value": "Pod"}] * 10_000)
    assert apply_patch(ContentType.JSON, {"kind": "Pod"}, body, resource=PODS) == {"kind": "Pod"}
