"""The fields of a pod that the updater caches, and their sharing between replicas."""

import json
from typing import Any

import msgspec
from msgspec import structs

from common.api.core import ContainerState, ContainerStateTerminated, ContainerStatus
from updater.snapshot.live_pod import LivePod, resized_at

TIME = "2026-01-01T00:00:00Z"


def served_pod(name: str, **metadata: Any) -> LivePod:
    """Return the fields of a pod that matter here, as an API server serves them."""
    pod = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "annotations": {"vpaObservedContainers": "app", "team": "blue"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
            "managedFields": [
                {"manager": "kubelet", "subresource": "status", "time": TIME},
                {"manager": "vpa-updater", "subresource": "resize", "time": TIME},
                {"manager": "vpa-updater", "time": TIME},
            ],
            **metadata,
        },
        "spec": {
            "nodeName": f"node-of-{name}",
            "priorityClassName": "high",
            "activeDeadlineSeconds": 60,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": TIME}
                for kind in ("Initialized", "Ready", "PodResizePending", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "app",
                    "ready": True,
                    "restartCount": 3,
                    "state": {"running": {"startedAt": TIME}},
                    "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": TIME}},
                    "resources": {"requests": {"cpu": "1"}},
                    "allocatedResources": {"cpu": "1"},
                }
            ],
        },
    }
    return msgspec.json.decode(json.dumps(pod).encode(), type=LivePod)


def test_replicas_share_equal_values() -> None:
    one, other = served_pod("web-0"), served_pod("web-1")
    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.annotations is other.metadata.annotations
    assert one.metadata.owner_references is other.metadata.owner_references
    assert one.spec is other.spec
    assert one.status.container_statuses is other.status.container_statuses
    assert (one.metadata.name, one.metadata.uid) == ("web-0", "uid-web-0")


def test_the_name_of_the_node_is_kept_beside_the_shared_spec() -> None:
    pod = served_pod("web-0")
    assert (pod.node_name, pod.spec.node_name) == ("node-of-web-0", "")
    again = msgspec.structs.replace(pod, metadata=pod.metadata)
    assert again.node_name == "node-of-web-0"
    assert again.spec is pod.spec


def test_fields_that_the_updater_reads_are_kept() -> None:
    pod = served_pod("web-0")
    assert (pod.spec.priority_class_name, pod.spec.active_deadline_seconds) == ("high", 60)
    assert pod.metadata.annotations == {"vpaObservedContainers": "app"}
    assert [each.type for each in pod.status.conditions or ()] == ["Ready", "PodResizePending"]
    (status,) = pod.status.container_statuses or ()
    assert status.last_state is not None
    assert status.last_state.terminated is not None
    assert status.last_state.terminated.reason == "OOMKilled"
    assert status.resources is not None
    assert status.allocated_resources == {"cpu": "1"}
    assert resized_at(pod) is not None


def test_of_the_current_state_only_an_oom_kill_is_kept() -> None:
    """The state of a restarting container soon becomes its last state."""
    (running,) = served_pod("web-0").status.container_statuses or ()
    assert running.state is None
    for reason, kept in (("OOMKilled", True), ("Error", False)):
        pod = served_pod("web-0")
        ended = ContainerState(terminated=ContainerStateTerminated(reason=reason))
        container = ContainerStatus(name="app", state=ended)
        given = structs.replace(pod.status, container_statuses=(container,))
        (found,) = structs.replace(pod, status=given).status.container_statuses or ()
        assert (found.state == ended) is kept


def test_without_own_annotations_the_map_is_empty_and_not_absent() -> None:
    assert served_pod("web-0", annotations={"team": "blue"}).metadata.annotations == {}
    assert served_pod("web-0", annotations=None).metadata.annotations is None


def test_resizes_of_other_clients_do_not_count() -> None:
    fields = [{"manager": "kubectl-edit", "subresource": "resize", "time": TIME}]
    assert resized_at(served_pod("web-0", managedFields=fields)) is None
