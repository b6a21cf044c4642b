"""The number of pods that a workload has, and has at most during a rollout."""

from typing import Any

import msgspec
import pytest

from common.api.meta import OwnedObject
from common.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicationController,
    StatefulSet,
    Workload,
)
from common.target.pod_counts import PodCounts, pod_counts


def made(kind: type[Any], spec: dict[str, Any], status: dict[str, Any] | None = None) -> Any:
    workload = {"metadata": {"name": "web"}, "spec": spec, "status": status or {}}
    return msgspec.convert(workload, kind)


def rolling(**limits: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": limits}


@pytest.mark.parametrize(
    ("workload", "wanted", "most"),
    [
        pytest.param(made(Deployment, {}), 1, 2, id="one replica and a quarter, rounded up"),
        pytest.param(made(Deployment, {"replicas": 4}), 4, 5, id="a quarter of four"),
        pytest.param(made(Deployment, {"replicas": 5}), 5, 7, id="a quarter of five, rounded up"),
        pytest.param(made(Deployment, {"replicas": 0}), 0, 0, id="scaled to zero has no rollout"),
        pytest.param(
            made(Deployment, {"replicas": 4, "strategy": {"type": "Recreate"}}), 4, 4, id="Recreate"
        ),
        pytest.param(
            made(Deployment, {"replicas": 4, "strategy": rolling(maxSurge=3)}), 4, 7, id="a number"
        ),
        pytest.param(
            made(Deployment, {"replicas": 4, "strategy": rolling(maxSurge=0)}), 4, 4, id="no surge"
        ),
        pytest.param(
            made(Deployment, {"replicas": 3, "strategy": rolling(maxSurge="34%")}),
            3,
            5,
            id="a percentage is rounded up",
        ),
        pytest.param(
            made(Deployment, {"replicas": 3, "strategy": rolling(maxUnavailable=1)}),
            3,
            4,
            id="the default beside another limit",
        ),
        pytest.param(
            made(Deployment, {"replicas": 3, "strategy": rolling(maxSurge="many")}),
            3,
            3,
            id="any other text is no surge",
        ),
        pytest.param(made(StatefulSet, {"replicas": 3}), 3, 3, id="a StatefulSet has no surge"),
        pytest.param(made(Workload, {"replicas": 3}), 3, 3, id="a ReplicaSet has no rollout"),
        pytest.param(made(ReplicationController, {"replicas": 3}), 3, 3, id="nor a controller"),
        pytest.param(
            made(DaemonSet, {}, {"desiredNumberScheduled": 7}), 7, 7, id="a pod for each node"
        ),
        pytest.param(
            made(
                DaemonSet,
                {"updateStrategy": rolling(maxSurge="10%")},
                {"desiredNumberScheduled": 7},
            ),
            7,
            8,
            id="a DaemonSet with a surge, rounded up",
        ),
        pytest.param(
            made(
                DaemonSet,
                {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": 2}}},
                {"desiredNumberScheduled": 7},
            ),
            7,
            7,
            id="OnDelete has no surge",
        ),
        pytest.param(made(Job, {}), 1, 1, id="a Job runs one pod at a time"),
        pytest.param(made(Job, {"parallelism": 4}), 4, 4, id="or several"),
        pytest.param(
            made(Job, {"parallelism": 4, "completions": 6}, {"succeeded": 4}),
            2,
            2,
            id="not more than are left to succeed",
        ),
        pytest.param(made(Job, {"parallelism": 4, "suspend": True}), 0, 0, id="suspended"),
        pytest.param(
            made(Job, {}, {"conditions": [{"type": "Complete", "status": "True"}]}),
            0,
            0,
            id="ended",
        ),
        pytest.param(made(CronJob, {}), 1, 1, id="CronJob"),
        pytest.param(
            made(CronJob, {"jobTemplate": {"spec": {"parallelism": 3}}}), 3, 3, id="parallel pods"
        ),
    ],
)
def test_pods_during_a_rollout(workload: Any, wanted: int, most: int) -> None:
    counts = pod_counts(workload)

    assert counts is not None
    assert (counts.wanted, counts.most) == (wanted, most)


@pytest.mark.parametrize(
    ("workload", "existing", "counts_deleted"),
    [
        pytest.param(made(Deployment, {}, {"replicas": 5}), 5, False, id="Deployment"),
        pytest.param(
            made(StatefulSet, {}, {"replicas": 2}),
            2,
            True,
            id="StatefulSet, with those that are being deleted",
        ),
        pytest.param(made(Workload, {}, {"replicas": 3}), 3, False, id="ReplicaSet"),
        pytest.param(
            made(ReplicationController, {}, {"replicas": 3}), 3, False, id="ReplicationController"
        ),
        pytest.param(
            made(DaemonSet, {}, {"currentNumberScheduled": 4}),
            4,
            True,
            id="DaemonSet, with those that are being deleted",
        ),
        pytest.param(made(Job, {}, {"active": 2}), 2, False, id="Job"),
    ],
)
def test_pods_that_exist_are_those_in_the_status(
    workload: Any, existing: int, *, counts_deleted: bool
) -> None:
    counts = pod_counts(workload)

    assert counts is not None
    assert (counts.existing, counts.counts_deleted) == (existing, counts_deleted)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(msgspec.convert({"metadata": {}}, OwnedObject), id="only owners are cached"),
        pytest.param(None, id="another kind, or none"),
    ],
)
def test_other_kinds_state_no_number(workload: object) -> None:
    assert pod_counts(workload) is None


def test_the_surge_is_added_to_a_positive_number_only() -> None:
    assert PodCounts(wanted=0, surge=1).most == 0
    assert PodCounts(wanted=1, surge=1).most == 2
