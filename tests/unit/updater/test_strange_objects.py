"""A malformed pod affects neither the pass nor the other pods."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from common.api.autoscaling import StartupBoost, UpdateMode
from common.api.core import ResourceQuota, ResourceQuotaStatus
from common.api.meta import ObjectMeta
from common.features import FeatureGates
from updater.decision import Decision, Reason, leave, resize
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater_harness import NAMES, OPEN, WEB, FakeActuator, live_pod, run, snapshot

FINE = {"requests": {"cpu": "10m", "memory": "10Mi"}}
UNREADABLE_AMOUNTS = {"requests": {"cpu": "10m", "memory": "10Mi", "ephemeral-storage": "abc"}}
HUGE = {"requests": {"cpu": "1e200", "memory": "1e200"}, "limits": {"cpu": "1e-200"}}
NEGATIVE = {"requests": {"cpu": "-5", "memory": "-1Gi"}, "limits": {"memory": "0"}}
UNREADABLE_LIMIT = {"requests": {"cpu": "10m", "memory": "10Mi"}, "limits": {"memory": "abc"}}
IN_RANGE = {"requests": {"cpu": "250m", "memory": "100Mi"}}
KILLED = {
    "terminated": {
        "reason": "OOMKilled",
        "exitCode": 137,
        "startedAt": "2026-03-01T11:58:00Z",
        "finishedAt": "2026-03-01T11:59:30Z",
    }
}
RESTARTS = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}

# Differences from an ordinary pod, in spec and status.
STRANGE = {
    "quantities in the status": (
        {},
        {"containerStatuses": [{"name": "app", "resources": UNREADABLE_AMOUNTS}]},
    ),
    "quantities in the spec, hidden by the status": (
        {"containers": [{"name": "app", "resources": UNREADABLE_AMOUNTS}]},
        {"containerStatuses": [{"name": "app", "resources": FINE}]},
    ),
    "quantities of an init container": (
        {"initContainers": [{"name": "init", "resources": UNREADABLE_AMOUNTS}]},
        {},
    ),
    "quantities that a restart depends on": (
        {
            "containers": [
                {"name": "app", "resources": UNREADABLE_AMOUNTS, "resizePolicy": [RESTARTS]}
            ]
        },
        {"containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "x"}}]},
    ),
    "quantities of a killed container that only the status has": (
        {},
        {
            "containerStatuses": [
                {"name": "old", "resources": UNREADABLE_AMOUNTS, "lastState": KILLED}
            ]
        },
    ),
    "a limit of a killed container": (
        {},
        {
            "containerStatuses": [
                {"name": "app", "resources": UNREADABLE_LIMIT, "lastState": KILLED}
            ]
        },
    ),
    "a limit beside an infeasible resize": (
        {},
        {
            "containerStatuses": [{"name": "app", "resources": UNREADABLE_LIMIT}],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        },
    ),
    "huge and tiny amounts": ({"containers": [{"name": "app", "resources": HUGE}]}, {}),
    "negative amounts": ({"containers": [{"name": "app", "resources": NEGATIVE}]}, {}),
    "the latest start time": (
        {"containers": [{"name": "app", "resources": IN_RANGE}]},
        {"startTime": "9999-12-31T23:59:59Z"},
    ),
    "the earliest start time": ({}, {"startTime": "0001-01-01T00:00:00Z"}),
    "no container": ({"containers": []}, {}),
    "nulls": ({"initContainers": None}, {"conditions": None, "containerStatuses": None}),
    "an unknown phase": ({}, {"phase": "Dreaming"}),
}


def among_others(mode: UpdateMode, strange: LivePod) -> ClusterSnapshot:
    given = snapshot(mode)
    (scaled,) = given.autoscaled
    pods = (strange, *scaled.pods)
    uids = frozenset(pod.metadata.uid for pod in pods)
    more = replace(
        scaled, pods=pods, controllers=dict.fromkeys(uids, WEB), replicas={WEB: len(pods)}
    )
    quota = ResourceQuota(
        metadata=ObjectMeta(name="team", namespace="default"),
        status=ResourceQuotaStatus(hard={"requests.cpu": "1000"}, used={"requests.cpu": "1"}),
    )
    return ClusterSnapshot(autoscaled=(more,), living=uids, quotas={"default": (quota,)})


def strange_pod(spec: dict[str, Any], status: dict[str, Any]) -> LivePod:
    ordinary = msgspec.to_builtins(live_pod("strange"))
    ordinary["spec"] |= spec
    ordinary["status"] |= status
    return msgspec.convert(ordinary, LivePod)


@pytest.mark.parametrize("mode", UpdateMode)
@pytest.mark.parametrize(("spec", "status"), STRANGE.values(), ids=STRANGE)
async def test_the_other_pods_are_updated(
    mode: UpdateMode, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    actuator = FakeActuator()
    await run(among_others(mode, strange_pod(spec, status)), actuator)
    done = {name for name in (*actuator.evicted, *actuator.resized) if name != "strange"}
    assert done == (set() if mode in (UpdateMode.OFF, UpdateMode.INITIAL) else set(NAMES))


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
async def test_an_unreadable_pod_is_left_alone(mode: UpdateMode) -> None:
    actuator = FakeActuator()
    spec = {
        "containers": [{"name": "app", "resources": UNREADABLE_AMOUNTS, "resizePolicy": [RESTARTS]}]
    }
    state = await run(among_others(mode, strange_pod(spec, {})), actuator)
    decision = state.of("uid-strange").decision
    assert decision is not None
    assert decision.reason is Reason.UNREADABLE


BOOSTED = {
    "an init container": (
        {"initContainers": [{"name": "init", "resources": UNREADABLE_AMOUNTS}]},
        {},
        leave(Reason.UNREADABLE),
    ),
    "a limit, and nothing to resize": (
        {"resources": FINE},
        {"containerStatuses": [{"name": "app", "resources": UNREADABLE_LIMIT}]},
        resize(Reason.STARTUP_BOOST_OVER),
    ),
}


@pytest.mark.parametrize(("spec", "status", "want"), BOOSTED.values(), ids=BOOSTED)
async def test_the_boost_of_an_unreadable_pod(
    spec: dict[str, Any], status: dict[str, Any], want: Decision
) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    strange = msgspec.to_builtins(strange_pod(spec, status | ready))
    strange["metadata"]["annotations"] = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"1m"}}'}
    given = among_others(UpdateMode.RECREATE, msgspec.convert(strange, LivePod))
    (scaled,) = given.autoscaled
    boosting = msgspec.structs.replace(scaled.vpa.spec, startup_boost=StartupBoost())
    autoscaler = msgspec.structs.replace(scaled.vpa, spec=boosting)
    actuator = FakeActuator()
    state = await run(
        replace(given, autoscaled=(replace(scaled, vpa=autoscaler),)),
        actuator,
        rules=replace(OPEN, features=FeatureGates(cpu_startup_boost=True)),
    )
    assert state.of("uid-strange").decision == want
    assert len(actuator.evicted) == len(NAMES)
