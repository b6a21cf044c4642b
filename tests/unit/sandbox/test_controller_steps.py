"""What StatefulSets, DaemonSets and Jobs do next, and which pods are missed least."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.api.core import PodCondition, PodStatus
from common.api.meta import ObjectMeta
from sandbox.controllers.actor import status_changes
from sandbox.controllers.daemon_sets import daemon_steps
from sandbox.controllers.pods import OwnedPod, OwnedPodSpec, template_hash, to_delete
from sandbox.controllers.replica_sets import replica_set_status, seconds_to_available
from sandbox.controllers.stateful_sets import Steps, next_steps, ordinal_pod

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


def names(steps: Steps) -> tuple[tuple[int, ...], list[str]]:
    return steps.create, [one.metadata.name for one in steps.delete]


STATEFUL = [
    ("nothing there: the first", [], {}, ((0,), [])),
    ("the first isn't ready: wait", [pod("db-0", ready=False)], {}, ((), [])),
    ("the first is ready: the second", [pod("db-0")], {}, ((1,), [])),
    ("a gap is filled", [pod("db-0"), pod("db-2")], {}, ((1,), [])),
    ("one is leaving: wait", [pod("db-0", leaving=True)], {}, ((), [])),
    ("all at once", [], {"podManagementPolicy": "Parallel"}, ((0, 1, 2), [])),
    (
        "a finished one is made anew",
        [pod("db-0", phase="Failed")],
        {},
        ((), ["db-0"]),
    ),
    (
        "one too many: the last goes",
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
        "an old template: the last first",
        [pod(f"db-{i}", revision="old") for i in range(3)],
        {},
        ((), ["db-2"]),
    ),
    (
        "an old template: not while another is missing",
        [pod("db-0", revision="old"), pod("db-1", revision="old"), pod("db-2", ready=False)],
        {},
        ((), []),
    ),
    (
        "an old template below the partition stays",
        [pod("db-0", revision="old"), pod("db-1", revision="old"), pod("db-2")],
        {"updateStrategy": {"rollingUpdate": {"partition": 2}}},
        ((), []),
    ),
    (
        "an old template with OnDelete stays",
        [pod(f"db-{i}", revision="old") for i in range(3)],
        {"updateStrategy": {"type": "OnDelete"}},
        ((), []),
    ),
]


@pytest.mark.parametrize(
    ("name", "pods", "spec", "want"), STATEFUL, ids=[case[0] for case in STATEFUL]
)
def test_stateful_sets(name: str, pods: list[OwnedPod], spec: Any, want: Any) -> None:
    owner = {**OWNER, "spec": {**OWNER["spec"], **spec}}
    assert names(next_steps(owner, pods, "new", NOW)) == want


def test_a_pod_of_a_stateful_set_keeps_its_name() -> None:
    made = ordinal_pod(OWNER, 1, "new")
    assert made["metadata"]["name"] == made["spec"]["hostname"] == "db-1"
    assert made["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"


DAEMONS = [
    ("a pod for every node", [], {}, (("a", "b"), [])),
    ("one node is served", [pod("x", node="a")], {}, (("b",), [])),
    (
        "a node that left",
        [pod("x", node="a"), pod("y", node="b"), pod("z", node="c")],
        {},
        ((), ["z"]),
    ),
    (
        "two on one node: the younger goes",
        [pod("x", node="a"), pod("y", node="a", age=5), pod("z", node="b")],
        {},
        ((), ["y"]),
    ),
    (
        "old template: one at a time",
        [pod("x", node="a", revision="old"), pod("y", node="b", revision="old")],
        {},
        ((), ["x"]),
    ),
    (
        "old template: not while the other is away",
        [pod("x", node="a", revision="old"), pod("y", node="b", ready=False)],
        {},
        ((), []),
    ),
    (
        "old template: a broken pod goes at once",
        [pod("x", node="a", revision="old", ready=False), pod("y", node="b", ready=False)],
        {},
        ((), ["x"]),
    ),
    (
        "old template: two may be missing",
        [pod("x", node="a", revision="old"), pod("y", node="b", revision="old")],
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}},
        ((), ["x", "y"]),
    ),
    (
        "old template with OnDelete",
        [pod("x", node="a", revision="old"), pod("y", node="b", revision="old")],
        {"updateStrategy": {"type": "OnDelete"}},
        ((), []),
    ),
    (
        "a finished one is replaced",
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
    steps = daemon_steps(owner, ["a", "b"], pods, "new", NOW)
    assert (steps.create_on, [one.metadata.name for one in steps.delete]) == want


def test_a_waiting_daemon_pod_belongs_to_the_node_that_it_names() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    waiting = OwnedPod(
        metadata=pod("x").metadata,
        spec=OwnedPodSpec(affinity=affinity),
        status=PodStatus(phase="Pending"),
    )
    assert daemon_steps(OWNER, ["a", "b"], [waiting], "new", NOW).create_on == ("b",)


def test_pods_that_are_missed_least() -> None:
    pods = [
        pod("old"),
        pod("young", age=5),
        pod("unready", ready=False),
        pod("pending", ready=False, phase="Pending"),
        pod("unscheduled", ready=False, phase="Pending", node=""),
    ]
    order = ["unscheduled", "pending", "unready", "young", "old"]
    assert [one.metadata.name for one in to_delete(pods, 5)] == order


def test_availability_takes_its_time() -> None:
    ready = pod("x")
    owner = {**OWNER, "spec": {**OWNER["spec"], "minReadySeconds": 11}}
    assert replica_set_status(owner, [ready], NOW)["availableReplicas"] == 0
    assert seconds_to_available([ready], 11, NOW) == 1
    owner = {**OWNER, "spec": {**OWNER["spec"], "minReadySeconds": 10}}
    assert replica_set_status(owner, [ready], NOW)["availableReplicas"] == 1
    assert seconds_to_available([ready], 10, NOW) is None


def test_a_failure_keeps_its_first_text() -> None:
    failed = replica_set_status(OWNER, [], NOW, failure="one")
    again = replica_set_status({**OWNER, "status": failed}, [], NOW, failure="two")
    assert again["conditions"] == failed["conditions"]
    assert replica_set_status({**OWNER, "status": failed}, [], NOW)["conditions"] == []


def test_status_changes_leave_out_zeros_and_remove_what_became_zero() -> None:
    old = {"replicas": 2, "readyReplicas": 1, "other": "kept"}
    assert status_changes(old, {"replicas": 2, "readyReplicas": 0}) == {"readyReplicas": None}
    assert status_changes(old, {"replicas": 3, "availableReplicas": 0}) == {"replicas": 3}
    assert status_changes(old, {"replicas": 2, "readyReplicas": 1}) == {}


def test_template_hashes_do_not_depend_on_the_order_of_keys() -> None:
    assert template_hash({"a": 1, "b": {"c": 2, "d": 3}}) == template_hash(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    assert template_hash({"a": 1}) != template_hash({"a": 2})
