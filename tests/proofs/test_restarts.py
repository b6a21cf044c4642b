"""A recommender that is restarted at any moment recommends what one does that lives on.

Two of them see the same stream of events; one is restarted between its cycles. ``PROOF_SEEDS`` and
``PROOF_CYCLES`` draw others and longer ones.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import numpy as np
import pytest

from common.quantity import parse_milli, parse_value
from recommender.model import buckets
from restart_simulation import Restart
from restarted_process import Shop, shop

SEEDS = [int(seed) for seed in os.environ.get("PROOF_SEEDS", "1").split(",")]
CYCLES = int(os.environ.get("PROOF_CYCLES", "60"))
SIZES = ((100, 600), (500, 1200), (2500, 2400))  # millicores and MiB, far from each other
NAMES = ("a", "b", "c")
MARGIN = 1.15
LONG_PAUSE = 390  # cycles; eight days of half hours, and some more
STALE = 100  # cycles in which a stale recommendation may stay, until it is replaced
AROUND = 6  # cycles in which a process that is killed may have lost what it saw


@dataclass(frozen=True, kw_only=True)
class Case:
    """How long a stream is, how much happens in it, and how processes end."""

    name: str
    cycles: int = CYCLES
    calm: int = 20
    ends: tuple[Restart, ...]
    settings: Mapping[str, timedelta] = field(default_factory=dict)


BOTH = (Restart.STOPPED, Restart.KILLED)
CASES = (
    Case(name="minutes, stopped", ends=(Restart.STOPPED,)),
    Case(name="minutes, stopped or killed", ends=BOTH),
    Case(
        name="half hours, and pauses in which all expires",
        cycles=3 * CYCLES,
        calm=60,
        ends=BOTH,
        settings={
            "interval": timedelta(minutes=30),
            "confidence_interval_cpu": timedelta(minutes=20),
            "confidence_interval_memory": timedelta(minutes=20),
        },
    ),
)

Target = tuple[int, int]
"""The buckets of a target, of CPU and of memory; (-1, -1) without a target."""


@dataclass
class Stream:
    """What happens, cycle by cycle; the same for the same seed."""

    shop: Shop
    rng: Random
    calm: int  # how much more often nothing happens than each single event
    cycle: int = 0
    events: list[str] = field(default_factory=list)  # each with its cycle
    idle: dict[str, int] = field(default_factory=dict)  # cycles left
    expiring: set[str] = field(default_factory=set)  # idle for so long that all is forgotten
    closed: dict[str, int] = field(default_factory=dict)  # VPAs that come back
    cpus: dict[str, int] = field(default_factory=dict)  # what workloads use, in millicores

    def happens(self) -> None:
        """What happens before the next cycle."""
        for workload in [one for one, left in self.idle.items() if not left]:
            del self.idle[workload]
            self.expiring.discard(workload)
            self.shop.roll_out(workload)
        for name in [one for one, left in self.closed.items() if not left]:
            del self.closed[name]
            is_same = self.rng.random() < 0.5
            self.shop.open_again(name, self.shop.targets[name] if is_same else self.new_workload())
        for waiting in (self.idle, self.closed):
            for one in waiting:
                waiting[one] -= 1
        chosen = self.rng.randrange(self.calm + len(EVENTS))
        if chosen < len(EVENTS):
            EVENTS[chosen](self)

    def note(self, event: str) -> None:
        self.events.append(f"{self.cycle} {event}")

    def new_workload(self) -> str:
        """One that nobody has seen: what is known of others depends on who watched them."""
        name = f"new-{len(self.cpus)}"
        self.cpus[name], memory = self.rng.choice(SIZES)
        self.shop.add(name, cpu=self.cpus[name], memory=memory)
        return name

    @property
    def running(self) -> list[str]:
        """Workloads that have a pod and a VPA."""
        targets = {self.shop.targets[name] for name in self.vpas}
        return sorted(targets - self.idle.keys())

    @property
    def vpas(self) -> list[str]:
        return [one for one in NAMES if one not in self.closed]

    @property
    def learning(self) -> list[str]:
        """VPAs that may go or move; the others wait for what they know to expire."""
        return [one for one in self.vpas if self.shop.targets[one] not in self.expiring]


def a_rollout(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.note(f"rollout of {workload}")
        stream.shop.roll_out(workload)


def other_labels(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.note(f"other labels of {workload}")
        stream.shop.relabel(workload)


def another_target(stream: Stream) -> None:
    if stream.learning:
        name, workload = stream.rng.choice(stream.learning), stream.new_workload()
        stream.note(f"VPA {name} moves to {workload}")
        stream.shop.retarget(name, workload)


def a_vpa_goes_and_comes(stream: Stream) -> None:
    if stream.learning:
        name = stream.rng.choice(stream.learning)
        stream.note(f"VPA {name} goes")
        stream.shop.close(name)
        stream.closed[name] = stream.rng.randrange(1, 4)


def a_kill(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.note(f"OOM kill of {workload}")
        stream.shop.kill_by_memory(workload)


def a_pause(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.idle[workload] = stream.rng.choice((1, 5, 30, LONG_PAUSE))
        if stream.idle[workload] == LONG_PAUSE:
            stream.expiring.add(workload)
        stream.note(f"{workload} pauses for {stream.idle[workload]} cycles")
        stream.shop.idle(workload)


EVENTS: list[Callable[[Stream], None]] = [
    *[a_rollout] * 2,
    other_labels,
    *[another_target] * 2,
    a_vpa_goes_and_comes,
    *[a_kill] * 2,
    a_pause,
]


@dataclass(frozen=True)
class Seen:
    """What was known and recommended after each cycle, what happened, and each restart."""

    targets: list[dict[str, Target]] = field(default_factory=list)
    stale: list[set[str]] = field(default_factory=list)
    samples: list[dict[str, int]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)  # cycles


async def seen(seed: int, case: Case, restarts: Random | None) -> Seen:
    """Let a stream happen to a recommender, which is restarted now and then, or isn't."""
    async with shop(**case.settings) as one:
        stream = Stream(one, Random(seed), case.calm)
        found = Seen(events=stream.events)
        for name, (cpu, memory) in zip(NAMES, SIZES, strict=True):
            stream.cpus[name] = cpu
            one.open(name, cpu=cpu, memory=memory)
        late = stream.rng.choice(NAMES)
        one.idle(late)
        stream.idle[late] = 20
        await one.start()
        for cycle in range(case.cycles):
            stream.cycle = cycle
            stream.happens()
            await one.cycle()
            found.targets.append({name: target_of(one, name) for name in stream.vpas})
            found.stale.append(
                {name for name in stream.vpas if one.condition(name, "StaleRecommendation")}
            )
            found.samples.append({name: one.samples(name) for name in stream.learning})
            for name, target in found.targets[-1].items():
                cpu = stream.cpus[one.targets[name]]
                (own,) = buckets.CPU.of(np.array([cpu]))
                assert target[0] in (-1, own), (name, one.targets[name], cpu, stream.events)
            if restarts is not None and restarts.random() < 0.08:
                how = restarts.choice(case.ends)
                found.ended.append(f"{cycle} {how}")
                if how is Restart.KILLED:
                    found.killed.append(cycle)
                await (one.stop() if how is Restart.STOPPED else one.kill())
                await one.start()
        return found


def target_of(one: Shop, name: str) -> Target:
    target = one.target(name)
    if not target:
        return (-1, -1)
    return (
        bucket(buckets.CPU, parse_milli(target["cpu"])),
        bucket(buckets.MEMORY, parse_value(target["memory"])),
    )


def bucket(table: buckets.Buckets, amount: int) -> int:
    """The bucket whose end, with the margin, is a target."""
    return int(np.argmin(np.abs(table.percentiles - amount / MARGIN)))


@pytest.mark.timeout(60 + CYCLES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_restart_changes_no_target(seed: int, case: Case) -> None:
    want = await seen(seed, case, None)
    got = await seen(seed, case, Random(seed))
    assert got.events == want.events
    for cycle, mine in enumerate(got.targets):
        killed = [one for one in got.killed if one <= cycle]
        near = bool(killed) and cycle - killed[-1] <= AROUND
        for name, target in mine.items():
            theirs = want.targets[cycle][name]
            what = (f"cycle {cycle}, {name}: instead of {theirs}", got.ended, got.events)
            # What was used before a rollout expires first; a checkpoint keeps it with the rest.
            is_old = name not in want.samples[cycle] or name in want.stale[cycle]
            back = LONG_PAUSE + STALE if is_old else AROUND if near else 0
            around = want.targets[max(cycle - back, 0) : cycle + back]
            allowed = [theirs, *(one[name] for one in around if name in one)]
            assert any(is_near(target, one) for one in allowed), (target, *what)
        for name, samples in got.samples[cycle].items():
            # What was learnt since the last checkpoint goes with a VPA that is deleted.
            gone = AROUND * sum(f"{at} VPA {name} goes" in got.events for at in range(cycle + 1))
            lost = want.samples[cycle][name] - samples
            what = (f"cycle {cycle}, {name}: {samples}", got.ended, got.events)
            assert -gone <= lost <= gone + AROUND * len(killed), (lost, *what)


def is_near(one: Target, other: Target) -> bool:
    """Within a bucket."""
    return all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))
