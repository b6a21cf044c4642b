"""Workloads in a rollout, and the number of pods that stay available (X105)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from common.api.core import Pod
from common.api.workloads import DaemonSet, Deployment, ReplicationController, StatefulSet
from updater.snapshot.rollout import Rollout, rollout_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A complete workload of eight replicas, with differences in spec and status."""

    id: str
    want: Rollout | None
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    generation: int = 3


COMPLETE = {
    "observedGeneration": 3,
    "replicas": 8,
    "updatedReplicas": 8,
    "availableReplicas": 8,
    "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
}
UPDATED = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
PAUSED = {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}
STUCK = {"replicas": 10, "updatedReplicas": 4, "availableReplicas": 6, "conditions": [LATE]}


def rolling_update(**bounds: int | str) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}


def rollout_with(unavailable: int, **more: Any) -> Rollout:
    return Rollout(replicas=8, max_unavailable=unavailable, **more)


DEPLOYMENTS = [
    Case(id="complete", want=None),
    Case(id="the controller has not observed the new template", generation=4, want=rollout_with(2)),
    Case(
        id="no pod of the new ReplicaSet yet",
        status={"updatedReplicas": 0, "conditions": [UPDATED]},
        want=rollout_with(2),
    ),
    Case(id="stuck at 6 old and 4 new pods", status=STUCK, want=rollout_with(2)),
    Case(
        id="all pods are new, one is not available",
        status={"availableReplicas": 7, "conditions": [UPDATED]},
        want=rollout_with(2),
    ),
    Case(
        id="a pod that is lost later",
        status={"replicas": 7, "updatedReplicas": 7, "availableReplicas": 7},
        want=None,
    ),
    Case(id="scaled up later", spec={"replicas": 12}, want=None),
    Case(id="no progress deadline, complete", status={"conditions": None}, want=None),
    Case(
        id="no progress deadline, all pods are new, one is not available: complete",
        status={"conditions": None, "availableReplicas": 7},
        want=None,
    ),
    Case(
        id="no progress deadline, a new pod is missing",
        status={"conditions": None, "replicas": 7, "updatedReplicas": 7, "availableReplicas": 7},
        want=rollout_with(2),
    ),
    Case(
        id="no progress deadline, an old pod is left",
        status={"conditions": None, "replicas": 9},
        want=rollout_with(2),
    ),
    Case(id="paused when complete", status={"conditions": [PAUSED]}, want=None),
    Case(
        id="paused when complete, one pod is not available",
        status={"conditions": [PAUSED], "availableReplicas": 7},
        want=None,
    ),
    Case(
        id="paused when complete, with another template",
        status={"conditions": [PAUSED], "updatedReplicas": 0},
        want=rollout_with(2),
    ),
    Case(
        id="paused during the rollout",
        status={**STUCK, "conditions": [PAUSED]},
        want=rollout_with(2),
    ),
    Case(
        id="maxUnavailable as a percentage is rounded down",
        spec=rolling_update(maxUnavailable="30%"),
        status=STUCK,
        want=rollout_with(2),
    ),
    Case(
        id="maxUnavailable as a number",
        spec=rolling_update(maxUnavailable=3),
        status=STUCK,
        want=rollout_with(3),
    ),
    Case(
        id="maxUnavailable 0",
        spec=rolling_update(maxUnavailable=0, maxSurge=1),
        status=STUCK,
        want=rollout_with(0),
    ),
    Case(
        id="maxUnavailable 0 and maxSurge 0: one",
        spec=rolling_update(maxUnavailable=0, maxSurge="0%"),
        status=STUCK,
        want=rollout_with(1),
    ),
    Case(
        id="5 percent of eight with a surge: zero",
        spec=rolling_update(maxUnavailable="5%"),
        status=STUCK,
        want=rollout_with(0),
    ),
    Case(
        id="5 percent of eight without a surge: one",
        spec=rolling_update(maxUnavailable="5%", maxSurge=0),
        status=STUCK,
        want=rollout_with(1),
    ),
    Case(
        id="maxUnavailable is all pods",
        spec=rolling_update(maxUnavailable="100%"),
        status=STUCK,
        want=rollout_with(8),
    ),
    Case(
        id="maxUnavailable is more than all pods",
        spec=rolling_update(maxUnavailable=20),
        status=STUCK,
        want=rollout_with(8),
    ),
    Case(
        id="Recreate",
        spec={"strategy": {"type": "Recreate"}},
        status=STUCK,
        want=rollout_with(0, recreates=True),
    ),
    Case(
        id="with minReadySeconds",
        spec={"minReadySeconds": 30},
        status=STUCK,
        want=rollout_with(2, min_ready=timedelta(seconds=30)),
    ),
    Case(
        id="no replicas: one",
        spec={"replicas": None},
        generation=4,
        want=Rollout(replicas=1, max_unavailable=0),
    ),
]


@pytest.mark.parametrize("case", DEPLOYMENTS, ids=lambda case: case.id)
def test_deployments(case: Case) -> None:
    body = {
        "metadata": {"name": "web", "generation": case.generation},
        "spec": {"replicas": 8, **case.spec},
        "status": {**COMPLETE, **case.status},
    }
    assert rollout_of(msgspec.convert(body, Deployment)) == case.want


SETTLED = {
    "observedGeneration": 3,
    "replicas": 8,
    "updatedReplicas": 8,
    "currentRevision": "web-1",
    "updateRevision": "web-1",
}
ROLLED = {"updateRevision": "web-2", "updatedReplicas": 2}


def updating(**bounds: int | str) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}


STATEFUL_SETS = [
    Case(id="complete", want=None),
    Case(id="the controller has not observed the new template", generation=4, want=rollout_with(1)),
    Case(id="two of eight are new", status=ROLLED, want=rollout_with(1)),
    Case(
        id="all pods are new, the last one is not ready",
        status={"updateRevision": "web-2"},
        want=rollout_with(1),
    ),
    Case(
        id="a pod that is lost later",
        status={"replicas": 7, "updatedReplicas": 7},
        want=None,
    ),
    Case(id="a partition that is complete", spec=updating(partition=6), status=ROLLED, want=None),
    Case(
        id="a partition that is incomplete",
        spec=updating(partition=5),
        status=ROLLED,
        want=rollout_with(1),
    ),
    Case(
        id="maxUnavailable of three",
        spec=updating(maxUnavailable=3),
        status=ROLLED,
        want=rollout_with(3),
    ),
    Case(
        id="maxUnavailable of at least one",
        spec=updating(maxUnavailable="5%"),
        status=ROLLED,
        want=rollout_with(1),
    ),
    Case(
        id="strategy OnDelete",
        spec={"updateStrategy": {"type": "OnDelete"}},
        status=ROLLED,
        want=None,
    ),
]


@pytest.mark.parametrize("case", STATEFUL_SETS, ids=lambda case: case.id)
def test_stateful_sets(case: Case) -> None:
    body = {
        "metadata": {"name": "web", "generation": case.generation},
        "spec": {"replicas": 8, **case.spec},
        "status": {**SETTLED, **case.status},
    }
    assert rollout_of(msgspec.convert(body, StatefulSet)) == case.want


EVERYWHERE = {
    "observedGeneration": 3,
    "desiredNumberScheduled": 8,
    "currentNumberScheduled": 8,
    "updatedNumberScheduled": 8,
}
SOME = {"updatedNumberScheduled": 3}

DAEMON_SETS = [
    Case(id="complete", want=None),
    Case(id="the controller has not observed the new template", generation=4, want=rollout_with(1)),
    Case(id="three of eight are new", status=SOME, want=rollout_with(1)),
    Case(
        id="a pod that is lost later",
        status={"currentNumberScheduled": 7, "updatedNumberScheduled": 7},
        want=None,
    ),
    Case(
        id="maxUnavailable as a percentage is rounded up",
        spec=updating(maxUnavailable="30%"),
        status=SOME,
        want=rollout_with(3),
    ),
    Case(
        id="maxUnavailable 0 with a surge",
        spec=updating(maxUnavailable=0, maxSurge=1),
        status=SOME,
        want=rollout_with(0),
    ),
    Case(
        id="strategy OnDelete",
        spec={"updateStrategy": {"type": "OnDelete"}},
        status=SOME,
        want=None,
    ),
]


@pytest.mark.parametrize("case", DAEMON_SETS, ids=lambda case: case.id)
def test_daemon_sets(case: Case) -> None:
    body = {
        "metadata": {"name": "agent", "generation": case.generation},
        "spec": case.spec,
        "status": {**EVERYWHERE, **case.status},
    }
    assert rollout_of(msgspec.convert(body, DaemonSet)) == case.want


def test_other_kinds_have_no_rollout() -> None:
    plain = {"metadata": {"name": "web"}, "spec": {"replicas": 3}}
    assert rollout_of(msgspec.convert(plain, ReplicationController)) is None
    assert rollout_of(None) is None


@pytest.mark.parametrize(
    ("unavailable", "tolerance", "want"),
    [
        pytest.param(2, 0.5, 6, id="the strategy keeps more"),
        pytest.param(8, 0.5, 4, id="the tolerance keeps more of the whole workload"),
        pytest.param(2, 0.1, 8, id="a tolerance of zero"),
        pytest.param(0, 1.0, 8, id="maxUnavailable of zero"),
    ],
)
def test_the_number_of_pods_that_must_stay(unavailable: int, tolerance: float, want: int) -> None:
    assert rollout_with(unavailable).must_stay(tolerance) == want


READY = [
    pytest.param("True", 30, timedelta(), True, id="Ready"),
    pytest.param("False", 30, timedelta(), False, id="not Ready"),
    pytest.param(None, 30, timedelta(), False, id="no condition"),
    pytest.param("True", 30, timedelta(seconds=30), True, id="Ready for long enough"),
    pytest.param("True", 29, timedelta(seconds=30), False, id="Ready, a second too short"),
    pytest.param("True", None, timedelta(seconds=30), False, id="Ready since an unknown time"),
    pytest.param(
        "True", None, timedelta(), True, id="Ready since an unknown time, no minReadySeconds"
    ),
]


@pytest.mark.parametrize(("status", "seconds", "min_ready", "want"), READY)
def test_which_pods_are_available(
    status: str | None, seconds: int | None, min_ready: timedelta, *, want: bool
) -> None:
    since = None if seconds is None else (NOW - timedelta(seconds=seconds)).isoformat()
    ready = {"type": "Ready", "status": status, "lastTransitionTime": since}
    body = {
        "metadata": {"name": "web"},
        "spec": {"containers": []},
        "status": {"conditions": [ready] if status else []},
    }
    pod = msgspec.convert(body, Pod)
    assert rollout_with(1, min_ready=min_ready).is_available(pod, now=NOW) is want
