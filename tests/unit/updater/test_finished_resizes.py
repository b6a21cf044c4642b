"""The last resize that was carried out; one that was taken back isn't (D18, D28)."""

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
from updater.decision import Decision, Reason, leave, resize
from updater.evaluate.update_order import ContainerOomKill
from updater.eviction.disruption import DisruptionPolicy
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


def managed(*entries: ManagedFieldsEntry, condition: PodCondition | None = None) -> LivePod:
    ordinary = pod()
    conditions = None if condition is None else (condition,)
    return LivePod(
        metadata=LivePodMeta(name="web-0", managed_fields=entries),
        spec=ordinary.spec,
        status=msgspec.structs.replace(ordinary.status, conditions=conditions),
    )


def entry(
    time: datetime = NOW, *, manager: str = "vpa-updater", subresource: str = "resize"
) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(manager=manager, subresource=subresource, time=time)


def test_the_last_resize_is_read_from_the_managed_fields() -> None:
    """D18: after a restart of ours nothing else tells."""
    theirs, mark = entry(manager="kubectl-edit"), entry(subresource="")
    assert resized_at(managed(theirs, mark, entry(manager=WITHDRAWER))) is None
    assert resized_at(managed(entry(NOW - HOUR), entry(), theirs)) == NOW
    assert resized_at(managed()) is None


SENT = SentResize(
    at=NOW, generation=3, resource_version="7", restarts=False, ooms=frozenset({KILL})
)
EARLIER = PodMemory(sent=SENT, resized_at=NOW - HOUR, spent_ooms=frozenset({OTHER}))
WITHDRAWN = replace(EARLIER, sent=replace(SENT, withdraws=True, ooms=frozenset()))
MEMORIES: dict[str, tuple[PodMemory, LivePod, datetime | None, set[ContainerOomKill]]] = {
    "nothing": (PodMemory(), managed(), None, set()),
    "after a restart": (PodMemory(), managed(entry()), NOW, set()),
    "sent": (EARLIER, managed(), NOW, {OTHER, KILL}),
    "sent, and pending": (EARLIER, managed(condition=DEFERRED), NOW, {OTHER}),
    "sent, and carried out now": (EARLIER, managed(condition=IN_PROGRESS), NOW, {OTHER}),
    "withdrawn": (WITHDRAWN, managed(entry()), NOW - HOUR, {OTHER}),
}


@pytest.mark.parametrize(("memory", "given", "at", "ooms"), MEMORIES.values(), ids=MEMORIES)
def test_the_last_resize(
    memory: PodMemory, given: LivePod, at: datetime | None, ooms: set[ContainerOomKill]
) -> None:
    assert last_resize(given, memory) == at
    assert answered_ooms(given, memory) == ooms


def test_a_resize_replaces_a_pending_one_and_follows_any_other() -> None:
    assert before_next_resize(managed(condition=DEFERRED), EARLIER) == EARLIER
    done = before_next_resize(managed(), EARLIER)
    assert (done.resized_at, done.spent_ooms) == (NOW, frozenset({OTHER, KILL}))
    again = before_next_resize(managed(entry()), WITHDRAWN)
    assert (again.resized_at, again.spent_ooms) == (NOW - HOUR, frozenset({OTHER}))


# Over passes


class At:
    def __init__(self, time: datetime) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time


def web(
    *,
    asks: Mapping[str, str],
    has: Mapping[str, str],
    generation: int,
    killed: bool = False,
    condition: PodCondition | None = None,
) -> LivePod:
    """A pod of a day, which was OOM-killed two minutes before NOW if it was."""
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
    """Anything is in range, so that only drift and quick OOM kills lead to an update."""
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


async def decided(
    one: LivePod, target: Mapping[str, str], before: UpdaterState, *, at: datetime
) -> tuple[Decision | None, UpdaterState]:
    """What became of the pod; the next answer has the next generation."""
    after = await run(cluster(one, target), FakeActuator(), state=before, rules=RULES, clock=At(at))
    memory = after.of(one.metadata.uid)
    if memory.sent is not None:
        sent = replace(memory.sent, generation=one.metadata.generation)
        after = replace(after, pods={one.metadata.uid: replace(memory, sent=sent)})
    return memory.decision, after


@pytest.mark.parametrize("killed", [False, True])
async def test_what_a_resize_answered_stays_answered_after_a_later_one_was_withdrawn(
    *, killed: bool
) -> None:
    """Resized at noon; 13 hours later another resize is pending, and is withdrawn."""
    first = resize(Reason.OOMED_QUICKLY if killed else Reason.DRIFTED)
    found, state = await decided(
        web(asks=OLD, has=OLD, generation=1, killed=killed), BETTER, UpdaterState(), at=NOW
    )
    assert found == first
    later = NOW + 13 * HOUR
    found, state = await decided(
        web(asks=BETTER, has=BETTER, generation=1, killed=killed), MORE, state, at=later
    )
    assert found == resize(Reason.DRIFTED)
    pending = web(asks=MORE, has=BETTER, generation=1, killed=killed, condition=DEFERRED)
    found, state = await decided(pending, BETTER, state, at=later + MINUTE)
    assert found == resize(Reason.RESIZE_WITHDRAWN)
    back = web(asks=BETTER, has=BETTER, generation=1, killed=killed)
    memory = state.of(back.metadata.uid)
    assert last_resize(back, memory) == NOW
    assert len(answered_ooms(back, memory)) == killed
    more = {**MORE, "memory": "400Mi"}  # the kill would count for that, and the drift does
    found, _ = await decided(back, more, state, at=later + 2 * MINUTE)
    assert found == resize(Reason.DRIFTED)


async def test_a_withdrawal_leaves_the_age_of_the_last_resize() -> None:
    _, state = await decided(web(asks=OLD, has=OLD, generation=1), BETTER, UpdaterState(), at=NOW)
    pending = web(asks=BETTER, has=OLD, generation=1, condition=DEFERRED)
    carried_out = replace(state.of(pending.metadata.uid), resized_at=NOW - HOUR)
    state = replace(state, pods={pending.metadata.uid: carried_out})
    found, state = await decided(pending, OLD, state, at=NOW + MINUTE)
    assert found == resize(Reason.RESIZE_WITHDRAWN)
    back = web(asks=OLD, has=OLD, generation=1)
    found, _ = await decided(back, MORE, state, at=NOW + 2 * MINUTE)
    assert found == leave(Reason.TOO_YOUNG)
