"""The state of a workload of the demo: reached, waiting or failed."""

from dataclasses import dataclass, field, replace

import pytest

from demo.workloads import (
    MIB,
    WORKLOADS,
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
    workload: str
    want: Verdict
    now: WorkloadState
    start: WorkloadState = field(default_factory=state)


CASES = [
    Case(
        id="nothing has started",
        workload="advice",
        start=WorkloadState(),
        now=WorkloadState(),
        want=Verdict.WAITING,
    ),
    Case(
        id="no recommendation yet",
        workload="advice",
        now=state(target=Amounts()),
        want=Verdict.WAITING,
    ),
    Case(
        id="overprovisioned: all replaced by smaller ones",
        workload="overprovisioned",
        now=state(SMALL, generation="new", evictions=2),
        want=Verdict.REACHED,
    ),
    Case(
        id="overprovisioned: one old pod is left",
        workload="overprovisioned",
        now=state(pods=(*pods(SMALL, generation="new", count=1), *pods(START, count=1))),
        want=Verdict.WAITING,
    ),
    Case(
        id="overprovisioned: replaced by pods of the same size",
        workload="overprovisioned",
        now=state(START, generation="new", evictions=2),
        want=Verdict.FAILED,
    ),
    Case(
        id="overprovisioned: resized instead of evicted",
        workload="overprovisioned",
        now=state(SMALL, resizes=1),
        want=Verdict.FAILED,
    ),
    Case(
        id="underprovisioned: the same pods, larger",
        workload="underprovisioned",
        now=state(LARGE, resizes=2),
        want=Verdict.REACHED,
    ),
    Case(
        id="underprovisioned: not actuated yet",
        workload="underprovisioned",
        now=state(pods=tuple(replace(pod, actual=START) for pod in pods(LARGE))),
        want=Verdict.WAITING,
    ),
    Case(
        id="underprovisioned: larger, but other pods",
        workload="underprovisioned",
        now=state(LARGE, generation="new"),
        want=Verdict.FAILED,
    ),
    Case(
        id="underprovisioned: larger, but restarted",
        workload="underprovisioned",
        now=state(LARGE, restarts=1),
        want=Verdict.FAILED,
    ),
    Case(
        id="toobig: resized without having been infeasible",
        workload="toobig",
        now=state(LARGE),
        want=Verdict.WAITING,
    ),
    Case(
        id="toobig: infeasible and not resized",
        workload="toobig",
        now=state(refused=1),
        want=Verdict.WAITING,
    ),
    Case(
        id="toobig: infeasible, then resized",
        workload="toobig",
        now=state(LARGE, refused=1, resizes=2),
        want=Verdict.REACHED,
    ),
    Case(
        id="toobig: evicted",
        workload="toobig",
        now=state(LARGE, refused=1, evictions=1),
        want=Verdict.FAILED,
    ),
    Case(id="leaker: not killed yet", workload="leaker", now=state(), want=Verdict.WAITING),
    Case(
        id="leaker: killed, target not raised",
        workload="leaker",
        now=state(oom_kills=1),
        want=Verdict.WAITING,
    ),
    Case(
        id="leaker: killed once, replaced by a larger one",
        workload="leaker",
        now=state(LARGE, generation="new", oom_kills=1, evictions=1),
        want=Verdict.REACHED,
    ),
    Case(
        id="leaker: killed once, and evicted twice",
        workload="leaker",
        now=state(LARGE, generation="new", oom_kills=1, evictions=2),
        want=Verdict.FAILED,
    ),
    Case(
        id="leaker: evicted, target not raised",
        workload="leaker",
        now=state(generation="new", oom_kills=1, evictions=1),
        want=Verdict.WAITING,
    ),
    Case(
        id="leaker: killed twice",
        workload="leaker",
        now=state(LARGE, generation="new", oom_kills=2, evictions=1),
        want=Verdict.FAILED,
    ),
    Case(id="advice: untouched", workload="advice", now=state(), want=Verdict.REACHED),
    Case(id="advice: resized", workload="advice", now=state(resizes=1), want=Verdict.FAILED),
    Case(id="advice: evicted", workload="advice", now=state(evictions=1), want=Verdict.FAILED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_judge(case: Case) -> None:
    workload = next(workload for workload in WORKLOADS if workload.name == case.workload)

    assert workload.judge(case.start, case.now).verdict is case.want


def test_reductions_and_increases_are_summed_separately() -> None:
    before = {"web": state(START), "db": state(SMALL)}
    after = {"web": state(SMALL), "db": state(LARGE)}

    freed, added = given_back(before, after)

    assert freed == Amounts(cpu=2 * 250, memory=2 * 50 * MIB)
    assert added == Amounts(cpu=2 * 750, memory=2 * 774 * MIB)
