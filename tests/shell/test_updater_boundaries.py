"""An unexpected error with one object in the updater's pass affects only that object."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.targets import Targets
from common.labels import Selector
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater_harness import NAMES, OPEN, FakeActuator, run, snapshot
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

FAILING = "cursed"
ERRORS = "vpa_updater_object_errors_total"


class FailingTargets(Targets):
    """A look-up with a bug that occurs for one VPA."""

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        if vpa.metadata.name == FAILING:
            raise ZeroDivisionError(FAILING)
        return await super().selector(vpa)


def test_an_error_with_one_vpa_does_not_affect_updates_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, actuator = CollectorRegistry(), FakeActuator()

    async def play(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.autoscale("Recreate", name=FAILING)
        await sandbox.recommend("100m")
        updater = sandbox.updater(actuator=actuator, registry=registry, targets=FailingTargets)
        for _ in range(2):
            await updater.run_once()

    in_updater_sandbox(play)
    assert actuator.evicted
    assert registry.get_sample_value(ERRORS, {"stage": "resolve"}) == 2
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.__dict__["object"] for one in errors] == [f"VerticalPodAutoscaler shop/{FAILING}"]


class FailingActuator(FakeActuator):
    """An actuator with a bug that occurs for one pod."""

    async def evict(self, pod: Pod, *args: Any) -> None:
        if pod.metadata.name == NAMES[1]:
            raise ZeroDivisionError(FAILING)
        await super().evict(pod, *args)


def with_invalid_pod(given: ClusterSnapshot) -> ClusterSnapshot:
    """Give the second pod an invalid container, which no cache would contain."""
    (scaled,) = given.autoscaled
    pods = list(scaled.pods)
    pods[1] = invalid(pods[1])
    return replace(given, autoscaled=(replace(scaled, pods=tuple(pods)),))


def invalid(pod: LivePod) -> LivePod:
    spec = type(pod.spec)(containers=(None,))  # type: ignore[arg-type]  # decoding never returns it
    return LivePod(metadata=pod.metadata, spec=spec, status=pod.status)


async def test_an_error_in_an_eviction_affects_only_its_pod() -> None:
    registry, actuator = CollectorRegistry(), FailingActuator()
    await run(snapshot(UpdateMode.RECREATE), actuator, registry=registry)
    assert actuator.evicted == [name for name in NAMES if name != NAMES[1]]
    assert registry.get_sample_value(ERRORS, {"stage": "evict"}) == 1


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
async def test_an_error_in_a_decision_affects_only_its_pod(mode: UpdateMode) -> None:
    registry, actuator = CollectorRegistry(), FakeActuator()
    await run(with_invalid_pod(snapshot(mode)), actuator, rules=OPEN, registry=registry)
    others = [name for name in NAMES if name != NAMES[1]]
    assert (actuator.evicted or actuator.resized) == others
    assert registry.get_sample_value(ERRORS, {"stage": "judge"})


async def test_an_error_in_a_pass_of_one_vpa_does_not_affect_others() -> None:
    registry, actuator = CollectorRegistry(), FakeActuator()
    good = snapshot(UpdateMode.RECREATE)
    (scaled,) = good.autoscaled
    bad = replace(scaled, pods=(None,))  # type: ignore[arg-type]  # no snapshot has it
    await run(replace(good, autoscaled=(bad, scaled)), actuator, registry=registry)
    assert sorted(actuator.evicted) == NAMES
    assert registry.get_sample_value(ERRORS, {"stage": "plan"}) == 1
