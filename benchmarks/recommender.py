"""How fast and how large the recommender is: ``make bench-recommender``.

The recommender is a process of its own, and so is the load mode of the sandbox, which answers from
prepared bytes (sandbox/README.md): ten pods for each VPA and two containers in each, every one with
a checkpoint of eight days; usage is another one in every cycle, and for two percent of the VPAs it
has grown enough for another target. Whatever the recommender writes is part of the figures: at the
client's limits by default, and with these limits out of the way.

Means of the cycles are printed, and of several rounds the medians, because the machine is rarely
ours alone.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load_world import (
    Component,
    Load,
    Pings,
    TooSlowError,
    await_that,
    component,
    load_mode,
    machine,
    medians,
)
from sandbox.load.layout import CONTAINERS

SIZES = (1000, 5000, 15_000)  # VPAs
PODS = 10  # of a VPA
_STATUSES = "verticalpodautoscalers/status"
_CHECKPOINTS = "verticalpodautoscalercheckpoints"
_USAGE = "podmetrics"
_POLL_SECONDS = 0.5
_BARS: Mapping[int, Mapping[str, float]] = {
    1000: {"cpu": 0.5, "peak": 200, "start": 5, "block": 200},
    5000: {"cpu": 2.5, "peak": 600, "start": 20, "block": 200},
    15_000: {"cpu": 8, "peak": 1.6 * 1024, "start": 60, "block": 200},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of the recommender's client: requests a second, and so many at once."""

    name: str
    flags: tuple[str, ...] = ()  # behind those that raise the limits


RAISED = Limits(name="raised")
DEFAULT = Limits(name="default", flags=("--kube-api-qps=50", "--kube-api-burst=100"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is measured at each size."""

    cycles: int
    interval: float  # seconds
    tls: bool
    flags: tuple[str, ...]


def measure(vpas: int, limits: Limits, asked: Asked, folder: Path) -> dict[str, float]:
    """Start it, and let it work for some cycles."""
    folder.mkdir(parents=True)
    serving = (f"--vpas={vpas}", f"--pods-per-vpa={PODS}", "--checkpoints", f"--tls={asked.tls}")
    flags = (f"--recommender-interval={asked.interval}s", *limits.flags, *asked.flags)
    with load_mode(folder, *serving) as load:
        load.reset()
        with component("recommender", load, folder, *flags) as recommender:
            await_that(lambda: _count(load, "patch", _STATUSES) > 0, "the first status patch")
            start = _first(load, _STATUSES)
            started = recommender.cpu
            # What follows on the start is over with the cycle after it.
            cycles = Cycles(load, recommender)
            cycles.run(1)
            steady = cycles.run(asked.cycles)
            peak = recommender.peak_rss
            pings = Pings(recommender.ops_port)
            with pings.running():  # their CPU is not a cycle's
                cycles.run(1)
            served = load.report()["world"]
            # Where a cycle ends is seen half a second late, or later: their mean is right anyway.
            used = statistics.fmean(one.cpu for one in steady)
            containers = vpas * PODS * len(CONTAINERS)
            return {
                "start": start,
                "start cpu": started,
                "cpu": used,
                "most cpu": max(one.cpu for one in steady),
                "container": used / containers * 1e6,
                "peak": peak,
                "block": pings.longest * 1e3,
                "statuses": statistics.fmean(one.statuses for one in steady),
                "checkpoints": statistics.fmean(one.checkpoints for one in steady),
                "took": statistics.fmean(one.seconds for one in steady),
                "server cpu": statistics.fmean(one.server_cpu for one in steady),
                "server rss": load.peak_rss,
                "pod": served["podBytes"],
                "complaints": len(recommender.complaints),
            }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """From one question for usage to the next."""

    seconds: float
    cpu: float  # seconds
    server_cpu: float
    statuses: int  # that were written
    checkpoints: int


class Cycles:
    """Cuts the time into cycles, by what the load mode is asked for."""

    def __init__(self, load: Load, recommender: Component) -> None:
        self._load = load
        self._recommender = recommender
        self._lists = _count(load, "list", _USAGE)
        self._wait()

    def run(self, count: int) -> list[Cycle]:
        """The next cycles."""
        found = []
        for _ in range(count):
            before = self._now()
            self._wait()
            after = self._now()
            cpu, server, began, statuses, checkpoints = (
                b - a for a, b in zip(before, after, strict=True)
            )
            found.append(
                Cycle(
                    seconds=began,
                    cpu=cpu,
                    server_cpu=server,
                    statuses=int(statuses),
                    checkpoints=int(checkpoints),
                )
            )
        return found

    def _wait(self) -> None:
        """Until usage has been asked for once more."""

        def asked() -> bool:
            return _count(self._load, "list", _USAGE) > self._lists

        await_that(asked, "another cycle", every=_POLL_SECONDS)
        self._lists = _count(self._load, "list", _USAGE)

    def _now(self) -> tuple[float, ...]:
        return (
            self._recommender.cpu,
            self._load.cpu,
            time.monotonic(),
            _count(self._load, "patch", _STATUSES),
            _count(self._load, "patch", _CHECKPOINTS),
        )


def _count(load: Load, verb: str, resource: str) -> int:
    return sum(
        one["count"]
        for one in load.report()["calls"]
        if (one["verb"], one["resource"]) == (verb, resource)
    )


def _first(load: Load, resource: str) -> float:
    """Seconds from the reset to the first patch."""
    found = (
        float(one["first"])
        for one in load.report()["calls"]
        if (one["verb"], one["resource"]) == ("patch", resource)
    )
    return min(found)


_LINES = (
    ("start", "s", "from the start to the first status patch"),
    ("start cpu", "s", "CPU until then"),
    ("cpu", "s", "CPU of a steady cycle"),
    ("most cpu", "s", "CPU of the dearest"),
    ("container", "us", "CPU of a cycle for a container"),
    ("peak", "MiB", "most memory, start and all cycles"),
    ("block", "ms", "longest answer of /health-check in a cycle"),
    ("statuses", "", "status patches of a cycle"),
    ("checkpoints", "", "checkpoints written in a cycle"),
    ("took", "s", "from cycle to cycle"),
    ("server cpu", "s", "CPU of the load mode in a cycle"),
    ("server rss", "MiB", "most memory of the load mode"),
    ("complaints", "", "warnings and errors in its log"),
)


def show(sizes: Mapping[int, Mapping[str, Mapping[str, float]]]) -> None:
    """A table for each size: a line for each figure, a column for each kind of limits."""
    for vpas, by_limits in sizes.items():
        print(f"\n{vpas} VPAs, {vpas * PODS} pods, {vpas * PODS * len(CONTAINERS)} containers")
        print(f"{'':6}{'client limits':48}" + "".join(f"{name:>12}" for name in by_limits))
        for name, unit, text in _LINES:
            values = "".join(f"{each[name]:12.2f}" for each in by_limits.values())
            bar = _BARS.get(vpas, {}).get(name)
            print(f"{unit:6}{text:48}{values}" + (f"   bar {bar:g}" if bar is not None else ""))


def main() -> int:
    """Measure and print; the exit code tells whether it came to an end."""
    parser = argparse.ArgumentParser(description="Benchmark the recommender.")
    parser.add_argument("--vpas", type=int, nargs="*", default=list(SIZES), help="the sizes")
    parser.add_argument("--cycles", type=int, default=10, help="steady ones")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between cycles")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limits", choices=("default", "raised", "both"), default="both")
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--tls", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("flags", nargs="*", help="after --: flags of the recommender")
    given = parser.parse_args()
    asked = Asked(
        cycles=given.cycles, interval=given.interval, tls=given.tls, flags=tuple(given.flags)
    )
    chosen = [one for one in (DEFAULT, RAISED) if given.limits in (one.name, "both")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary, "bench")
        try:
            sizes = {
                vpas: {
                    limits.name: medians(
                        [
                            measure(vpas, limits, asked, folder / f"{vpas}-{limits.name}-{number}")
                            for number in range(given.rounds)
                        ]
                    )
                    for limits in chosen
                }
                for vpas in given.vpas
            }
        except TooSlowError as error:
            print(f"bench-recommender: {error}", file=sys.stderr)
            return 1
    found: dict[str, Any] = {
        "machine": machine(NumPy="numpy"),
        "tls": asked.tls,
        "sizes": sizes,
        "bars": _BARS,
    }
    if given.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    print(found["machine"])
    pod = next(iter(next(iter(sizes.values())).values()))["pod"]
    print(f"pods of {pod:.0f} bytes, {'with' if asked.tls else 'without'} TLS")
    show(sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
