"""What the recommender keeps of a pod, and that replicas share it."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from common.api.core import Pod
from common.quantity import Quantity
from recommender.sources.cached_pod import CachedPod
from recommender.sources.conversion import pod_facts
from recommender.sources.oom_kills import kills_between, kills_in

TIME = "2026-01-01T00:00:00Z"
RUNNING = {"running": {"startedAt": TIME}}
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": TIME}}


def served(name: str, **status: Any) -> bytes:
    """A pod as an API server serves it, as far as it matters here."""
    pod = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"app": "web"},
            "annotations": {"team": "blue"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
        },
        "spec": {
            "nodeName": f"node-of-{name}",
            "containers": [{"name": "app", "resources": {"requests": {"memory": "1Gi"}}}],
            "initContainers": [{"name": "first"}],
        },
        "status": {
            "phase": "Running",
            "startTime": TIME,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
            "containerStatuses": [
                {"name": "app", "restartCount": 3, "state": RUNNING, "ready": True, **status}
            ],
        },
    }
    return json.dumps(pod).encode()


def kept(name: str, **status: Any) -> CachedPod:
    return msgspec.json.decode(served(name, **status), type=CachedPod)


def whole(name: str, **status: Any) -> Pod:
    return msgspec.json.decode(served(name, **status), type=Pod)


def test_replicas_share_what_is_equal_in_them() -> None:
    one, other = kept("web-0"), kept("web-1")
    assert one.metadata.labels is other.metadata.labels
    assert one.spec is other.spec
    assert one.status.container_statuses is other.status.container_statuses


def test_what_is_not_read_is_dropped() -> None:
    pod = kept("web-0")
    assert pod.metadata.annotations is None
    assert pod.metadata.owner_references is None
    assert pod.spec.init_containers is None
    assert pod.status.conditions is None


def test_what_counts_for_usage_is_that_of_the_whole_pod() -> None:
    assert pod_facts(kept("web-0")) == pod_facts(whole("web-0"))


def test_kills_are_those_of_the_whole_pod() -> None:
    was = {"resources": {"requests": {"memory": "2Gi"}}}
    again = {"restartCount": 4, "lastState": KILLED}
    between = kills_between(kept("web-0", **was), kept("web-0", **again))
    (kill,) = between
    assert between == kills_between(whole("web-0", **was), whole("web-0", **again))
    assert (kill.memory, kill.at) == (
        Quantity.parse("2Gi").value,
        datetime(2026, 1, 1, tzinfo=UTC),
    )
    dead = {"restartCount": 4, "state": KILLED}
    assert kills_in(kept("web-0", **dead), initial=False) == kills_in(
        whole("web-0", **dead), initial=False
    )
    assert len(kills_between(kept("web-0"), kept("web-0", **dead))) == 1
