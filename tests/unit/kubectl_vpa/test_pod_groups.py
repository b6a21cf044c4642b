"""Groups of equal pods, their topmost owners, and VPAs that shadow others."""

from datetime import timedelta

from msgspec.structs import replace

import builders
from common.api.core import Pod, PodCondition
from common.api.meta import OwnedMeta, OwnedObject, Owner
from kubectl_vpa.judge.competitors import controlled_by_others
from kubectl_vpa.judge.pod_groups import Owners, PodGroups


def pod(name: str, *, cpu: str = "100m", owner: tuple[str, str] = ("ReplicaSet", "web-1")) -> Pod:
    container = builders.container(requests={"cpu": cpu})
    return builders.pod(name, containers=(container,), owner=owner)


def grouped(*pods: Pod) -> PodGroups:
    groups = PodGroups()
    groups.add(pods)
    return groups


def counts(groups: PodGroups) -> list[int]:
    return sorted(group.count for group in groups.groups.values())


def test_replicas_are_one_group() -> None:
    assert counts(grouped(pod("a"), pod("b"), pod("c"))) == [3]


def test_other_requests_another_controller_and_a_resize_are_other_groups() -> None:
    deferred = PodCondition(type="PodResizePending", status="True", reason="Deferred")
    resizing = pod("d")
    resizing = replace(resizing, status=replace(resizing.status, conditions=(deferred,)))
    groups = grouped(pod("a"), pod("b", cpu="1"), pod("c", owner=("ReplicaSet", "web-2")), resizing)
    assert counts(groups) == [1, 1, 1, 1]


def test_pods_that_have_ended_or_are_being_deleted_do_not_count() -> None:
    ended = pod("a")
    ended = replace(ended, status=replace(ended.status, phase="Succeeded"))
    deleted = pod("b")
    meta = replace(deleted.metadata, deletion_timestamp=builders.CREATED)
    assert counts(grouped(ended, replace(deleted, metadata=meta), pod("c"))) == [1]


def test_running_pods_and_the_oldest_start_are_kept() -> None:
    pending = pod("a")
    pending = replace(pending, status=replace(pending.status, phase="Pending", start_time=None))
    late = pod("b")
    after = builders.CREATED + timedelta(hours=1)
    late = replace(late, status=replace(late.status, start_time=after))
    (group,) = grouped(pending, late, pod("c")).groups.values()
    assert (group.count, group.live, group.oldest_start) == (3, 2, builders.CREATED)


def test_pods_without_a_controller_are_listed() -> None:
    groups = grouped(builders.pod("by-hand", owner=None))
    assert (groups.without_controller, counts(groups)) == ([("default", "by-hand")], [])


def test_pods_without_a_controller_can_be_groups_of_their_own() -> None:
    groups = PodGroups(keeps_bare=True)
    groups.add([builders.pod("one", owner=None), builders.pod("two", owner=None), pod("a")])
    keys = {group.controller.key for group in groups.groups.values()}
    assert {("default", "Pod", "one"), ("default", "Pod", "two")} < keys
    assert counts(groups) == [1, 1, 1]


def owned(name: str, kind: str, owner: str) -> OwnedObject:
    reference = Owner(api_version="apps/v1", kind=kind, name=owner, controller=True)
    meta = OwnedMeta(name=name, namespace="default", owner_references=(reference,))
    return OwnedObject(metadata=meta)


def test_groups_are_found_by_the_topmost_owner() -> None:
    owners = Owners()
    owners.add("ReplicaSet", [owned("web-1", "Deployment", "web")])
    owners.add("Deployment", [owned("web", "App", "shop")])
    found = grouped(pod("a"), pod("b", owner=("StatefulSet", "db"))).by_target(owners)
    assert set(found) == {("default", "App", "shop"), ("default", "StatefulSet", "db")}


def test_a_cycle_of_owners_ends() -> None:
    owners = Owners()
    owners.add("A", [owned("a", "B", "b")])
    owners.add("B", [owned("b", "A", "a")])
    assert owners.topmost(("default", "A", "a")) == ("default", "B", "b")


def test_the_oldest_vpa_controls_the_pods_of_a_target() -> None:
    older = builders.vpa("z-older")
    newer = builders.vpa("a-newer", created=builders.CREATED + timedelta(seconds=1))
    off = builders.vpa("off", mode="Off", created=builders.CREATED - timedelta(days=1))
    other = builders.vpa("other", target=("Deployment", "other"))
    found = controlled_by_others([newer, off, older, other])
    assert found == {("default", "a-newer"): "z-older"}
