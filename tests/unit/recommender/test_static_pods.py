"""The room that static pods take on each node."""

from typing import Any

import msgspec
import pytest

from common.kube.cache import Change
from common.scheduling.room import Room
from recommender.sources.cached_pod import CachedPod
from recommender.sources.static_pods import StaticPods


def pod(
    name: str = "kube-proxy-n1", *, owner: str = "Node", node: str = "n1", cpu: str = "100m"
) -> CachedPod:
    given: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "ownerReferences": [{"apiVersion": "v1", "kind": owner, "name": node, "uid": "u"}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    return msgspec.convert(given, CachedPod)


PODS = [
    ("a static pod", [pod()], {"n1": Room(100, 0, 1)}),
    ("two on a node", [pod(), pod("etcd-n1", cpu="50m")], {"n1": Room(150, 0, 2)}),
    (
        "two nodes",
        [pod(), pod("kube-proxy-n2", node="n2")],
        {"n1": Room(100, 0, 1), "n2": Room(100, 0, 1)},
    ),
    ("a pod of a DaemonSet", [pod(owner="DaemonSet")], {}),
    ("a request that can't be read", [pod(cpu="many")], {"n1": Room()}),
]


@pytest.mark.parametrize(("pods", "want"), [pytest.param(*case, id=name) for name, *case in PODS])
def test_static_pods(pods: list[CachedPod], want: dict[str, Room]) -> None:
    found = StaticPods()
    for each in pods:
        found.on_pod(Change(None, each))
    assert found.taken == want
    for each in pods:
        found.on_pod(Change(each, None))
    assert found.taken == {}


def test_the_room_is_the_same_object_until_it_changes() -> None:
    found = StaticPods()
    found.on_pod(Change(None, pod()))
    before = found.taken
    found.on_pod(Change(pod(), pod()))
    found.on_pod(Change(None, pod("web", owner="ReplicaSet")))
    assert found.taken is before
    found.on_pod(Change(pod(), pod(cpu="200m")))
    assert (before, found.taken) == ({"n1": Room(100, 0, 1)}, {"n1": Room(200, 0, 1)})
    found.on_pod(Change(pod(cpu="200m"), pod(node="n2")))
    assert found.taken == {"n2": Room(100, 0, 1)}
