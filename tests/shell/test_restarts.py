"""A recommender that is restarted at any moment recommends what one does that lives on.

Two of them see the same stream of events; one is restarted between its cycles. ``PROOF_SEEDS`` and
``PROOF_CYCLES`` draw others and longer ones.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import numpy as np
import pytest

from common.quantity import parse_milli, parse_value
from recommender import buckets
from restarted_process import Shop, shop

SEEDS = [int(seed) for seed in os.environ.get("PROOF_SEEDS", "1").split(",")]
CYCLES = int(os.environ.get("PROOF_CYCLES", "240"))
SIZES = ((100, 600), (500, 1200), (2500, 2400))  # millicores and MiB, far from each other
NAMES = ("a", "b", "c")
MARGIN = 1.15
AROUND = 6  # cycles in which a process that is killed may have lost what it saw
LONG = {
    "interval": timedelta(minutes=30),
    "confidence_interval_cpu": timedelta(minutes=20),
    "confidence_interval_memory": timedelta(minutes=20),
}

Bought = tuple[int, int]
"""The buckets of a target, of CPU and of memory; (-1, -1) without a target."""


@dataclass
class Stream:
    """What happens, cycle by cycle; the same for the same seed."""

    shop: Shop
    rng: Random
    told: list[str] = field(default_factory=list)
    idle: dict[str, int] = field(default_factory=dict)  # cycles left
    closed: dict[str, int] = field(default_factory=dict)  # VPAs that come back
    cpus: dict[str, int] = field(default_factory=dict)  # what workloads use, in millicores

    def happens(self) -> None:
        """What happens before the next cycle."""
        for workload in [one for one, left in self.idle.items() if not left]:
            del self.idle[workload]
            self.shop.roll_out(workload)
        for name in [one for one, left in self.closed.items() if not left]:
            del self.closed[name]
            is_same = self.rng.random() < 0.5
            self.shop.open_again(name, self.shop.targets[name] if is_same else self.new_workload())
        for waiting in (self.idle, self.closed):
            for one in waiting:
                waiting[one] -= 1
        chosen = self.rng.choice(EVENTS)
        if chosen is not None:
            chosen(self)

    def tell(self, event: str) -> None:
        self.told.append(f"{self.shop.now:%dd %H:%M} {event}")

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


def a_rollout(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.tell(f"rollout of {workload}")
        stream.shop.roll_out(workload)


def other_labels(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.tell(f"other labels of {workload}")
        stream.shop.relabel(workload)


def another_target(stream: Stream) -> None:
    if stream.vpas:
        name, workload = stream.rng.choice(stream.vpas), stream.new_workload()
        stream.tell(f"VPA {name} moves to {workload}")
        stream.shop.retarget(name, workload)


def a_vpa_goes_and_comes(stream: Stream) -> None:
    if stream.vpas:
        name = stream.rng.choice(stream.vpas)
        stream.tell(f"VPA {name} goes")
        stream.shop.close(name)
        stream.closed[name] = stream.rng.randrange(1, 4)


def a_kill(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.tell(f"OOM kill of {workload}")
        stream.shop.kill_by_memory(workload)


def a_pause(stream: Stream) -> None:
    if stream.running:
        workload = stream.rng.choice(stream.running)
        stream.idle[workload] = stream.rng.choice((1, 5, 30, 450))
        stream.tell(f"{workload} pauses for {stream.idle[workload]} cycles")
        stream.shop.idle(workload)


EVENTS: list[Callable[[Stream], None] | None] = [
    *[None] * 20,
    *[a_rollout] * 2,
    other_labels,
    *[another_target] * 2,
    a_vpa_goes_and_comes,
    *[a_kill] * 2,
    a_pause,
]


async def seen(
    seed: int, restarts: Random | None, cycles: int, settings: dict[str, timedelta]
) -> tuple[list[dict[str, Bought]], list[str], list[str]]:
    """The targets after each cycle, what happened, and each restart."""
    found: list[dict[str, Bought]] = []
    ended: list[str] = []
    async with shop(**settings) as one:
        stream = Stream(one, Random(seed))
        for name, (cpu, memory) in zip(NAMES, SIZES, strict=True):
            stream.cpus[name] = cpu
            one.open(name, cpu=cpu, memory=memory)
        late = stream.rng.choice(NAMES)
        one.idle(late)
        stream.idle[late] = 20
        await one.start()
        for cycle in range(cycles):
            stream.happens()
            await one.cycle()
            found.append({name: bought(one, name) for name in stream.vpas})
            for name, target in found[-1].items():
                cpu = stream.cpus[one.targets[name]]
                (own,) = buckets.CPU.of(np.array([cpu]))
                assert target[0] in (-1, own), (name, one.targets[name], cpu, stream.told)
            if restarts is not None and restarts.random() < 0.08:
                how = restarts.choice(("stopped", "killed"))
                ended.append(f"{cycle} {how}")
                await (one.stop() if how == "stopped" else one.kill())
                await one.start()
        return found, stream.told, ended


def bought(one: Shop, name: str) -> Bought:
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


@pytest.mark.parametrize(
    ("cycles", "settings"), [(CYCLES, {}), (3 * CYCLES, LONG)], ids=["hours", "days"]
)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_restart_changes_no_target(
    seed: int, cycles: int, settings: dict[str, timedelta]
) -> None:
    want, told, _ = await seen(seed, None, cycles, settings)
    got, again, ended = await seen(seed, Random(seed), cycles, settings)
    assert again == told
    killed = [int(one.partition(" ")[0]) for one in ended if one.endswith("killed")]
    for cycle, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        near = any(0 <= cycle - one <= AROUND for one in killed)
        around = want[max(cycle - AROUND, 0) : cycle + AROUND] if near else [theirs]
        for name, target in mine.items():
            allowed = [one[name] for one in around if name in one]
            assert any(is_near(target, one) for one in allowed), (
                f"cycle {cycle}, {name}: {target} instead of {theirs[name]}",
                ended,
                told,
            )


def is_near(one: Bought, other: Bought) -> bool:
    """Within a bucket."""
    return all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))
