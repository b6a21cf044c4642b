"""Benchmark of polling the read API: ``make bench-read-model``.

A component and the load mode of the sandbox are separate processes. A client asks for the first
page (250 rows) once a second while passes go on, in two ways: with the ETag of the last answer, as
a poller should, and without. Each way has as many passes as the measurement without a client.
By default each of the two components takes about five minutes, most of which are waits for passes.

CPU of an answer is that of the process for many answers in a row. The load mode is stopped
meanwhile, so that the process has nothing else to do: its passes alone may fill the intervals. The
share of polling is what a second of polling costs of a core: one page for each pass, and otherwise
answers without a body. What polling delays a pass by is at most the CPU of the answers that it
contains.
"""

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load_world import (
    Component,
    Pings,
    TooSlowError,
    await_that,
    component,
    load_mode,
    log,
    machine,
    meanwhile,
)
from common.read_model.recommender import VPAS_PATH
from common.read_model.updater import PLAN_PATH

_POLL_SECONDS = 1.0
_MANY = 300  # answers without a body in a row
_SOME = 20  # pages in a row
_BARS = {"share": 2.0, "delay": 50.0, "tag p99": 100.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A component, the path that is polled, and its flags."""

    name: str
    path: str
    serving: tuple[str, ...]
    flags: tuple[str, ...]


def subjects(vpas: int, pods: int) -> dict[str, Subject]:
    """Return what can be measured."""
    each = pods // vpas
    world = (f"--vpas={vpas}", f"--pods-per-vpa={each}")
    return {
        "updater": Subject(
            name="updater",
            path=PLAN_PATH,
            serving=(*world, f"--group-size={2 if each % 2 == 0 else 0}", "--right-sized"),
            flags=("--use-admission-controller-status=false",),
        ),
        "recommender": Subject(
            name="recommender",
            path=VPAS_PATH,
            serving=(*world, "--checkpoints"),
            flags=(),
        ),
    }


@dataclass
class Client:
    """A client on a persistent connection."""

    port: int
    path: str
    uses_tag: bool
    seconds: list[float] = field(default_factory=list)  # of each answer
    bodies: int = 0
    bytes: int = 0
    tag: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self) -> dict[str, Any] | None:
        """Send one request; return the answer, or None if it is unchanged."""
        headers = {"If-None-Match": self.tag} if self.uses_tag and self.tag else {}
        began = time.perf_counter()
        self._connection.request("GET", self.path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        self.seconds.append(time.perf_counter() - began)
        self.tag = answer.headers["etag"]
        if answer.status == 304:
            return None
        if answer.status != 200:
            raise TooSlowError(f"{self.path} answered {answer.status}: {body.decode()}")
        self.bodies += 1
        self.bytes += len(body)
        found: dict[str, Any] = json.loads(body)
        return found

    def poll(self) -> None:
        """Ask once a second until ``stop`` is set."""
        due = time.monotonic()
        while not self.stop.wait(max(0.0, due - time.monotonic())):
            self.ask()
            due += _POLL_SECONDS


def last_pass(process: Component) -> Mapping[str, Any]:
    """Return the last pass of a component; empty before the first one."""
    found = Client(process.ops_port, "/api/v1", uses_tag=False).ask() or {}
    passed: Mapping[str, Any] = found.get("lastPass") or {}
    return passed


def watch_passes(process: Component, count: int) -> list[float]:
    """Return the seconds that each of the next passes takes."""
    took: dict[int, float] = {}
    first: int = last_pass(process)["number"]

    def done() -> bool:
        found = last_pass(process)
        took[found["number"]] = found["seconds"]
        return max(took) >= first + count

    await_that(done, f"{count} passes", every=0.5)
    del took[first]
    return list(took.values())


def each_cpu(process: Component, client: Client, count: int) -> float:
    """Return the CPU milliseconds of one of ``count`` answers in a row of an idle process."""
    before = process.cpu
    for _ in range(count):
        client.ask()
    return (process.cpu - before) / count * 1e3


def measure(
    subject: Subject, folder: Path, *, passes: int, interval: float, tls: bool
) -> dict[str, float]:
    """Return the figures of one component."""
    folder.mkdir(parents=True)
    log(subject.name, "starts, until its first two passes have ended")
    with (
        load_mode(folder, *subject.serving, f"--tls={tls}") as load,
        component(
            subject.name, load, folder, f"--{subject.name}-interval={interval}s", *subject.flags
        ) as process,
    ):
        await_that(lambda: bool(last_pass(process)), "the first pass", every=0.5)
        watch_passes(process, 1)  # the first passes contain work of the start
        log(subject.name, f"{passes} passes without a client")
        alone = watch_passes(process, passes)
        rss = process.peak_rss
        figures = {"alone": statistics.median(alone), "rss": rss}
        for way, uses_tag, text in (("tag", True, "the ETag"), ("no tag", False, "no ETag")):
            client = Client(process.ops_port, subject.path, uses_tag=uses_tag)
            pings = Pings(process.ops_port)
            log(subject.name, f"{passes} passes with a client that sends {text}")
            with meanwhile(client.poll, client.stop), pings.running():
                took = watch_passes(process, passes)
            figures |= latencies(client.seconds, way)
            figures[f"{way} pass"] = statistics.median(took)
            figures[f"{way} bodies"] = client.bodies
            figures[f"{way} block"] = pings.longest * 1e3
        figures["complaints"] = len(process.complaints)
        log(subject.name, "CPU of answers")
        page = Client(process.ops_port, subject.path, uses_tag=False)
        same = Client(process.ops_port, subject.path, uses_tag=True)
        with load.stopped():
            process.wait_quiet()
            figures["page cpu"] = each_cpu(process, page, _SOME)
            same.ask()
            figures["same cpu"] = each_cpu(process, same, _MANY)
        figures["page"] = page.bytes / page.bodies / 1024
        figures["grown"] = process.peak_rss - rss
        in_pass = max(1.0, figures["tag pass"] / _POLL_SECONDS)
        figures["share"] = (figures["page cpu"] / interval + figures["same cpu"]) / 10
        figures["delay"] = figures["page cpu"] + (in_pass - 1) * figures["same cpu"]
        return figures


def latencies(seconds: Sequence[float], way: str) -> dict[str, float]:
    """Return percentiles in milliseconds."""
    ordered = sorted(seconds)
    parts = {"p50": 0.5, "p99": 0.99, "longest": 1.0}
    last = len(ordered) - 1
    return {f"{way} {name}": ordered[int(part * last)] * 1e3 for name, part in parts.items()}


_LINES = (
    ("alone", "s", "a pass without a client, median"),
    ("tag pass", "s", "a pass while a client polls with the ETag, median"),
    ("no tag pass", "s", "a pass while a client polls without it, median"),
    ("page", "KiB", "the first page"),
    ("page cpu", "ms", "CPU of a page"),
    ("same cpu", "ms", "CPU of an answer without a body (304)"),
    ("share", "%", "of a core, for polling once a second with the ETag"),
    ("delay", "ms", "most that these answers delay a pass by"),
    ("tag p50", "ms", "an answer, with the ETag, median"),
    ("tag p99", "ms", "the same, 99th percentile"),
    ("tag longest", "ms", "the same, longest"),
    ("tag bodies", "", "answers with a body"),
    ("no tag p50", "ms", "an answer, without the ETag, median"),
    ("no tag p99", "ms", "the same, 99th percentile"),
    ("no tag longest", "ms", "the same, longest"),
    ("tag block", "ms", "longest answer of /health-check meanwhile, with the ETag"),
    ("no tag block", "ms", "the same, without the ETag"),
    ("rss", "MiB", "most memory without a client"),
    ("grown", "MiB", "more memory with clients"),
    ("complaints", "", "warnings and errors in the log"),
)


def show(figures: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table with a column for each component."""
    print(f"{'':6}{'':58}" + "".join(f"{name:>14}" for name in figures))
    for name, unit, text in _LINES:
        bar = _BARS.get(name)
        shown = "" if bar is None else f"   bar {bar:g}"
        values = "".join(f"{each[name]:14.2f}" for each in figures.values())
        print(f"{unit:6}{text:58}{values}{shown}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark the read API.")
    parser.add_argument("--vpas", type=int, default=15_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--interval", type=float, default=20.0, help="seconds between passes")
    parser.add_argument("--passes", type=int, default=3, help="in each measurement")
    parser.add_argument("--only", choices=("updater", "recommender"))
    parser.add_argument("--tls", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    chosen = subjects(asked.vpas, asked.pods)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary, "bench")
        try:
            figures = {
                name: measure(
                    subject,
                    folder / name,
                    passes=asked.passes,
                    interval=asked.interval,
                    tls=asked.tls,
                )
                for name, subject in chosen.items()
                if asked.only in (None, name)
            }
        except TooSlowError as error:
            print(f"bench-read-model: {error}", file=sys.stderr)
            return 1
    if asked.output == "json":
        print(json.dumps({"machine": machine(), "figures": figures}, indent=2))
        return 0
    print(machine())
    print(f"{asked.pods} pods, {asked.vpas} VPAs, a pass each {asked.interval:g} s")
    show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
