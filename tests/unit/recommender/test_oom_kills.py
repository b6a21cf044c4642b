"""OOM kills: each is returned once, even if the API server repeats it; recommender.md 12.4."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from builders import container, pod
from common.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodStatus,
)
from common.kube.cache import Change
from recommender.model.keys import PodKey
from recommender.sources.oom_feed import OomFeed, PendingOomEvent
from recommender.sources.oom_kills import UNDATED, OomEvent, kills_between, kills_in

AT = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
RUNNING = ContainerState(running=ContainerStateRunning())
WAITING = ContainerState()


def killed(minute: int = 0, reason: str = "OOMKilled") -> ContainerState:
    finished = AT.replace(minute=minute)
    return ContainerState(
        terminated=ContainerStateTerminated(reason=reason, exit_code=137, finished_at=finished)
    )


def at(
    state: ContainerState,
    *,
    restarts: int = 0,
    last: ContainerState | None = None,
    memory: str = "100Mi",
    uid: str = "uid-web-0",
) -> Pod:
    status = ContainerStatus(name="app", state=state, last_state=last, restart_count=restarts)
    found = pod(containers=(container(requests={"memory": memory}),))
    return msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, uid=uid),
        status=PodStatus(phase="Running", container_statuses=(status,)),
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    old: Pod
    new: Pod
    want: tuple[int, ...]  # memory of each kill, in MiB


CASES = [
    Case(id="running, then killed", old=at(RUNNING), new=at(killed()), want=(100,)),
    Case(id="another reason", old=at(RUNNING), new=at(killed(reason="Error")), want=()),
    Case(id="the same kill again", old=at(killed()), new=at(killed()), want=()),
    Case(
        id="killed again after a restart",
        old=at(killed()),
        new=at(killed(5), restarts=1),
        want=(100,),
    ),
    Case(
        id="running again: the old request counts",
        old=at(RUNNING, memory="70Mi"),
        new=at(RUNNING, restarts=1, last=killed()),
        want=(70,),
    ),
    Case(
        id="the end of a back-off",
        old=at(WAITING, restarts=1, last=killed()),
        new=at(RUNNING, restarts=1, last=killed()),
        want=(),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_kills_between(case: Case) -> None:
    found = kills_between(case.old, case.new)
    assert tuple(kill.memory >> 20 for kill in found) == case.want


def test_kills_in_the_first_version_of_a_pod() -> None:
    found = kills_in(at(killed(9), last=killed(3)), initial=False)
    assert [kill.at.minute for kill in found] == [3, 9]


def test_an_invalid_request_is_ignored() -> None:
    (kill,) = kills_in(at(killed(), memory="lots"), initial=False)
    assert kill.memory == 0


def reported_minutes(feed: OomFeed, *versions: Pod | None) -> list[int]:
    for old, new in zip((None, *versions), versions, strict=False):
        feed.on_pod(Change(old, new))
    taken, dropped = feed.take()
    assert dropped == 0
    return [observation.kill.at.minute for observation in taken]


def live_feed() -> OomFeed:
    feed = OomFeed()
    feed.go_live()
    return feed


@pytest.mark.parametrize(
    ("versions", "want"),
    [
        pytest.param((at(RUNNING), at(killed(1))), [1], id="once"),
        pytest.param(
            (at(RUNNING), at(killed(1)), at(killed(1)), at(WAITING, last=killed(1), restarts=1)),
            [1],
            id="repeated in each form",
        ),
        pytest.param((at(killed(1)), None), [1], id="a pod that is deleted after the kill"),
        pytest.param(
            (at(RUNNING), at(WAITING, last=killed(1), restarts=1)), [1], id="a gap in the watch"
        ),
        pytest.param(
            (at(killed(1)), at(killed(1), uid="another")), [1, 1], id="another pod, same name"
        ),
        pytest.param(
            (at(killed(1)), at(killed(2), last=killed(1), restarts=1)), [1, 2], id="two kills"
        ),
    ],
)
def test_each_kill_is_reported_once(versions: tuple[Pod | None, ...], want: list[int]) -> None:
    assert reported_minutes(live_feed(), *versions) == want


def test_kills_of_the_first_list_are_initial() -> None:
    feed = OomFeed()
    feed.on_pod(Change(None, at(killed())))
    feed.go_live()
    feed.on_pod(Change(at(killed()), at(killed(7), restarts=1)))
    taken, _ = feed.take()
    assert [observation.kill.initial for observation in taken] == [True, False]


def test_a_kill_that_only_the_deleted_version_contains() -> None:
    feed = live_feed()
    feed.on_pod(Change(None, at(RUNNING)))
    feed.on_pod(Change(at(RUNNING), None, at(killed(3))))
    taken, _ = feed.take()
    assert [one.kill.at.minute for one in taken] == [3]
    feed.on_pod(Change(None, at(killed(3))))  # the pod is back after an unreadable version
    assert feed.take() == ((), 0)


def test_the_number_of_deleted_pods_whose_kills_are_remembered_is_bounded() -> None:
    feed = live_feed()
    for number in range(10_001):
        gone = at(killed(), uid=str(number))
        feed.on_pod(Change(None, gone))
        feed.on_pod(Change(gone, None))
    feed.take()
    for number in (10_000, 1, 0):
        feed.on_pod(Change(None, at(killed(), uid=str(number))))
    assert [one.kill.uid for one in feed.take()[0]] == ["0"]


def test_kills_in_the_first_version_of_a_new_pod_are_initial() -> None:
    feed = live_feed()
    feed.on_pod(Change(None, at(killed())))
    (one,), _ = feed.take()
    assert one.kill.initial


def test_kills_above_the_bound_are_dropped_and_counted() -> None:
    feed = OomFeed()
    for number in range(50_002):
        feed.on_pod(Change(None, at(killed(), uid=str(number))))
    taken, dropped = feed.take()
    assert (len(taken), dropped) == (50_000, 2)
    assert taken[0].kill.uid == "2"
    assert feed.take() == ((), 0)


def test_a_kill_without_a_time_is_reported_once() -> None:
    state = ContainerState(terminated=ContainerStateTerminated(reason="OOMKilled"))
    feed = live_feed()
    feed.on_pod(Change(None, at(state)))
    feed.on_pod(Change(at(state), at(WAITING, last=state, restarts=1)))
    assert [one.kill.at for one in feed.take()[0]] == [UNDATED]


def test_a_kill_that_the_deleted_version_repeats_is_reported_once() -> None:
    feed = live_feed()
    feed.on_pod(Change(None, at(killed(3))))
    feed.on_pod(Change(at(killed(3)), None, at(killed(3))))
    assert len(feed.take()[0]) == 1


def test_kills_observed_by_a_standby_replica_are_initial() -> None:
    """The leader may have recorded them in a checkpoint."""
    feed = OomFeed()
    feed.on_pod(Change(None, at(RUNNING)))
    feed.on_pod(Change(at(RUNNING), at(killed(3))))
    feed.on_pod(Change(at(killed(3)), at(RUNNING, restarts=1, last=killed(3))))
    feed.go_live()
    taken, _ = feed.take()
    assert [(one.kill.at.minute, one.kill.initial) for one in taken] == [(3, True)]


SECOND = timedelta(seconds=1)


def observed(second: int) -> PendingOomEvent:
    kill = OomEvent(
        pod=PodKey("shop", "web-0"),
        pod_uid="uid-web-0",
        uid=f"uid-{second}",
        container="app",
        at=AT + second * SECOND,
        memory=1,
    )
    return PendingOomEvent(kill=kill, pod=None)


def seconds(observations: Iterable[PendingOomEvent]) -> list[float]:
    return [(one.kill.at - AT) / SECOND for one in observations]


def test_postponed_kills_are_due_at_their_time_oldest_first() -> None:
    feed = live_feed()
    for second in (7, 3, 5, 9):
        assert feed.postpone(observed(second)) is None
    assert feed.take() == ((), 0)
    assert seconds(feed.due(AT + 3 * SECOND - SECOND / 1000)) == []
    assert seconds(feed.due(AT + 3 * SECOND)) == [3]
    assert seconds(feed.due(AT + 8 * SECOND)) == [5, 7]
    assert feed.postponed == 1
    assert seconds(feed.due(AT + 8 * SECOND)) == []


def test_above_the_bound_the_latest_postponed_kill_is_dropped() -> None:
    feed = live_feed()
    for second in range(10_000):
        assert feed.postpone(observed(second)) is None
    dropped = [feed.postpone(observed(second)) for second in (-1, 20_000)]
    assert seconds(one for one in dropped if one is not None) == [9_999, 20_000]
    assert feed.postponed == 10_000


def test_a_postponed_kill_of_a_deleted_pod_has_its_labels() -> None:
    feed = live_feed()
    gone = at(RUNNING)
    feed.on_pod(Change(None, gone))
    feed.postpone(observed(5))
    feed.on_pod(Change(gone, None))
    (one,) = feed.due(AT + 5 * SECOND)
    assert one.pod is not None
    assert one.pod.labels == gone.metadata.labels
