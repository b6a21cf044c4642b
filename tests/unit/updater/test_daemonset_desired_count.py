"""The desired number of pods of a DaemonSet, and its changes with the pods (X90)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from common.api.autoscaling import UpdateMode
from common.target.owners import Controller
from updater.eviction.daemonset_desired_count import SETTLED, ObservedDaemons, desired_daemons
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.workload_size import GroupSize
from updater.state import UpdaterState
from updater_harness import HALF, NAMES, NOW, FakeActuator, run, snapshot

SECOND = timedelta(seconds=1)
AGENT = Controller("default", "DaemonSet", "agent", "apps/v1")
LONG_AGO = NOW - SETTLED
COMPLETE = ObservedDaemons(LONG_AGO, 6)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A DaemonSet for six nodes."""

    id: str
    want: int
    ready: int | None = 6
    desired: int | None = 6
    live: int = 6
    observed: ObservedDaemons = COMPLETE


CASES = [
    Case(id="all pods exist", want=6),
    Case(id="three were evicted", ready=3, live=3, want=6),
    Case(id="three are back and not ready", ready=3, want=6),
    Case(
        id="observed for just less than ten minutes: all six count",
        ready=3,
        live=3,
        observed=ObservedDaemons(LONG_AGO + SECOND, 3),
        want=6,
    ),
    Case(
        id="three never existed in ten minutes",
        ready=3,
        live=3,
        observed=ObservedDaemons(LONG_AGO, 3),
        want=3,
    ),
    Case(
        id="one of the three existing pods was evicted",
        ready=2,
        live=2,
        observed=ObservedDaemons(LONG_AGO, 3),
        want=3,
    ),
    Case(id="a node was removed", desired=5, live=5, want=5),
    Case(id="a node was removed, its pod still exists", desired=5, want=6),
    Case(
        id="two pods on a node during a rollout",
        live=9,
        observed=ObservedDaemons(LONG_AGO, 9),
        want=9,
    ),
    Case(id="after the rollout", observed=ObservedDaemons(LONG_AGO, 9), want=6),
    Case(id="none is ready: zero, as in the reference", ready=0, want=0),
    Case(id="DaemonSet not found", ready=None, desired=None, want=0),
    Case(id="a status without a number of nodes", desired=0, ready=2, want=2),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_wanted_daemons(case: Case) -> None:
    found = desired_daemons(
        case.ready, desired=case.desired, live=case.live, observed=case.observed, now=NOW
    )
    assert found == case.want


async def test_pods_of_other_kinds_are_not_observed() -> None:
    assert (await run(snapshot(UpdateMode.RECREATE), FakeActuator())).observed_daemons == {}


@pytest.mark.parametrize(
    ("seconds", "kept"), [(60, False), (0, True)], ids=["complete", "incomplete"]
)
async def test_a_daemon_set_is_dropped_after_a_complete_pass_without_it(
    seconds: float, *, kept: bool
) -> None:
    before = {AGENT: ObservedDaemons(LONG_AGO, 6)}
    given, state = snapshot(UpdateMode.RECREATE), UpdaterState(observed_daemons=before)
    after = await run(given, FakeActuator(), state=state, seconds=seconds)
    assert after.observed_daemons == (before if kept else {})


# Passes with six nodes, two of which have no room for a pod


def four_of_six(*, ready: int, live: int) -> ClusterSnapshot:
    given = snapshot(UpdateMode.RECREATE, names=NAMES[:live])
    (scaled,) = given.autoscaled
    agents = replace(
        scaled,
        controllers={pod.metadata.uid: AGENT for pod in scaled.pods},
        replicas={AGENT: ready},
        sizes={AGENT: GroupSize(wanted=6, existing=6)},
    )
    return replace(given, autoscaled=(agents,))


async def evictions(
    observed_daemons: Mapping[Controller, ObservedDaemons], *, ready: int, live: int
) -> int:
    actuator = FakeActuator()
    given = four_of_six(ready=ready, live=live)
    after = await run(
        given, actuator, rules=HALF, state=UpdaterState(observed_daemons=observed_daemons)
    )
    assert after.observed_daemons[AGENT].most == max(
        live, *(each.most for each in observed_daemons.values()), 0
    )
    return len(actuator.evicted)


async def test_with_two_of_six_pods_missing_one_is_evicted() -> None:
    """The reference evicts two of four, and then one of the remaining two."""
    assert await evictions({}, ready=4, live=4) == 1
    assert await evictions({AGENT: ObservedDaemons(LONG_AGO, 6)}, ready=4, live=4) == 1


async def test_with_two_pods_that_never_existed_half_of_four_are_evicted() -> None:
    assert await evictions({AGENT: ObservedDaemons(LONG_AGO, 4)}, ready=4, live=4) == 2
    assert await evictions({AGENT: ObservedDaemons(LONG_AGO, 4)}, ready=2, live=2) == 0
