"""When a chapter of the demo has ended well, when it waits, and when it is spoiled."""

from dataclasses import dataclass, field, replace

import pytest

from demo.story import (
    CHAPTERS,
    MIB,
    Amounts,
    PodState,
    Verdict,
    WorkloadState,
    given_back,
)

SMALL = Amounts(cpu=50, memory=250 * MIB)
LARGE = Amounts(cpu=800, memory=1024 * MIB)
START = Amounts(cpu=300, memory=300 * MIB)


def pods(request: Amounts, *, generation: str = "old", count: int = 2) -> tuple[PodState, ...]:
    return tuple(
        PodState(
            name=f"pod-{generation}-{number}",
            uid=f"{generation}-{number}",
            request=request,
            actual=request,
            ready=True,
        )
        for number in range(count)
    )


def state(request: Amounts = START, *, generation: str = "old", **more: object) -> WorkloadState:
    made = WorkloadState(pods=pods(request, generation=generation), target=request)
    return replace(made, **more)  # type: ignore[arg-type]  # field names as keywords


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    chapter: str
    want: Verdict
    now: WorkloadState
    start: WorkloadState = field(default_factory=state)


CASES = [
    Case(
        id="nothing has started",
        chapter="advice",
        start=WorkloadState(),
        now=WorkloadState(),
        want=Verdict.WAITING,
    ),
    Case(
        id="no recommendation yet",
        chapter="advice",
        now=state(target=Amounts()),
        want=Verdict.WAITING,
    ),
    Case(
        id="overprovisioned: all replaced by smaller ones",
        chapter="overprovisioned",
        now=state(SMALL, generation="new", evictions=2),
        want=Verdict.REACHED,
    ),
    Case(
        id="overprovisioned: one old pod is left",
        chapter="overprovisioned",
        now=state(pods=(*pods(SMALL, generation="new", count=1), *pods(START, count=1))),
        want=Verdict.WAITING,
    ),
    Case(
        id="overprovisioned: came back as large",
        chapter="overprovisioned",
        now=state(START, generation="new", evictions=2),
        want=Verdict.SPOILED,
    ),
    Case(
        id="overprovisioned: resized instead of evicted",
        chapter="overprovisioned",
        now=state(SMALL, resizes=1),
        want=Verdict.SPOILED,
    ),
    Case(
        id="underprovisioned: the same pods, larger",
        chapter="underprovisioned",
        now=state(LARGE, resizes=2),
        want=Verdict.REACHED,
    ),
    Case(
        id="underprovisioned: not actuated yet",
        chapter="underprovisioned",
        now=state(pods=tuple(replace(pod, actual=START) for pod in pods(LARGE))),
        want=Verdict.WAITING,
    ),
    Case(
        id="underprovisioned: larger, but other pods",
        chapter="underprovisioned",
        now=state(LARGE, generation="new"),
        want=Verdict.SPOILED,
    ),
    Case(
        id="underprovisioned: larger, but restarted",
        chapter="underprovisioned",
        now=state(LARGE, restarts=1),
        want=Verdict.SPOILED,
    ),
    Case(
        id="toobig: resized without having been infeasible",
        chapter="toobig",
        now=state(LARGE),
        want=Verdict.WAITING,
    ),
    Case(
        id="toobig: infeasible and not resized",
        chapter="toobig",
        now=state(refused=1),
        want=Verdict.WAITING,
    ),
    Case(
        id="toobig: infeasible, then resized",
        chapter="toobig",
        now=state(LARGE, refused=1, resizes=2),
        want=Verdict.REACHED,
    ),
    Case(
        id="toobig: evicted",
        chapter="toobig",
        now=state(LARGE, refused=1, evictions=1),
        want=Verdict.SPOILED,
    ),
    Case(id="leaker: not killed yet", chapter="leaker", now=state(), want=Verdict.WAITING),
    Case(
        id="leaker: killed, target not raised",
        chapter="leaker",
        now=state(oom_kills=1),
        want=Verdict.WAITING,
    ),
    Case(
        id="leaker: killed once, replaced by a larger one",
        chapter="leaker",
        now=state(LARGE, generation="new", oom_kills=1, evictions=1),
        want=Verdict.REACHED,
    ),
    Case(
        id="leaker: killed once, and evicted twice",
        chapter="leaker",
        now=state(LARGE, generation="new", oom_kills=1, evictions=2),
        want=Verdict.SPOILED,
    ),
    Case(
        id="leaker: evicted, target not raised",
        chapter="leaker",
        now=state(generation="new", oom_kills=1, evictions=1),
        want=Verdict.WAITING,
    ),
    Case(
        id="leaker: killed twice",
        chapter="leaker",
        now=state(LARGE, generation="new", oom_kills=2, evictions=1),
        want=Verdict.SPOILED,
    ),
    Case(id="advice: untouched", chapter="advice", now=state(), want=Verdict.REACHED),
    Case(id="advice: resized", chapter="advice", now=state(resizes=1), want=Verdict.SPOILED),
    Case(id="advice: evicted", chapter="advice", now=state(evictions=1), want=Verdict.SPOILED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_judge(case: Case) -> None:
    chapter = next(chapter for chapter in CHAPTERS if chapter.name == case.chapter)

    assert chapter.judge(case.start, case.now).verdict is case.want


def test_what_is_given_back_and_what_others_get_are_summed_apart() -> None:
    before = {"web": state(START), "db": state(SMALL)}
    after = {"web": state(SMALL), "db": state(LARGE)}

    freed, added = given_back(before, after)

    assert freed == Amounts(cpu=2 * 250, memory=2 * 50 * MIB)
    assert added == Amounts(cpu=2 * 750, memory=2 * 774 * MIB)
