"""The last resize that was executed; a withdrawn resize does not count (D18, D28)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest

from builders import pod, recommendation, vpa
from common.api.autoscaling import UpdateMode
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
    ResourceRequirements,
)
from fixed_clock import FixedClock
from live_specs import schedulable
from updater.decision import Decision, Reason, leave, resize
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.plan.finished_resizes import answered_ooms, before_next_resize, last_resize
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import (
    WITHDRAWER,
    LivePod,
    LivePodMeta,
    ManagedFieldsEntry,
    resized_at,
)
from updater.state import PodMemory, SentResize, UpdaterState
from updater_harness import NOW, OPEN, WEB, FakeActuator, live_pod, run, snapshot

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
DEFERRED = PodCondition(type="PodResizePending", status="True", reason="Deferred")
IN_PROGRESS = PodCondition(type="PodResizeInProgress", status="True")
KILL, OTHER = ContainerOomKill("app", NOW - HOUR), ContainerOomKill("side", NOW - HOUR)


def pod_with_managed_fields(
    *entries: ManagedFieldsEntry, condition: PodCondition | None = None
) -> LivePod:
    ordinary = pod()
    conditions = None if condition is None else (condition,)
    return LivePod(
        metadata=LivePodMeta(name="web-0", managed_fields=entries),
        spec=schedulable(ordinary.spec),
        status=msgspec.structs.replace(ordinary.status, conditions=conditions),
    )


def entry(
    time: datetime = NOW, *, manager: str = "vpa-updater", subresource: str = "resize"
) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(manager=manager, subresource=subresource, time=time)


def test_the_last_resize_is_read_from_the_managed_fields() -> None:
    """D18: after a restart of the updater this is the only source."""
    theirs, mark = entry(manager="kubectl-edit"), entry(subresource="")
    assert resized_at(pod_with_managed_fields(theirs, mark, entry(manager=WITHDRAWER))) is None
    assert resized_at(pod_with_managed_fields(entry(NOW - HOUR), entry(), theirs)) == NOW
    assert resized_at(pod_with_managed_fields()) is None


SENT = SentResize(
    at=NOW, generation=3, resource_version="7", restarts=False, ooms=frozenset({KILL})
)
EARLIER = PodMemory(sent=SENT, resized_at=NOW - HOUR, spent_ooms=frozenset({OTHER}))
WITHDRAWN = replace(EARLIER, sent=replace(SENT, withdraws=True, ooms=frozenset()))
MEMORIES: dict[str, tuple[PodMemory, LivePod, datetime | None, set[ContainerOomKill]]] = {
    "nothing": (PodMemory(), pod_with_managed_fields(), None, set()),
    "after a restart": (PodMemory(), pod_with_managed_fields(entry()), NOW, set()),
    "sent": (EARLIER, pod_with_managed_fields(), NOW, {OTHER, KILL}),
    "sent, and pending": (EARLIER, pod_with_managed_fields(condition=DEFERRED), NOW, {OTHER}),
    "sent, and in progress": (
        EARLIER,
        pod_with_managed_fields(condition=IN_PROGRESS),
        NOW,
        {OTHER},
    ),
    "withdrawn": (WITHDRAWN, pod_with_managed_fields(entry()), NOW - HOUR, {OTHER}),
}


@pytest.mark.parametrize(("memory", "given", "at", "ooms"), MEMORIES.values(), ids=MEMORIES)
def test_the_last_resize(
    memory: PodMemory, given: LivePod, at: datetime | None, ooms: set[ContainerOomKill]
) -> None:
    assert last_resize(given, memory) == at
    assert answered_ooms(given, memory) == ooms


def test_a_resize_replaces_a_pending_one_and_succeeds_a_finished_one() -> None:
    assert before_next_resize(pod_with_managed_fields(condition=DEFERRED), EARLIER) == EARLIER
    done = before_next_resize(pod_with_managed_fields(), EARLIER)
    assert (done.resized_at, done.spent_ooms) == (NOW, frozenset({OTHER, KILL}))
    again = before_next_resize(pod_with_managed_fields(entry()), WITHDRAWN)
    assert (again.resized_at, again.spent_ooms) == (NOW - HOUR, frozenset({OTHER}))


# Over passes


def web_pod(
    *,
    asks: Mapping[str, str],
    has: Mapping[str, str],
    generation: int,
    killed: bool = False,
    condition: PodCondition | None = None,
) -> LivePod:
    """Return a pod that is a day old; ``killed``: OOM-killed two minutes before NOW."""
    base = live_pod("web-0")
    kill = ContainerStateTerminated(
        reason="OOMKilled", started_at=NOW - 3 * MINUTE, finished_at=NOW - 2 * MINUTE
    )
    status = ContainerStatus(
        name="app",
        resources=ResourceRequirements(requests=has),
        last_state=ContainerState(terminated=kill) if killed else None,
    )
    (only,) = base.spec.containers
    asked = msgspec.structs.replace(only, resources=ResourceRequirements(requests=asks))
    return msgspec.structs.replace(
        base,
        metadata=msgspec.structs.replace(base.metadata, generation=generation),
        spec=msgspec.structs.replace(base.spec, containers=(asked,)),
        status=msgspec.structs.replace(
            base.status,
            start_time=NOW - 24 * HOUR,
            container_statuses=(status,),
            conditions=None if condition is None else (condition,),
        ),
    )


def cluster(one: LivePod, target: Mapping[str, str]) -> ClusterSnapshot:
    """Return a snapshot with a wide range, so that only drift and OOM kills lead to updates."""
    given = snapshot(UpdateMode.IN_PLACE_OR_RECREATE)
    (scaled,) = given.autoscaled
    wide = recommendation(target=target, lower={"cpu": "1m"}, upper={"cpu": "100"})
    scaled = replace(
        scaled,
        vpa=vpa(mode="InPlaceOrRecreate", recommendations=(wide,)),
        pods=(one,),
        controllers={one.metadata.uid: WEB},
        replicas={WEB: 1},
    )
    return ClusterSnapshot(autoscaled=(scaled,), living=frozenset({one.metadata.uid}))


RULES = replace(OPEN, disruption=DisruptionPolicy(min_replicas=1, tolerance_fraction=1.0))
OLD, BETTER, MORE = (
    {"cpu": cpu, "memory": memory}
    for cpu, memory in (("100m", "100Mi"), ("200m", "200Mi"), ("400m", "200Mi"))
)


async def decision_after_pass(
    one: LivePod, target: Mapping[str, str], before: UpdaterState, *, at: datetime
) -> tuple[Decision | None, UpdaterState]:
    """Run a pass; return the decision, and the state with the pod's generation as sent."""
    after = await run(
        cluster(one, target), FakeActuator(), state=before, rules=RULES, clock=FixedClock(at)
    )
    memory = after.of(one.metadata.uid)
    if memory.sent is not None:
        sent = replace(memory.sent, generation=one.metadata.generation)
        after = replace(after, pods={one.metadata.uid: replace(memory, sent=sent)})
    return memory.decision, after


@pytest.mark.parametrize("killed", [False, True])
async def test_after_a_withdrawal_the_kills_before_the_earlier_resize_stay_answered(
    *, killed: bool
) -> None:
    """The pod is resized at noon. 13 hours later another resize is pending and is withdrawn."""
    first = resize(Reason.OOMED_QUICKLY if killed else Reason.DRIFTED)
    found, state = await decision_after_pass(
        web_pod(asks=OLD, has=OLD, generation=1, killed=killed), BETTER, UpdaterState(), at=NOW
    )
    assert found == first
    later = NOW + 13 * HOUR
    found, state = await decision_after_pass(
        web_pod(asks=BETTER, has=BETTER, generation=1, killed=killed), MORE, state, at=later
    )
    assert found == resize(Reason.DRIFTED)
    pending = web_pod(asks=MORE, has=BETTER, generation=1, killed=killed, condition=DEFERRED)
    found, state = await decision_after_pass(pending, BETTER, state, at=later + MINUTE)
    assert found == resize(Reason.RESIZE_WITHDRAWN)
    back = web_pod(asks=BETTER, has=BETTER, generation=1, killed=killed)
    memory = state.of(back.metadata.uid)
    assert last_resize(back, memory) == NOW
    assert len(answered_ooms(back, memory)) == killed
    more = {**MORE, "memory": "400Mi"}  # the kill would be a reason for that; the drift is
    found, _ = await decision_after_pass(back, more, state, at=later + 2 * MINUTE)
    assert found == resize(Reason.DRIFTED)


async def test_a_withdrawal_keeps_the_time_of_the_last_resize() -> None:
    _, state = await decision_after_pass(
        web_pod(asks=OLD, has=OLD, generation=1), BETTER, UpdaterState(), at=NOW
    )
    pending = web_pod(asks=BETTER, has=OLD, generation=1, condition=DEFERRED)
    carried_out = replace(state.of(pending.metadata.uid), resized_at=NOW - HOUR)
    state = replace(state, pods={pending.metadata.uid: carried_out})
    found, state = await decision_after_pass(pending, OLD, state, at=NOW + MINUTE)
    assert found == resize(Reason.RESIZE_WITHDRAWN)
    back = web_pod(asks=OLD, has=OLD, generation=1)
    found, _ = await decision_after_pass(back, MORE, state, at=NOW + 2 * MINUTE)
    assert found == leave(Reason.TOO_YOUNG)
