"""Replacements of pods with pod-level resources: checked by the rule of evictions (X63, X112)."""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.annotations import OBSERVED_CONTAINERS
from common.api.autoscaling import UpdateMode
from common.api.core import Pod, ResourceRequirements
from common.recommendation.pod_level import PodLevelMode
from fixed_clock import FixedClock
from live_specs import schedulable
from updater.decision import Reason
from updater.evaluate.recommendation_fit import Measured, measure_pod
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.eviction.dry_run_answer import after_answer
from updater.eviction.replacement_result import ReplacementResult, check_replacement
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.workload_size import GroupSize
from updater.state import UpdaterState
from updater_harness import NOW, OPEN, WEB, FakeActuator, run

KEEP, FOLLOW = PodLevelMode.KEEP, PodLevelMode.FOLLOW
VPA = vpa(
    recommendations=(
        recommendation(target={"cpu": "2"}, lower={"cpu": "1500m"}, upper={"cpu": "3"}),
    )
)


def admitted_pod(*, cpu: str, whole: str) -> Pod:
    """Return a pod that the webhook observed, with a pod-level request."""
    plain = pod(
        containers=(container(requests={"cpu": cpu}),), annotations={OBSERVED_CONTAINERS: "app"}
    )
    own = ResourceRequirements(requests={"cpu": whole})
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, resources=own))


RIGHT, OUTSIDE = ReplacementResult.RIGHT, ReplacementResult.OUTSIDE_RANGE
RESULTS = {
    "kept, and the updater keeps": ("1", "1", KEEP, RIGHT),
    "kept, but the updater follows": ("1", "1", FOLLOW, OUTSIDE),
    "followed, and the updater follows": ("2", "2", FOLLOW, RIGHT),
    "followed, but the updater keeps": ("2", "2", KEEP, RIGHT),
}


@pytest.mark.parametrize(("cpu", "whole", "mode", "want"), RESULTS.values(), ids=RESULTS)
def test_a_replacement_is_right_if_it_would_not_be_evicted(
    cpu: str, whole: str, mode: PodLevelMode, want: ReplacementResult
) -> None:
    replacement = admitted_pod(cpu=cpu, whole=whole)
    assert check_replacement(replacement, VPA, (), pod_level=mode) is want
    assert check_replacement(replacement, VPA, (), then=vpa(), pod_level=mode) is want
    refused = after_answer(replacement, VPA, (), pod_level=mode)
    assert (refused is None) is (want is RIGHT)
    measured = measure_pod(replacement, VPA, (), pod_level=mode)
    assert isinstance(measured, Measured)
    assert measured.drift.outside_range is (want is OUTSIDE)


def pod_admitted_by_keep(name: str, *, created: datetime) -> LivePod:
    """Return a pod as admission with mode ``keep`` creates it: one core in all cases."""
    made = admitted_pod(cpu="1", whole="1")
    meta = LivePodMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        creation_timestamp=created,
        annotations=made.metadata.annotations,
    )
    return LivePod(metadata=meta, spec=schedulable(made.spec), status=made.status)


async def test_evictions_stop_if_admission_keeps_and_the_updater_follows() -> None:
    """In twelve passes each evicted pod is replaced by an equal one."""
    rules = replace(
        OPEN,
        checks_outcomes=True,
        pod_level=FOLLOW,
        disruption=DisruptionPolicy(tolerance_fraction=0.5),
    )
    pods = [pod_admitted_by_keep(f"web-{number}", created=NOW) for number in range(4)]
    state, evicted = UpdaterState(), list[str]()
    for minutes in range(12):
        uids = frozenset(each.metadata.uid for each in pods)
        scaled = AutoscaledPods(
            vpa=VPA,
            mode=UpdateMode.RECREATE,
            pods=tuple(pods),
            controllers=dict.fromkeys(uids, WEB),
            replicas={WEB: 4},
            limit_ranges=(),
            sizes={WEB: GroupSize(4, 4)},
        )
        given, clock, actuator = (
            ClusterSnapshot(autoscaled=(scaled,), living=uids),
            FixedClock(NOW + timedelta(minutes=minutes)),
            FakeActuator(),
        )
        state = await run(given, actuator, state=state, rules=rules, clock=clock)
        evicted += actuator.evicted
        pods = [each for each in pods if each.metadata.name not in actuator.evicted]
        pods += [
            pod_admitted_by_keep(f"{name}-next", created=clock.now()) for name in actuator.evicted
        ]
    assert len(evicted) == 3
    last = state.of(pods[0].metadata.uid).decision
    assert last is not None
    assert last.reason is Reason.ACTUATION_SUSPENDED
