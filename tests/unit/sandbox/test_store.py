"""The store: versions, order, history, owners."""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.errors import ApiError
from sandbox.objects.resources import NODES, PODS
from sandbox.objects.store import Change, ChangeType, Store


def pod(name: str, namespace: str = "a", **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **meta},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }


def names(store: Store, namespace: str = "") -> list[str]:
    return [f"{item.namespace}/{item.name}" for item in store.list(PODS, namespace)]


def test_every_write_has_its_own_version() -> None:
    store = Store()
    first = store.create(PODS, pod("x"))
    second = store.update(PODS, first.object(PODS))
    gone = store.delete(PODS, "a", "x")
    assert (first.version, second.version, gone.version) == (1, 2, 3)
    assert gone.object(PODS)["metadata"]["resourceVersion"] == "3"


def test_stored_objects_start_with_api_version_and_kind() -> None:
    stored = Store().create(PODS, pod("x"))
    assert list(stored.object(PODS))[:2] == ["kind", "apiVersion"]
    assert stored.fields[PODS.fields.index("status.phase")] == "Running"


def test_lists_are_ordered_by_namespace_and_name() -> None:
    store = Store()
    for name, namespace in (("b", "x"), ("c", "a"), ("a", "x"), ("a", "x-y"), ("a", "x0")):
        store.create(PODS, pod(name, namespace))
    assert names(store) == ["a/c", "x-y/a", "x/a", "x/b", "x0/a"]
    assert names(store, "x") == ["x/a", "x/b"]


def test_a_name_is_unique_in_its_namespace() -> None:
    store = Store()
    store.create(PODS, pod("x", "a"))
    store.create(PODS, pod("x", "b"))
    with pytest.raises(ApiError) as caught:
        store.create(PODS, pod("x", "b"))
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    ("expected", "code"),
    [pytest.param(1, None, id="its current version"), pytest.param(7, 409, id="another version")],
)
def test_updates_expect_a_version(expected: int, code: int | None) -> None:
    store = Store()
    stored = store.create(PODS, pod("x"))
    if code is None:
        store.update(PODS, stored.object(PODS), expected=expected)
        return
    with pytest.raises(ApiError) as caught:
        store.update(PODS, stored.object(PODS), expected=expected)
    assert caught.value.code == code


def test_a_missing_object_cannot_be_changed() -> None:
    store = Store()
    changes: list[Callable[[], object]] = [
        lambda: store.update(PODS, pod("x")),
        lambda: store.delete(PODS, "a", "x"),
    ]
    for change in changes:
        with pytest.raises(ApiError) as caught:
            change()
        assert caught.value.message == 'pods "x" not found'


def test_an_earlier_list_is_the_current_one_without_later_changes() -> None:
    store = Store()
    store.create(PODS, pod("kept"))
    changed = store.create(PODS, pod("changed", labels={"v": "1"}))
    store.create(PODS, pod("gone"))
    at = store.version
    obj = changed.object(PODS)
    obj["metadata"]["labels"] = {"v": "2"}
    store.update(PODS, obj)
    store.delete(PODS, "a", "gone")
    store.create(PODS, pod("new"))
    store.create(PODS, pod("elsewhere", "b"))
    then = store.list_at(PODS, "a", at)
    assert [(item.name, dict(item.labels)) for item in then] == [
        ("changed", {"v": "1"}),
        ("gone", {}),
        ("kept", {}),
    ]
    assert [item.name for item in store.list_at(PODS, "", at)] == ["changed", "gone", "kept"]


def test_the_history_has_a_bounded_length() -> None:
    store = Store(history=3)
    for index in range(5):
        store.create(PODS, pod(f"p{index}"))
    assert [c.stored.version for c in store.changes_since(PODS, 2)] == [3, 4, 5]
    assert list(store.changes_since(PODS, 9)) == []
    with pytest.raises(ApiError) as caught:
        store.changes_since(PODS, 1)
    assert (caught.value.code, caught.value.message) == (410, "too old resource version: 1 (2)")


def test_compaction_drops_the_history_of_every_resource() -> None:
    store = Store()
    store.create(PODS, pod("x"))
    store.compact()
    assert len(store.list_at(PODS, "", 1)) == 1
    for resource in (PODS, NODES):  # nodes have no changes
        with pytest.raises(ApiError) as caught:
            store.list_at(resource, "", 0)
        assert caught.value.reason == "Expired"


def test_listeners_get_every_change_until_they_unsubscribe() -> None:
    store = Store()
    heard: list[Change] = []
    leave = store.subscribe(PODS, heard.append)
    first = store.create(PODS, pod("x"))
    second = store.update(PODS, first.object(PODS))
    store.delete(PODS, "a", "x")
    store.create(NODES, {"metadata": {"name": "n"}})
    leave()
    store.create(PODS, pod("y"))
    assert [change.type for change in heard] == list(ChangeType)
    assert [change.previous for change in heard] == [None, first, second]


def test_owned_objects_are_found_by_the_uid_of_the_owner() -> None:
    store = Store()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u1"}
    stored = store.create(PODS, pod("x", ownerReferences=[owner]))
    assert store.owned_by("u1") == [("pods", "a", "x")]
    obj = stored.object(PODS)
    obj["metadata"]["ownerReferences"] = [{**owner, "uid": "u2"}]
    store.update(PODS, obj)
    assert (store.owned_by("u1"), store.owned_by("u2")) == ([], [("pods", "a", "x")])
    store.delete(PODS, "a", "x")
    assert store.owned_by("u2") == []
