"""Benchmark of the recommender's cycles and memory: ``make bench-recommender``.

The recommender and the load mode of the sandbox, which answers with prepared bytes
(sandbox/README.md), are separate processes. Each VPA has ten pods of two containers, with
checkpoints of eight days. Usage differs in every cycle. For two percent of the VPAs it has grown
enough for another target. The figures include all writes of the recommender, once with the
client's default limits, and once without them.

Printed are means of the cycles and medians of the rounds, because other programs use the machine,
too. Progress goes to standard error.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load_world import (
    NO_CHANGE,
    Component,
    Environ,
    Load,
    Pings,
    TooSlowError,
    await_that,
    load_mode,
    log,
    machine,
    meanwhile,
    medians,
    started,
)
from sandbox.load.layout import CONTAINERS, Layout

SIZES = (1000, 5000, 15_000)  # VPAs
PODS = 10  # per VPA
_STATUSES = "verticalpodautoscalers/status"
_CHECKPOINTS = "verticalpodautoscalercheckpoints"
_USAGE = "podmetrics"
_POLL_SECONDS = 0.5
_SETTLING = 12  # maximum number of cycles until every status has been written once
_REPLACED = 100  # one pod in this many is replaced in a cycle of rollouts
_BARS: Mapping[int, Mapping[str, float]] = {
    1000: {"cpu": 0.5, "peak": 200, "start": 5, "start block": 200, "block": 200},
    5000: {"cpu": 2.5, "peak": 600, "start": 20, "start block": 200, "block": 200},
    15_000: {"cpu": 8, "peak": 1.6 * 1024, "start": 60, "start block": 200, "block": 200},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the recommender's client: requests per second and burst."""

    name: str
    flags: tuple[str, ...] = ()


RAISED = Limits(name="raised")
DEFAULT = Limits(name="default", flags=("--kube-api-qps=50", "--kube-api-burst=100"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of the measurements at each size."""

    cycles: int
    rollouts: int  # cycles in which pods are replaced
    interval: float  # seconds
    tls: bool
    flags: tuple[str, ...]


def measure(
    vpas: int, limits: Limits, asked: Asked, folder: Path, *, environ: Environ = NO_CHANGE
) -> dict[str, float]:
    """Start the recommender, and return the figures of its cycles."""
    folder.mkdir(parents=True)
    name = f"{vpas} VPAs, limits {limits.name}"
    serving = (f"--vpas={vpas}", f"--pods-per-vpa={PODS}", "--checkpoints", f"--tls={asked.tls}")
    flags = (f"--recommender-interval={asked.interval}s", *limits.flags, *asked.flags)
    with load_mode(folder, *serving) as load:
        load.reset()
        with started("recommender", load, folder, *flags, environ=environ) as recommender:
            beginning = Pings(recommender.ops_port)
            with beginning.running():  # the pings take a hundredth of the CPU of a start
                await_that(lambda: _count(load, "patch", _STATUSES) > 0, "the first status patch")
                start, start_cpu = _first(load, _STATUSES), recommender.cpu
                log(name, f"first status after {start:.1f} s and {start_cpu:.1f} CPU seconds")
                cycles = Cycles(load, recommender, name)
                cycles.run(1)  # not measured: it still contains work of the start
                settling = 2
                while _count(load, "patch", _STATUSES) < vpas and settling < _SETTLING:
                    cycles.run(1)
                    settling += 1
            steady = cycles.run(asked.cycles)
            peak = recommender.peak_rss
            pings = Pings(recommender.ops_port)
            with pings.running():  # not in measured cycles, because pings take CPU
                cycles.run(1)
            rolling = []
            if asked.rollouts:
                with Rollout(load, vpas, asked.interval).running():
                    rolling = cycles.run(asked.rollouts)
            served = load.report()["world"]
            # The end of a cycle is detected half a second late or more, but the mean is right.
            used = statistics.fmean(one.cpu for one in steady)
            containers = vpas * PODS * len(CONTAINERS)
            return {
                "start": start,
                "start cpu": start_cpu,
                "start block": beginning.longest * 1e3,
                "settling": settling,
                "cpu": used,
                "most cpu": max(one.cpu for one in steady),
                "container": used / containers * 1e6,
                "peak": peak,
                "block": pings.longest * 1e3,
                "statuses": statistics.fmean(one.statuses for one in steady),
                "checkpoints": statistics.fmean(one.checkpoints for one in steady),
                "took": statistics.fmean(one.seconds for one in steady),
                "rollout cpu": statistics.fmean(one.cpu for one in rolling) if rolling else 0.0,
                "server cpu": statistics.fmean(one.server_cpu for one in steady),
                "server rss": load.peak_rss,
                "pod": served["podBytes"],
                "pod metrics": served["podMetricsBytes"],
                "checkpoint": served["checkpointBytes"],
                "vpa": served["vpaBytes"],
                "complaints": len(recommender.complaints),
            }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """The figures of the time between two requests of usage."""

    seconds: float
    cpu: float  # seconds
    server_cpu: float
    statuses: int  # that were written
    checkpoints: int

    def __str__(self) -> str:
        return (
            f"a cycle of {self.seconds:.0f} s took {self.cpu:.2f} CPU seconds,"
            f" with {self.statuses} statuses and {self.checkpoints} checkpoints written"
        )


class Cycles:
    """Measures cycles; a request of usage at the load mode begins one."""

    def __init__(self, load: Load, recommender: Component, name: str) -> None:
        self._load = load
        self._recommender = recommender
        self._name = name
        self._lists = _count(load, "list", _USAGE)
        self._wait()

    def run(self, count: int) -> list[Cycle]:
        """Return the figures of the next cycles."""
        found = []
        for _ in range(count):
            before = self._now()
            self._wait()
            after = self._now()
            cpu, server, began, statuses, checkpoints = (
                b - a for a, b in zip(before, after, strict=True)
            )
            cycle = Cycle(
                seconds=began,
                cpu=cpu,
                server_cpu=server,
                statuses=int(statuses),
                checkpoints=int(checkpoints),
            )
            found.append(cycle)
            log(self._name, f"{cycle}")
        return found

    def _wait(self) -> None:
        """Wait until usage has been requested once more."""

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


@dataclass
class Rollout:
    """Replaces one pod in a hundred in each cycle, VPA by VPA."""

    load: Load
    vpas: int
    interval: float  # seconds
    _stop: threading.Event = field(default_factory=threading.Event)

    def _run(self) -> None:
        layout = Layout(vpas=self.vpas, pods_per_vpa=PODS, group_size=PODS)
        pause = self.interval * _REPLACED / layout.pods
        for slot in (at + vpa * PODS for at in range(PODS) for vpa in range(self.vpas)):
            if self._stop.wait(pause):
                return
            self.load.evict(layout.namespace(slot // PODS), layout.pod_name(slot, 0))

    def running(self) -> AbstractContextManager[None]:
        """Replace pods until the block ends."""
        return meanwhile(self._run, self._stop)


def _count(load: Load, verb: str, resource: str) -> int:
    return sum(
        one["count"]
        for one in load.report()["calls"]
        if (one["verb"], one["resource"]) == (verb, resource)
    )


def _first(load: Load, resource: str) -> float:
    """Return the seconds from the reset to the first patch."""
    found = (
        float(one["first"])
        for one in load.report()["calls"]
        if (one["verb"], one["resource"]) == ("patch", resource)
    )
    return min(found)


_LINES = (
    ("start", "s", "from the start to the first status patch"),
    ("start cpu", "s", "CPU until then"),
    ("start block", "ms", "longest answer of /health-check until all is written"),
    ("settling", "", "cycles until every status is written"),
    ("cpu", "s", "CPU of a steady cycle"),
    ("most cpu", "s", "CPU of the dearest"),
    ("container", "us", "CPU of a cycle for a container"),
    ("peak", "MiB", "most memory, start and all cycles"),
    ("block", "ms", "longest answer of /health-check in a cycle"),
    ("statuses", "", "status patches of a cycle"),
    ("checkpoints", "", "checkpoints written in a cycle"),
    ("took", "s", "from cycle to cycle"),
    ("rollout cpu", "s", "CPU of a cycle with a hundredth of the pods replaced"),
    ("server cpu", "s", "CPU of the load mode in a cycle"),
    ("server rss", "MiB", "most memory of the load mode"),
    ("complaints", "", "warnings and errors in its log"),
)


def show(sizes: Mapping[int, Mapping[str, Mapping[str, float]]]) -> None:
    """Print a table per size, with a line per figure and a column per kind of limits."""
    for vpas, by_limits in sizes.items():
        print(f"\n{vpas} VPAs, {vpas * PODS} pods, {vpas * PODS * len(CONTAINERS)} containers")
        print(f"{'':6}{'client limits':56}" + "".join(f"{name:>12}" for name in by_limits))
        for name, unit, text in _LINES:
            values = "".join(f"{each[name]:12.2f}" for each in by_limits.values())
            bar = _BARS.get(vpas, {}).get(name)
            print(f"{unit:6}{text:56}{values}" + (f"   bar {bar:g}" if bar is not None else ""))


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description="Benchmark the recommender.")
    parser.add_argument("--vpas", type=int, nargs="*", default=list(SIZES), help="the sizes")
    parser.add_argument("--cycles", type=int, default=10, help="steady ones")
    parser.add_argument(
        "--rollouts", type=int, default=1, help="cycles with a hundredth of the pods replaced"
    )
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between cycles")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limits", choices=("default", "raised", "both"), default="both")
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--tls", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("flags", nargs="*", help="after --: flags of the recommender")
    given = parser.parse_args()
    asked = Asked(
        cycles=given.cycles,
        rollouts=given.rollouts,
        interval=given.interval,
        tls=given.tls,
        flags=tuple(given.flags),
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
    one = next(iter(next(iter(sizes.values())).values()))
    print(
        f"pods of {one['pod']:.0f} bytes, PodMetrics of {one['pod metrics']:.0f}, checkpoints of"
        f" {one['checkpoint']:.0f} and VPAs of {one['vpa']:.0f},"
        f" {'with' if asked.tls else 'without'} TLS"
    )
    show(sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
