"""One object that breaks a step of the updater's pass costs that object alone."""

import logging
from dataclasses import replace

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

CURSED = "cursed"
ERRORS = "vpa_updater_object_errors_total"


class CursedTargets(Targets):
    """Breaks for one VPA, as a bug of ours would."""

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        if vpa.metadata.name == CURSED:
            raise ZeroDivisionError(CURSED)
        return await super().selector(vpa)


def test_a_vpa_that_breaks_us_leaves_the_others_their_updates(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, actuator = CollectorRegistry(), FakeActuator()

    async def play(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.autoscale("Recreate", name=CURSED)
        await shop.recommend("100m")
        updater = shop.updater(actuator=actuator, registry=registry, targets=CursedTargets)
        for _ in range(2):
            await updater.run_once()

    in_updater_sandbox(play)
    assert actuator.evicted
    assert registry.get_sample_value(ERRORS, {"stage": "resolve"}) == 2
    told = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.__dict__["object"] for one in told] == [f"VerticalPodAutoscaler shop/{CURSED}"]


class CursedHands(FakeActuator):
    """Breaks for one pod, as a bug of ours would."""

    async def evict(self, pod: Pod, *args: object) -> None:
        if pod.metadata.name == NAMES[1]:
            raise ZeroDivisionError(CURSED)
        await super().evict(pod, *args)  # type: ignore[arg-type]  # as it was called


def with_cursed_pod(given: ClusterSnapshot) -> ClusterSnapshot:
    """The second pod has a container that is none: no cache would let it pass."""
    (scaled,) = given.autoscaled
    pods = list(scaled.pods)
    pods[1] = broken(pods[1])
    return replace(given, autoscaled=(replace(scaled, pods=tuple(pods)),))


def broken(pod: LivePod) -> LivePod:
    spec = type(pod.spec)(containers=(None,))  # type: ignore[arg-type]  # on purpose
    return LivePod(metadata=pod.metadata, spec=spec, status=pod.status)


async def test_a_pod_that_breaks_its_eviction_costs_itself_alone() -> None:
    registry, actuator = CollectorRegistry(), CursedHands()
    await run(snapshot(UpdateMode.RECREATE), actuator, registry=registry)
    assert actuator.evicted == [name for name in NAMES if name != NAMES[1]]
    assert registry.get_sample_value(ERRORS, {"stage": "evict"}) == 1


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
async def test_a_pod_that_cannot_be_judged_costs_itself_alone(mode: UpdateMode) -> None:
    registry, actuator = CollectorRegistry(), FakeActuator()
    await run(with_cursed_pod(snapshot(mode)), actuator, rules=OPEN, registry=registry)
    others = [name for name in NAMES if name != NAMES[1]]
    assert (actuator.evicted or actuator.resized) == others
    assert registry.get_sample_value(ERRORS, {"stage": "judge"})


async def test_a_vpa_that_breaks_its_pass_leaves_the_others_theirs() -> None:
    registry, actuator = CollectorRegistry(), FakeActuator()
    good = snapshot(UpdateMode.RECREATE)
    (scaled,) = good.autoscaled
    bad = replace(scaled, pods=(None,))  # type: ignore[arg-type]  # on purpose
    await run(replace(good, autoscaled=(bad, scaled)), actuator, registry=registry)
    assert sorted(actuator.evicted) == NAMES
    assert registry.get_sample_value(ERRORS, {"stage": "plan"}) == 1
