"""The wanted and existing numbers of pods of workloads (X89)."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from common.api.meta import OwnedMeta
from common.api.workloads import (
    Condition,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    JobStatus,
    ReplicationController,
    StatefulSet,
    Workload,
)
from common.target.owners import Controller
from updater.snapshot.workload_size import (
    UNKNOWN,
    GroupSize,
    group_size,
    has_wanted_count,
    replicas_of,
    wanted_by_job,
    workload_of,
)

KINDS: dict[str, Any] = {
    "CronJob": CronJob,
    "DaemonSet": DaemonSet,
    "Deployment": Deployment,
    "Job": Job,
    "ReplicaSet": Workload,
    "ReplicationController": ReplicationController,
    "StatefulSet": StatefulSet,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A Job with 10 completions and parallelism 3."""

    id: str
    want: int
    parallelism: int | None = 3
    completions: int | None = 10
    suspend: bool = False
    succeeded: int = 0
    conditions: tuple[tuple[str, str], ...] = ()


CASES = [
    Case(id="three at a time", want=3),
    Case(id="one, without parallelism and completions", parallelism=None, completions=None, want=1),
    Case(id="two are left", succeeded=8, want=2),
    Case(id="none is left", succeeded=10, want=0),
    Case(id="more successes than completions", succeeded=11, want=0),
    Case(id="no completions: parallelism until the first success", completions=None, want=3),
    Case(id="no completions: none after the first success", completions=None, succeeded=1, want=0),
    Case(id="suspended", suspend=True, want=0),
    Case(id="paused by its parallelism", parallelism=0, want=0),
    Case(id="complete", conditions=(("Complete", "True"),), want=0),
    Case(id="failed", conditions=(("Failed", "True"),), want=0),
    Case(id="about to fail", conditions=(("FailureTarget", "True"),), want=0),
    Case(id="resumed", conditions=(("Suspended", "False"), ("Failed", "False")), want=3),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_wanted_by_job(case: Case) -> None:
    job = Job(
        metadata=OwnedMeta(name="once", namespace="default"),
        spec=JobSpec(
            parallelism=case.parallelism, completions=case.completions, suspend=case.suspend
        ),
        status=JobStatus(
            succeeded=case.succeeded,
            conditions=tuple(Condition(type=kind, status=word) for kind, word in case.conditions),
        ),
    )
    assert wanted_by_job(job) == case.want


@pytest.mark.parametrize(
    ("kind", "want"),
    [("ReplicaSet", True), ("DaemonSet", True), ("Job", True), ("Rollout", False)],
)
def test_kinds_with_a_desired_number(kind: str, *, want: bool) -> None:
    assert has_wanted_count(Controller("default", kind, "web")) is want


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A controller, and its sizes as the direct controller of pods and as a workload."""

    id: str
    kind: str
    replicas: int | None
    size: GroupSize
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    deleted: bool = False
    missing: bool = False


NODES = {"numberReady": 4, "desiredNumberScheduled": 6, "currentNumberScheduled": 5}

SIZES = [
    Sized(
        id="ReplicaSet: replicas of spec and status",
        kind="ReplicaSet",
        spec={"replicas": 3},
        status={"replicas": 2},
        replicas=3,
        size=GroupSize(3, 2),
    ),
    Sized(
        id="StatefulSet",
        kind="StatefulSet",
        spec={"replicas": 3},
        status={"replicas": 2},
        replicas=3,
        size=GroupSize(3, 2),
    ),
    Sized(
        id="ReplicationController",
        kind="ReplicationController",
        spec={"replicas": 3},
        status={"replicas": 4},
        replicas=3,
        size=GroupSize(3, 4),
    ),
    Sized(
        id="Deployment: no direct controller",
        kind="Deployment",
        spec={"replicas": 3},
        status={"replicas": 2},
        replicas=None,
        size=GroupSize(3, 2),
    ),
    Sized(
        id="DaemonSet: the ready pods, and the nodes with and without a pod",
        kind="DaemonSet",
        status=NODES,
        replicas=4,
        size=GroupSize(6, 5),
    ),
    Sized(
        id="Job: its active pods",
        kind="Job",
        spec={"parallelism": 3, "completions": 10},
        status={"active": 2, "succeeded": 1},
        replicas=None,
        size=GroupSize(3, 2),
    ),
    Sized(id="no replicas in the spec", kind="ReplicaSet", replicas=None, size=GroupSize()),
    Sized(id="CronJob: has no pods", kind="CronJob", replicas=None, size=UNKNOWN),
    Sized(id="custom kind", kind="Rollout", replicas=None, size=UNKNOWN, missing=True),
    Sized(id="not found", kind="ReplicaSet", replicas=None, size=UNKNOWN, missing=True),
    Sized(
        id="X89 a ReplicaSet that is being deleted wants no pods",
        kind="ReplicaSet",
        spec={"replicas": 3},
        status={"replicas": 3},
        deleted=True,
        replicas=0,
        size=GroupSize(wanted=0),
    ),
    Sized(
        id="X89 a DaemonSet that is being deleted wants no pods",
        kind="DaemonSet",
        status=NODES,
        deleted=True,
        replicas=0,
        size=GroupSize(wanted=0),
    ),
    Sized(
        id="X89 a Job that is being deleted wants no pods",
        kind="Job",
        spec={"parallelism": 3},
        deleted=True,
        replicas=None,
        size=GroupSize(wanted=0),
    ),
]


@pytest.mark.parametrize("case", SIZES, ids=lambda case: case.id)
def test_sizes(case: Sized) -> None:
    controller = Controller("default", case.kind, "web", "apps/v1")
    objects = {}
    if not case.missing:
        metadata: dict[str, Any] = {"name": "web", "namespace": "default"}
        if case.deleted:
            metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        document = {"metadata": metadata, "spec": case.spec, "status": case.status}
        objects[controller] = msgspec.convert(document, KINDS[case.kind])
    assert replicas_of(controller, objects.get) == case.replicas
    assert group_size(controller, objects.get) == case.size


WEB = Controller("default", "Deployment", "web", "apps/v1")
ROLLOUT = Controller("default", "Rollout", "web", "example.com/v1")
SET = Controller("default", "ReplicaSet", "web-1", "apps/v1")


@pytest.mark.parametrize(
    ("owner", "exists", "want"),
    [
        pytest.param(WEB, True, WEB, id="the Deployment above the ReplicaSet"),
        pytest.param(WEB, False, SET, id="the ReplicaSet, if its Deployment is gone"),
        pytest.param(ROLLOUT, True, SET, id="the ReplicaSet of a custom kind"),
        pytest.param(None, True, SET, id="a ReplicaSet without an owner"),
    ],
)
def test_workload_of_a_replica_set(
    owner: Controller | None, *, exists: bool, want: Controller
) -> None:
    metadata: dict[str, Any] = {"name": SET.name, "namespace": SET.namespace}
    if owner is not None:
        reference = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "controller": True,
        }
        metadata["ownerReferences"] = [reference]
    objects: dict[Controller, object] = {SET: msgspec.convert({"metadata": metadata}, Workload)}
    if owner is not None and exists:
        objects[owner] = Deployment(metadata=OwnedMeta(name="web", namespace="default"))
    assert workload_of(SET, objects.get) == want


def test_other_controllers_are_their_own_workload() -> None:
    nothing: dict[Controller, object] = {}
    batch = Controller("default", "Job", "batch", "batch/v1")
    assert workload_of(batch, nothing.get) == batch
    assert workload_of(SET, nothing.get) == SET, "a ReplicaSet that isn't found"
