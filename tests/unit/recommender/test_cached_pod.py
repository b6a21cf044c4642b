"""The fields of a pod that the recommender caches, and their sharing between replicas."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from common.api.core import Pod
from common.quantity import Quantity
from common.scheduling.pod_claims import claims_of
from recommender.sources.cached_pod import CachedPod
from recommender.sources.conversion import pod_facts
from recommender.sources.oom_kills import kills_between, kills_in

TIME = "2026-01-01T00:00:00Z"
RUNNING = {"running": {"startedAt": TIME}}
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": TIME}}


def served_pod(name: str, **status: Any) -> bytes:
    """Return the fields of a pod that matter here, as an API server serves them."""
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


def cached(name: str, **status: Any) -> CachedPod:
    return msgspec.json.decode(served_pod(name, **status), type=CachedPod)


def complete(name: str, **status: Any) -> Pod:
    return msgspec.json.decode(served_pod(name, **status), type=Pod)


def test_replicas_share_equal_values() -> None:
    one, other = cached("web-0"), cached("web-1")
    assert one.metadata.labels is other.metadata.labels
    assert one.spec is other.spec
    assert one.status.container_statuses is other.status.container_statuses


def test_unused_fields_are_dropped() -> None:
    pod = cached("web-0")
    assert pod.metadata.annotations is None
    assert pod.metadata.owner_references is None
    assert pod.spec.init_containers is None
    assert pod.status.conditions is None


def test_a_cached_pod_gives_the_same_pod_facts() -> None:
    assert pod_facts(cached("web-0")) == pod_facts(complete("web-0"))


def test_a_cached_pod_gives_the_same_oom_kills() -> None:
    was = {"resources": {"requests": {"memory": "2Gi"}}}
    again = {"restartCount": 4, "lastState": KILLED}
    between = kills_between(cached("web-0", **was), cached("web-0", **again))
    (kill,) = between
    assert between == kills_between(complete("web-0", **was), complete("web-0", **again))
    assert (kill.memory, kill.at) == (
        Quantity.parse("2Gi").value,
        datetime(2026, 1, 1, tzinfo=UTC),
    )
    dead = {"restartCount": 4, "state": KILLED}
    assert kills_in(cached("web-0", **dead), initial=False) == kills_in(
        complete("web-0", **dead), initial=False
    )
    assert len(kills_between(cached("web-0"), cached("web-0", **dead))) == 1


def scheduled(**spec: Any) -> CachedPod:
    containers = [{"name": "app", "resources": {"requests": {"memory": "1Gi"}}}]
    pod = {
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
        "spec": {"containers": containers, **spec},
    }
    return msgspec.json.decode(json.dumps(pod).encode(), type=CachedPod)


def test_replicas_share_scheduling_rules_and_whole_specs() -> None:
    spec: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}, "overhead": {"cpu": "1"}}
    one, other = scheduled(**spec, nodeName="n1"), scheduled(**spec, nodeName="n2")
    assert one.rules is other.rules
    assert one.whole_spec is other.whole_spec
    assert one.rules.node_selector == (("disk", "ssd"),)


def test_a_pod_of_regular_containers_has_one_spec() -> None:
    pod = scheduled(nodeName="n1", tolerations=[{"operator": "Exists"}])
    assert pod.whole_spec is pod.spec


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {"initContainers": [{"name": "first", "resources": {"requests": {"cpu": "3"}}}]},
            id="a plain init container",
        ),
        pytest.param(
            {
                "initContainers": [
                    {
                        "name": "proxy",
                        "restartPolicy": "Always",
                        "resources": {"requests": {"cpu": "3"}},
                    }
                ]
            },
            id="a native sidecar that isn't scaled",
        ),
        pytest.param({"overhead": {"cpu": "3"}}, id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, id="pod-level resources"),
    ],
)
def test_the_shape_has_all_that_the_scheduler_counts(spec: dict[str, Any]) -> None:
    assert claims_of(scheduled(**spec).shape.spec).needed({}).cpu == 3000


def test_replicas_share_the_facts_that_decide_on_quotas() -> None:
    spec: dict[str, Any] = {"priorityClassName": "high", "activeDeadlineSeconds": 60}
    one, other = scheduled(**spec, nodeName="n1"), scheduled(**spec, nodeName="n2")
    assert one.spec is other.spec
    assert (one.spec.priority_class_name, one.spec.active_deadline_seconds) == ("high", 60)
