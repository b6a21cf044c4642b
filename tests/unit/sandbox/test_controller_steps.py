"""Next steps of StatefulSets, DaemonSets and Jobs, and the order in which pods are deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.api.core import PodCondition, PodStatus
from common.api.meta import ObjectMeta
from sandbox.controllers.actor import status_changes
from sandbox.controllers.daemon_sets import daemon_steps
from sandbox.controllers.pods import OwnedPod, OwnedPodSpec, template_hash, to_delete
from sandbox.controllers.replica_sets import replica_set_status
from sandbox.controllers.stateful_sets import next_steps, ordinal_pod

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OWNER: dict[str, Any] = {
    "metadata": {"name": "db", "namespace": "shop", "uid": "u", "generation": 3},
    "spec": {
        "replicas": 3,
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "app"}]},
        },
    },
}


def pod(
    name: str,
    *,
    ready: bool = True,
    revision: str = "new",
    phase: str = "Running",
    node: str = "n",
    leaving: bool = False,
    age: int = 60,
) -> OwnedPod:
    return OwnedPod(
        metadata=ObjectMeta(
            name=name,
            namespace="shop",
            uid=f"uid-{name}",
            labels={"app": "db", "controller-revision-hash": revision},
            creation_timestamp=NOW - timedelta(seconds=age),
            deletion_timestamp=NOW if leaving else None,
        ),
        spec=OwnedPodSpec(node_name=node),
        status=PodStatus(
            phase=phase,
            conditions=(
                PodCondition(
                    type="Ready",
                    status="True" if ready else "False",
                    last_transition_time=NOW - timedelta(seconds=10),
                ),
            ),
        ),
    )


STATEFUL = [
    ("no pods: the first is created", [], {}, ((0,), [])),
    ("the first isn't ready: nothing", [pod("db-0", ready=False)], {}, ((), [])),
    ("the first is ready: the second is created", [pod("db-0")], {}, ((1,), [])),
    ("a gap is filled", [pod("db-0"), pod("db-2")], {}, ((1,), [])),
    ("a pod is terminating: nothing", [pod("db-0", leaving=True)], {}, ((), [])),
    ("Parallel: all are created", [], {"podManagementPolicy": "Parallel"}, ((0, 1, 2), [])),
    (
        "a failed pod is deleted",
        [pod("db-0", phase="Failed")],
        {},
        ((), ["db-0"]),
    ),
    (
        "one too many: the last is deleted",
        [pod("db-0"), pod("db-1")],
        {"replicas": 1},
        ((), ["db-1"]),
    ),
    (
        "two too many: one at a time",
        [pod("db-0"), pod("db-1"), pod("db-2")],
        {"replicas": 1},
        ((), ["db-2"]),
    ),
    (
        "an old template: the last is deleted first",
        [pod(f"db-{i}", revision="old") for i in range(3)],
        {},
        ((), ["db-2"]),
    ),
    (
        "an old template: nothing while another pod is not ready",
        [pod("db-0", revision="old"), pod("db-1", revision="old"), pod("db-2", ready=False)],
        {},
        ((), []),
    ),
]


@pytest.mark.parametrize(
    ("name", "pods", "spec", "want"), STATEFUL, ids=[case[0] for case in STATEFUL]
)
def test_stateful_sets(name: str, pods: list[OwnedPod], spec: Any, want: Any) -> None:
    owner = {**OWNER, "spec": {**OWNER["spec"], **spec}}
    steps = next_steps(owner, pods, "new")
    assert (steps.create, [one.metadata.name for one in steps.delete]) == want


def test_a_pod_of_a_stateful_set_keeps_its_name() -> None:
    made = ordinal_pod(OWNER, 1, "new")
    assert made["metadata"]["name"] == made["spec"]["hostname"] == "db-1"
    assert made["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"


DAEMONS = [
    ("a pod for every node", [], {}, (("a", "b"), [])),
    ("one node has a pod", [pod("x", node="a")], {}, (("b",), [])),
    (
        "a pod on a removed node",
        [pod("x", node="a"), pod("y", node="b"), pod("z", node="c")],
        {},
        ((), ["z"]),
    ),
    (
        "two on one node: the younger is deleted",
        [pod("x", node="a"), pod("y", node="a", age=5), pod("z", node="b")],
        {},
        ((), ["y"]),
    ),
    (
        "an old template: one at a time",
        [pod("x", node="a", revision="old"), pod("y", node="b", revision="old")],
        {},
        ((), ["x"]),
    ),
    (
        "an old template: nothing while the other is not ready",
        [pod("x", node="a", revision="old"), pod("y", node="b", ready=False)],
        {},
        ((), []),
    ),
    (
        "an old template: a pod that is not ready is deleted",
        [pod("x", node="a", revision="old", ready=False), pod("y", node="b", ready=False)],
        {},
        ((), ["x"]),
    ),
    (
        "an old template: two may be unavailable",
        [pod("x", node="a", revision="old"), pod("y", node="b", revision="old")],
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}},
        ((), ["x", "y"]),
    ),
    (
        "a failed daemon pod is deleted",
        [pod("x", node="a", phase="Failed"), pod("y", node="b")],
        {},
        ((), ["x"]),
    ),
]


@pytest.mark.parametrize(
    ("name", "pods", "spec", "want"), DAEMONS, ids=[case[0] for case in DAEMONS]
)
def test_daemon_sets(name: str, pods: list[OwnedPod], spec: Any, want: Any) -> None:
    owner = {**OWNER, "spec": {**OWNER["spec"], **spec}}
    steps = daemon_steps(owner, ["a", "b"], pods, "new")
    assert (steps.create_on, [one.metadata.name for one in steps.delete]) == want


def test_a_pending_daemon_pod_belongs_to_the_node_of_its_affinity() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    waiting = OwnedPod(
        metadata=pod("x").metadata,
        spec=OwnedPodSpec(affinity=affinity),
        status=PodStatus(phase="Pending"),
    )
    assert daemon_steps(OWNER, ["a", "b"], [waiting], "new").create_on == ("b",)


def test_the_order_of_deletion() -> None:
    pods = [
        pod("old"),
        pod("young", age=5),
        pod("unready", ready=False),
        pod("pending", ready=False, phase="Pending"),
        pod("unscheduled", ready=False, phase="Pending", node=""),
    ]
    order = ["unscheduled", "pending", "unready", "young", "old"]
    assert [one.metadata.name for one in to_delete(pods, 5)] == order


def test_a_failure_keeps_its_first_message() -> None:
    failed = replica_set_status(OWNER, [], NOW, failure="one")
    again = replica_set_status({**OWNER, "status": failed}, [], NOW, failure="two")
    assert again["conditions"] == failed["conditions"]
    assert replica_set_status({**OWNER, "status": failed}, [], NOW)["conditions"] == []


def test_status_changes_exclude_zeros_and_remove_fields_that_became_zero() -> None:
    old = {"replicas": 2, "readyReplicas": 1, "other": "kept"}
    assert status_changes(old, {"replicas": 2, "readyReplicas": 0}) == {"readyReplicas": None}
    assert status_changes(old, {"replicas": 3, "availableReplicas": 0}) == {"replicas": 3}
    assert status_changes(old, {"replicas": 2, "readyReplicas": 1}) == {}


def test_template_hashes_do_not_depend_on_the_order_of_keys() -> None:
    assert template_hash({"a": 1, "b": {"c": 2, "d": 3}}) == template_hash(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    assert template_hash({"a": 1}) != template_hash({"a": 2})
