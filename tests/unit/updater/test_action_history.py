"""The history of evictions and resizes: what is recorded, and the outcomes in later passes."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from msgspec import structs

from builders import container, pod
from common.api.autoscaling import UpdateMode
from common.api.core import ContainerStatus, PodCondition, ResourceRequirements
from common.errors import KubeError, TooManyRequestsError, UnreachableError
from common.read_api.history import MOST_ENTRIES
from common.read_model.updater import ActionOutcome, PastAction, WorkloadReference
from live_specs import schedulable
from updater.action_history import ActionHistory
from updater.eviction.breaker import ReplacementNote
from updater.eviction.replacement_result import ReplacementResult
from updater.snapshot.live_pod import LivePod
from updater.state import UpdaterState
from updater_harness import NOW, FakeActuator, live_pod, run, snapshot

BUDGET = TooManyRequestsError("the budget allows none", reason="TooManyRequests")
LATER = NOW + timedelta(minutes=1)


async def after_pass(
    mode: UpdateMode,
    *,
    error: KubeError | None = None,
) -> tuple[ActionHistory, UpdaterState]:
    """Return the history and the state after a pass in which each pod needs an update."""
    history, chosen = ActionHistory(), ["web-0", "web-1"]
    actuator = FakeActuator(
        eviction_errors=dict.fromkeys(chosen, error) if error else {},
        resize_errors=dict.fromkeys(chosen, error) if error else {},
    )
    given = snapshot(mode, names=chosen)
    return history, await run(given, actuator, history=history)


def only(history: ActionHistory) -> PastAction:
    """Return the only entry about the first pod."""
    (entry,) = (entry for entry in history.entries.newest_first() if entry.pod == "web-0")
    return entry


async def test_an_accepted_eviction() -> None:
    history, _ = await after_pass(UpdateMode.RECREATE)
    assert only(history) == PastAction(
        number=1,
        at=NOW,
        namespace="default",
        vpa="web",
        action="evict",
        pod="web-0",
        uid="uid-web-0",
        node="node-1",
        owner=WorkloadReference(api_version="apps/v1", kind="ReplicaSet", name="web"),
        reason="outside_range",
        meaning="A request is outside lower and upper bound.",
        changes="app cpu 10m -> 250m, memory 10Mi -> 256Mi",
        outcome=ActionOutcome.ACCEPTED,
        settled_at=None,
        status=None,
        error_reason=None,
        error=None,
        replacement=None,
    )


@pytest.mark.parametrize(
    ("mode", "action"),
    [
        pytest.param(UpdateMode.RECREATE, "evict", id="an eviction"),
        pytest.param(UpdateMode.IN_PLACE, "resize", id="a resize"),
    ],
)
@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        pytest.param(BUDGET, 429, "TooManyRequests", id="refused"),
        pytest.param(
            UnreachableError("no answer", reason="Unreachable"), 0, "Unreachable", id="no answer"
        ),
    ],
)
async def test_a_refused_action_is_settled_at_once(
    mode: UpdateMode, action: str, error: KubeError, status: int, reason: str
) -> None:
    history, _ = await after_pass(mode, error=error)
    found = only(history)
    assert (found.action, found.outcome, found.settled_at) == (action, ActionOutcome.REFUSED, NOW)
    assert (found.status, found.error_reason, found.error) == (status, reason, str(error))


async def test_a_long_error_is_cut() -> None:
    history, _ = await after_pass(UpdateMode.RECREATE, error=KubeError("x" * 5000, reason="X"))
    assert len(only(history).error or "") == 1000


@pytest.mark.parametrize(
    ("result", "replacement", "outcome"),
    [
        (ReplacementResult.RIGHT, "web-9", ActionOutcome.REPLACED_RIGHT),
        (ReplacementResult.UNPATCHED, "web-9", ActionOutcome.REPLACED_WRONG),
        (ReplacementResult.OUTSIDE_RANGE, "web-9", ActionOutcome.REPLACED_WRONG),
        (ReplacementResult.NOT_CREATED, "", ActionOutcome.NOT_REPLACED),
        (ReplacementResult.UNKNOWN, "", ActionOutcome.UNKNOWN),
    ],
)
async def test_the_outcome_of_an_eviction(
    result: ReplacementResult, replacement: str, outcome: ActionOutcome
) -> None:
    history, _ = await after_pass(UpdateMode.RECREATE)
    history.note_replacement(ReplacementNote(result, replacement, "uid-web-1"), now=LATER)
    by_pod = {entry.pod: entry for entry in history.entries.newest_first()}
    settled = by_pod["web-1"]
    assert (settled.outcome, settled.replacement) == (outcome, replacement or None)
    assert settled.settled_at == LATER
    assert by_pod["web-0"].outcome is ActionOutcome.ACCEPTED
    again = ReplacementNote(ReplacementResult.RIGHT, "other", "uid-web-1")
    history.note_replacement(again, now=LATER)
    assert settled in history.entries.newest_first()


async def test_each_result_of_the_breaker_has_an_outcome() -> None:
    for result in ReplacementResult:
        history, _ = await after_pass(UpdateMode.RECREATE)
        history.note_replacement(ReplacementNote(result, "", "uid-web-0"), now=LATER)
        assert only(history).settled_at == LATER


async def test_a_replacement_of_an_unknown_eviction_changes_nothing() -> None:
    history, _ = await after_pass(UpdateMode.RECREATE)
    history.note_replacement(ReplacementNote(ReplacementResult.RIGHT, "web-9", "other"), now=LATER)
    assert only(history).outcome is ActionOutcome.ACCEPTED


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The pod as the cache shows it in a later pass."""

    id: str
    generation: int = 2
    uid: str = "uid-web-0"
    cpu: str = "250m"  # in the spec
    reported: str | None = None  # by the kubelet; None: nothing
    condition: str = ""
    gone: bool = False
    want: ActionOutcome


SEEN = [
    Seen(id="the kubelet has finished", want=ActionOutcome.RESIZED),
    Seen(id="the cache is older than the resize", generation=1, want=ActionOutcome.ACCEPTED),
    Seen(id="the kubelet reports the old request", reported="10m", want=ActionOutcome.ACCEPTED),
    Seen(id="the kubelet reports the new request", reported="250m", want=ActionOutcome.RESIZED),
    Seen(
        id="the resize is in progress", condition="PodResizeInProgress", want=ActionOutcome.ACCEPTED
    ),
    Seen(id="the resize is pending", condition="PodResizePending", want=ActionOutcome.ACCEPTED),
    Seen(id="the pod is gone", gone=True, want=ActionOutcome.UNKNOWN),
    Seen(id="another pod has its name", uid="other", want=ActionOutcome.UNKNOWN),
]


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.id)
async def test_the_outcome_of_a_resize(seen: Seen) -> None:
    history, state = await after_pass(UpdateMode.IN_PLACE)
    assert only(history).changes == "app cpu 10m -> 250m, memory 10Mi -> 256Mi"
    assert only(history).outcome is ActionOutcome.ACCEPTED
    shown = None if seen.gone else resized(seen)
    history.note_resizes(lambda *_: shown, state, now=LATER)
    found = only(history)
    assert found.outcome is seen.want
    assert found.settled_at == (None if seen.want is ActionOutcome.ACCEPTED else LATER)


def resized(seen: Seen) -> LivePod:
    """Return the pod of the case."""
    requests = {"cpu": seen.cpu, "memory": "256Mi"}
    reported = None
    if seen.reported is not None:
        present = ResourceRequirements(requests=requests | {"cpu": seen.reported})
        reported = (ContainerStatus(name="app", resources=present),)
    conditions = (PodCondition(type=seen.condition, status="True"),) if seen.condition else None
    before = live_pod("web-0")
    return structs.replace(
        before,
        metadata=structs.replace(before.metadata, uid=seen.uid, generation=seen.generation),
        spec=schedulable(pod("web-0", containers=(container(requests=requests),)).spec),
        status=structs.replace(before.status, conditions=conditions, container_statuses=reported),
    )


async def test_a_further_resize_takes_the_result_of_the_one_before() -> None:
    history, state = await after_pass(UpdateMode.IN_PLACE)
    given = snapshot(UpdateMode.IN_PLACE, names=["web-0", "web-1"])
    await run(given, FakeActuator(), history=history)

    def outcomes() -> list[ActionOutcome]:
        mine = (entry for entry in history.entries.newest_first() if entry.pod == "web-0")
        return [entry.outcome for entry in mine]

    assert outcomes() == [ActionOutcome.ACCEPTED, ActionOutcome.UNKNOWN]
    done = resized(SEEN[0])
    history.note_resizes(lambda _, name: done if name == "web-0" else None, state, now=LATER)
    assert outcomes() == [ActionOutcome.RESIZED, ActionOutcome.UNKNOWN]


async def test_memory_is_bounded() -> None:
    history = ActionHistory()
    for start in range(0, 2 * MOST_ENTRIES, 500):
        names = [f"web-{number}" for number in range(start, start + 500)]
        for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE):
            await run(snapshot(mode, names=names), FakeActuator(), history=history)
    assert len(history.entries) == MOST_ENTRIES
    assert history.unsettled <= 2 * (MOST_ENTRIES + 1)
