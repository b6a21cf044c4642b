"""Benchmark of the updater's passes and memory: ``make bench-updater``.

The updater and the load mode of the sandbox, which answers with prepared bytes (sandbox/README.md),
are separate processes. There are three kinds of rounds:

- **evictions** and **resizes**, with immediate answers and with a delay of 5 ms. ReplicaSets have
  two pods each, far from their targets. A pass may act on one of them, so on half of the pods.
- **a pass with nothing to do**, over pods that have their targets.

Medians of the rounds are printed, because other programs use the machine, too.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load_world import (
    NO_CHANGE,
    QPS,
    Component,
    Environ,
    Load,
    Pings,
    TooSlowError,
    await_that,
    component,
    load_mode,
    machine,
    medians,
)

GROUP = 2  # pods per ReplicaSet
_EVENTS_SECONDS = 10.0
_WRITES = ("create", "patch", "update", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of action on pods."""

    name: str
    mode: str  # of the VPAs
    resource: str  # of the action's call
    rate: float  # bars: actions per second, and CPU milliseconds per action
    cpu: float
    events: int  # per action


EVICTIONS = Kind(
    name="evictions", mode="Recreate", resource="pods/eviction", rate=2000, cpu=0.5, events=2
)
RESIZES = Kind(
    name="resizes", mode="InPlaceOrRecreate", resource="pods/resize", rate=1200, cpu=0.8, events=1
)
_IDLE_BARS = {"cpu": 3.0, "block": 200.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of objects."""

    pods: int
    vpas: int
    tls: bool

    @property
    def flags(self) -> tuple[str, ...]:
        each = self.pods // self.vpas
        group = GROUP if each % GROUP == 0 else 0
        return (
            f"--vpas={self.vpas}",
            f"--pods-per-vpa={each}",
            f"--group-size={group}",
            f"--tls={self.tls}",
        )


def act(
    kind: Kind,
    size: Size,
    folder: Path,
    *,
    delay: int,
    interval: float,
    flags: Sequence[str],
    environ: Environ = NO_CHANGE,
) -> dict[str, float]:
    """Let the updater act on one pod of each group; return the figures of these actions."""
    folder.mkdir(parents=True)
    wanted = size.pods // GROUP
    serving = (*size.flags, f"--update-mode={kind.mode}", f"--answer-delay={delay}ms")
    with (
        load_mode(folder, *serving) as load,
        component(
            "updater", load, folder, *updater_flags(interval, flags), environ=environ
        ) as updater,
    ):
        updater.wait_quiet()
        load.reset()
        before, server = updater.cpu, load.cpu

        def done() -> bool:
            return actions(load.report(), kind.resource)["count"] >= wanted

        pings = Pings(updater.ops_port)
        with pings.running():
            await_that(done, f"{wanted} {kind.name}", every=0.25)
        found = actions(load.report(), kind.resource)
        rate = found["count"] / (found["last"] - found["first"])
        _await_events(load)
        report = load.report()
        count = actions(report, kind.resource)["count"]
        writes = sum(each["count"] for each in report["calls"] if each["verb"] in _WRITES)
        events = _events(report)
        cpu = (updater.cpu - before) / count
        return {
            "count": count,
            "rate": rate,
            "cpu": cpu * 1e3,
            "cores": cpu * rate,
            "server cpu": (load.cpu - server) / count * 1e3,
            "calls": writes / count,
            "events": events / count,
            "unsent": kind.events - events / count,
            "under way": report["concurrentWrites"]["peak"],
            "of a group": report["concurrentWrites"]["peakOfOneGroup"],
            "block": pings.longest * 1e3,
            "rss": updater.peak_rss,
            "complaints": len(updater.complaints),
        }


def idle(
    size: Size, folder: Path, *, passes: int, interval: float, flags: Sequence[str]
) -> dict[str, float]:
    """Return medians of passes with nothing to do, and the pings of one more pass."""
    folder.mkdir(parents=True)
    with (
        load_mode(folder, *size.flags, "--right-sized") as load,
        component("updater", load, folder, *updater_flags(interval, flags)) as updater,
    ):
        synced = updater.cpu
        updater.wait_quiet()
        rss = updater.rss
        took = [_pass_cpu(updater) for _ in range(passes)]
        peak = updater.peak_rss
        pings = Pings(updater.ops_port)
        with pings.running():  # not in measured passes, because pings take CPU
            await_that(_passed(interval), "another pass")
        writes = [each for each in load.report()["calls"] if each["verb"] in _WRITES]
        return {
            "start cpu": synced,
            "first": took[0],
            "cpu": statistics.median(took),
            "rss": rss,
            "peak": peak,
            "server rss": load.peak_rss,
            "block": pings.longest * 1e3,
            "writes": sum(each["count"] for each in writes),
            "complaints": len(updater.complaints),
        }


def _await_events(load: Load) -> None:
    """Wait until all pending Events have been sent: they are part of an action's cost."""
    before, now = -1, 0
    until = time.monotonic() + _EVENTS_SECONDS
    while before != now and time.monotonic() < until:
        time.sleep(0.5)
        before, now = now, _events(load.report())


def _events(report: Mapping[str, Any]) -> int:
    return sum(each["count"] for each in report["calls"] if each["resource"] == "events")


def _pass_cpu(updater: Component) -> float:
    """Return the CPU seconds of the next pass, or of several if they follow each other at once."""
    began, before = updater.passes(), updater.cpu
    while True:
        updater.wait_busy()
        updater.wait_quiet()
        used = updater.cpu - before
        ended = updater.passes() - began
        if ended:
            return used / ended


def actions(report: Mapping[str, Any], resource: str) -> dict[str, float]:
    """Return the figures of the successful calls."""
    for each in report["calls"]:
        if each["resource"] == resource and each["code"] < 300:
            return {name: each[name] for name in ("count", "first", "last")}
    return {"count": 0, "first": 0.0, "last": 0.0}


def updater_flags(interval: float, flags: Sequence[str]) -> tuple[str, ...]:
    """Return the updater's flags. The first pass begins one interval after the start.

    The outcome check is off: with it the first pass would evict three pods per VPA and then wait.
    Measured is a pass that evicts all allowed pods.
    """
    return (
        f"--updater-interval={interval}s",
        "--use-admission-controller-status=false",
        "--eviction-outcome-check=false",
        *flags,
    )


def _passed(interval: float) -> Callable[[], bool]:
    until = time.monotonic() + interval * 1.5
    return lambda: time.monotonic() > until


_ACTING = (
    ("rate", "/s", "actions, from the first to the last"),
    ("cpu", "ms", "CPU of the updater for an action, Events included"),
    ("cores", "", "cores that the updater had meanwhile"),
    ("calls", "", "writes for an action, Events included"),
    ("events", "", "Events sent for an action"),
    ("unsent", "", "Events for an action that were dropped, or still waited"),
    ("under way", "", "most writes under way at once"),
    ("of a group", "", "most of one replica group"),
    ("block", "ms", "longest answer of /health-check meanwhile"),
    ("rss", "MiB", "most memory of the updater"),
    ("server cpu", "ms", "CPU of the load mode for an action"),
    ("count", "", "actions"),
    ("complaints", "", "warnings and errors in its log"),
)
_IDLE = (
    ("cpu", "s", "CPU of a pass"),
    ("first", "s", "CPU of the first pass"),
    ("start cpu", "s", "CPU until the caches have synced"),
    ("rss", "MiB", "memory before the first pass"),
    ("peak", "MiB", "most memory"),
    ("block", "ms", "longest answer of /health-check in a pass"),
    ("writes", "", "writes: there should be none"),
    ("server rss", "MiB", "most memory of the load mode"),
    ("complaints", "", "warnings and errors in its log"),
)


def show(figures: Mapping[str, Any]) -> None:
    """Print a table with a line per figure and a column per kind of round."""
    acting = figures["acting"]
    if acting:
        print(f"{'':6}{'':52}" + "".join(f"{name:>18}" for name in acting))
        for name, unit, text in _ACTING:
            values = "".join(f"{each[name]:18.2f}" for each in acting.values())
            print(f"{unit:6}{text:52}{values}")
        for kind in (EVICTIONS, RESIZES):
            print(f"bars for {kind.name}: {kind.rate:g}/s or more, {kind.cpu:g} ms or less")
    if figures["idle"]:
        print("\na pass with nothing to do")
        for name, unit, text in _IDLE:
            bar = f"   bar {_IDLE_BARS[name]:g}" if name in _IDLE_BARS else ""
            print(f"{unit:6}{text:52}{figures['idle'][name]:18.2f}{bar}")


def served(folder: Path, size: Size) -> dict[str, Any]:
    """Return the load mode's description of its pods."""
    folder.mkdir(parents=True)
    with load_mode(folder, *size.flags) as load:
        world = load.report()["world"]
        return {"podBytes": world["podBytes"], "tls": world["tls"]}


def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return all requested figures."""
    size = Size(pods=asked.pods, vpas=asked.vpas or max(1, asked.pods // 10), tls=asked.tls)
    vpas = asked.idle_vpas or max(1, asked.idle_pods // 10)
    large = Size(pods=asked.idle_pods, vpas=vpas, tls=asked.tls)
    acting = {}
    for kind in (EVICTIONS, RESIZES):
        for delay in (0, 5):
            name = f"{kind.name}, {delay} ms"
            if asked.only not in (None, kind.name):
                continue
            acting[name] = medians(
                [
                    act(
                        kind,
                        size,
                        folder / f"{kind.name}-{delay}-{number}",
                        delay=delay,
                        interval=asked.interval,
                        flags=asked.flags,
                    )
                    for number in range(asked.rounds)
                ]
            )
    nothing = {}
    if asked.only in (None, "idle"):
        nothing = idle(
            large,
            folder / "idle",
            passes=max(2, asked.rounds),
            interval=asked.idle_interval,
            flags=asked.flags,
        )
    return {
        "machine": machine(),
        "served": served(folder / "described", size),
        "limits": {"qps": QPS, "burst": QPS},
        "size": {"pods": size.pods, "vpas": size.vpas},
        "idleSize": {"pods": large.pods, "vpas": large.vpas},
        "acting": acting,
        "idle": nothing,
    }


def main() -> int:
    """Measure, print, and return 0 if all expected actions were done."""
    parser = argparse.ArgumentParser(description="Benchmark the updater.")
    parser.add_argument("--pods", type=int, default=20_000, help="half of them are acted on")
    parser.add_argument("--vpas", type=int, default=0, help="default: one for ten pods")
    parser.add_argument("--idle-pods", type=int, default=150_000, help="for passes without work")
    parser.add_argument("--idle-vpas", type=int, default=0, help="default: one for ten pods")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--interval", type=float, default=20.0, help="seconds between passes")
    parser.add_argument("--idle-interval", type=float, default=30.0, help="the same without work")
    parser.add_argument("--only", choices=("evictions", "resizes", "idle"))
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--tls", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--all-events", action="store_true", help="take the limits of Events out of the way, too"
    )
    parser.add_argument("flags", nargs="*", help="after --: flags of the updater")
    asked = parser.parse_args()
    if asked.all_events:
        asked.flags = [f"--event-qps={QPS}", f"--event-burst={QPS}", *asked.flags]
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary, "bench")
        try:
            figures = measure(asked, folder)
        except TooSlowError as error:
            print(f"bench-updater: {error}", file=sys.stderr)
            return 1
    if asked.output == "json":
        print(json.dumps(figures, indent=2))
        return 0
    pod, size, limits = figures["served"], figures["size"], figures["limits"]
    print(figures["machine"])
    secured = "with TLS" if pod["tls"] else "without TLS"
    print(
        f"{size['pods']} pods of {pod['podBytes']} bytes {secured}, {size['vpas']} VPAs; "
        f"without work {figures['idleSize']['pods']} pods, {figures['idleSize']['vpas']} VPAs; "
        f"client limits {limits['qps']}/{limits['burst']}"
    )
    show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
