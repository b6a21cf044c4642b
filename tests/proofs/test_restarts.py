"""A restarted recommender has the same recommendations as one that is never restarted.

Both receive the same random stream of events; one is restarted between its cycles. ``PROOF_SEEDS``
and ``PROOF_CYCLES`` set the seeds and the length of the streams.
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
USAGES = ((100, 600), (500, 1200), (2500, 2400))  # millicores and MiB, far from each other
NAMES = ("a", "b", "c")
MARGIN = 1.15
LONG_PAUSE = 390  # cycles of half an hour: longer than the eight days of history
STALE_CYCLES = 100  # cycles until a stale recommendation is replaced
KILL_LOSS = 6  # cycles whose samples a killed process may lose


@dataclass(frozen=True, kw_only=True)
class Case:
    """The length of a stream, the frequency of its events, and the ways to restart."""

    name: str
    cycles: int = CYCLES
    quiet_weight: int = 20
    ends: tuple[Restart, ...]
    settings: Mapping[str, timedelta] = field(default_factory=dict)


BOTH = (Restart.STOPPED, Restart.KILLED)
CASES = (
    Case(name="minutes, stopped", ends=(Restart.STOPPED,)),
    Case(name="minutes, stopped or killed", ends=BOTH),
    Case(
        name="half hours, and pauses in which all history expires",
        cycles=3 * CYCLES,
        quiet_weight=60,
        ends=BOTH,
        settings={
            "interval": timedelta(minutes=30),
            "confidence_interval_cpu": timedelta(minutes=20),
            "confidence_interval_memory": timedelta(minutes=20),
        },
    ),
)

Target = tuple[int, int]
"""The buckets of a CPU and a memory target; (-1, -1) without a target."""


@dataclass
class Stream:
    """A random stream of events, reproducible from its seed."""

    shop: Shop
    rng: Random
    quiet_weight: int  # of a cycle without an event; each event has the weight 1
    cycle: int = 0
    events: list[str] = field(default_factory=list)  # each with its cycle
    idle: dict[str, int] = field(default_factory=dict)  # cycles left
    expiring: set[str] = field(default_factory=set)  # idle until their history expires
    deleted: dict[str, int] = field(default_factory=dict)  # VPAs; cycles until their creation
    cpus: dict[str, int] = field(default_factory=dict)  # usage of workloads in millicores

    def advance(self) -> None:
        """Apply the events before the next cycle."""
        for workload in [one for one, left in self.idle.items() if not left]:
            del self.idle[workload]
            self.expiring.discard(workload)
            self.shop.roll_out(workload)
        for name in [one for one, left in self.deleted.items() if not left]:
            del self.deleted[name]
            is_same = self.rng.random() < 0.5
            self.shop.open_again(name, self.shop.targets[name] if is_same else self.new_workload())
        for waiting in (self.idle, self.deleted):
            for one in waiting:
                waiting[one] -= 1
        chosen = self.rng.randrange(self.quiet_weight + len(EVENTS))
        if chosen < len(EVENTS):
            EVENTS[chosen](self)

    def record(self, event: str) -> None:
        self.events.append(f"{self.cycle} {event}")

    def new_workload(self) -> str:
        """Add a workload without history: that of others depends on the VPA that watched them."""
        name = f"new-{len(self.cpus)}"
        self.cpus[name], memory = self.rng.choice(USAGES)
        self.shop.add(name, cpu=self.cpus[name], memory=memory)
        return name

    @property
    def running(self) -> list[str]:
        """Return the workloads with a pod and a VPA."""
        targets = {self.shop.targets[name] for name in self.vpas}
        return sorted(targets - self.idle.keys())

    @property
    def vpas(self) -> list[str]:
        return [one for one in NAMES if one not in self.deleted]

    @property
    def learning(self) -> list[str]:
        """Return the VPAs that may be changed; the history of the others is to expire."""
        return [one for one in self.vpas if self.shop.targets[one] not in self.expiring]


def roll_out(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.record(f"rollout of {workload}")
        stream.shop.roll_out(workload)


def change_labels(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.record(f"other labels of {workload}")
        stream.shop.relabel(workload)


def change_target(stream: Stream) -> None:
    if stream.learning:
        name, workload = stream.rng.choice(stream.learning), stream.new_workload()
        stream.record(f"VPA {name} moves to {workload}")
        stream.shop.retarget(name, workload)


def recreate_vpa(stream: Stream) -> None:
    if stream.learning:
        name = stream.rng.choice(stream.learning)
        stream.record(f"VPA {name} goes")
        stream.shop.close(name)
        stream.deleted[name] = stream.rng.randrange(1, 4)


def oom_kill(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.record(f"OOM kill of {workload}")
        stream.shop.kill_by_memory(workload)


def pause(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.idle[workload] = stream.rng.choice((1, 5, 30, LONG_PAUSE))
        if stream.idle[workload] == LONG_PAUSE:
            stream.expiring.add(workload)
        stream.record(f"{workload} pauses for {stream.idle[workload]} cycles")
        stream.shop.idle(workload)


EVENTS: list[Callable[[Stream], None]] = [
    *[roll_out] * 2,
    change_labels,
    *[change_target] * 2,
    recreate_vpa,
    *[oom_kill] * 2,
    pause,
]


@dataclass(frozen=True)
class Observations:
    """Targets, conditions and sample counts after each cycle, the events and the restarts."""

    targets: list[dict[str, Target]] = field(default_factory=list)
    stale: list[set[str]] = field(default_factory=list)
    samples: list[dict[str, int]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)  # cycles


async def observe(seed: int, case: Case, restarts: Random | None) -> Observations:
    """Run a recommender with a stream of events, and with restarts if given."""
    async with shop(**case.settings) as one:
        stream = Stream(one, Random(seed), case.quiet_weight)
        found = Observations(events=stream.events)
        for name, (cpu, memory) in zip(NAMES, USAGES, strict=True):
            stream.cpus[name] = cpu
            one.open(name, cpu=cpu, memory=memory)
        late = stream.rng.choice(NAMES)
        one.idle(late)
        stream.idle[late] = 20
        await one.start()
        for cycle in range(case.cycles):
            stream.cycle = cycle
            stream.advance()
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
    """Return the bucket whose end, with the margin, is a target."""
    return int(np.argmin(np.abs(table.percentiles - amount / MARGIN)))


@pytest.mark.timeout(60 + CYCLES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_restart_changes_no_target(seed: int, case: Case) -> None:
    want = await observe(seed, case, None)
    got = await observe(seed, case, Random(seed))
    assert got.events == want.events
    for cycle, mine in enumerate(got.targets):
        killed = [one for one in got.killed if one <= cycle]
        near = bool(killed) and cycle - killed[-1] <= KILL_LOSS
        for name, target in mine.items():
            theirs = want.targets[cycle][name]
            what = (f"cycle {cycle}, {name}: instead of {theirs}", got.ended, got.events)
            # Samples from before a rollout expire earlier than those of a checkpoint.
            is_old = name not in want.samples[cycle] or name in want.stale[cycle]
            back = LONG_PAUSE + STALE_CYCLES if is_old else KILL_LOSS if near else 0
            around = want.targets[max(cycle - back, 0) : cycle + back]
            allowed = [theirs, *(one[name] for one in around if name in one)]
            assert any(differs_by_one_bucket(target, one) for one in allowed), (target, *what)
        for name, samples in got.samples[cycle].items():
            # A deleted VPA loses the samples since the last checkpoint.
            gone = KILL_LOSS * sum(f"{at} VPA {name} goes" in got.events for at in range(cycle + 1))
            lost = want.samples[cycle][name] - samples
            what = (f"cycle {cycle}, {name}: {samples}", got.ended, got.events)
            assert -gone <= lost <= gone + KILL_LOSS * len(killed), (lost, *what)


def differs_by_one_bucket(one: Target, other: Target) -> bool:
    """Return True if two targets differ by at most one bucket."""
    return all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))
