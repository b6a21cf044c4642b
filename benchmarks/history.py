"""Benchmark of loading history from Prometheus: ``make bench-history``.

The recommender, the load mode of the sandbox and a Prometheus that generates its answers
(``prometheus.py``) are separate processes. Each VPA has ten pods of two containers, and each pod
had a predecessor. The history has eight days with a point per hour. The recommender has no
checkpoints, and runs its usual cycles meanwhile. There are fifty namespaces, or one per VPA if
there are fewer VPAs: ``--vpas=1 --pods=20000`` is one namespace with all pods.
"""

import argparse
import json
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load_world import (
    Component,
    Pings,
    TooSlowError,
    Watched,
    await_that,
    load_mode,
    machine,
    process,
    started,
)
from benchmarks.prometheus import REPORT
from demo.processes import free_port

SIZES = (1000, 5000, 15_000)  # VPAs
_STATE = "vpa_recommender_history_namespaces"
_TOLD = re.compile(rf'^{_STATE}{{state="(\w+)"}} (\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stub(Watched):
    """The Prometheus process."""

    url: str

    def report(self) -> dict[str, int]:
        """Return the statistics of its answers."""
        with urllib.request.urlopen(self.url + REPORT, timeout=60) as answer:
            found: dict[str, int] = json.load(answer)
            return found

    def is_there(self) -> bool:
        try:
            self.report()
        except OSError:
            return False
        return True


@contextmanager
def prometheus(vpas: int, pods: int, folder: Path) -> Iterator[Stub]:
    """Run a Prometheus for ``vpas`` VPAs with ``pods`` pods each, until the block ends."""
    port = free_port()
    flags = (f"--port={port}", f"--vpas={vpas}", f"--pods-per-vpa={pods}")
    with process("benchmarks.prometheus", *flags, log=folder / "prometheus.log") as pid:
        stub = Stub(pid, f"http://127.0.0.1:{port}")
        await_that(stub.is_there, "Prometheus to start")
        yield stub


def namespaces(recommender: Component) -> dict[str, int]:
    """Return the number of namespaces with loaded and with pending history."""
    url = f"http://127.0.0.1:{recommender.ops_port}/metrics?name[]={_STATE}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return {state: int(count) for state, count in _TOLD.findall(answer.read().decode())}


def measure(vpas: int, pods: int, flags: tuple[str, ...], folder: Path) -> dict[str, float]:
    """Start the recommender, and wait until all history is in the model."""
    folder.mkdir(parents=True)
    serving = (f"--vpas={vpas}", f"--pods-per-vpa={pods}")
    with prometheus(vpas, pods, folder) as stub, load_mode(folder, *serving) as load:
        asking = ("--storage=prometheus", f"--prometheus-address={stub.url}")
        began = time.monotonic()
        with started("recommender", load, folder, *asking, *flags) as recommender:
            await_that(recommender.is_ready, "the first cycle")
            peak_before = recommender.peak_rss
            pings = Pings(recommender.ops_port)
            with pings.running():

                def complete() -> bool:
                    found = namespaces(recommender)
                    print(f"{vpas} VPAs: {found}", file=sys.stderr, flush=True)
                    return found.get("loaded", 0) > 0 and found.get("pending") == 0

                await_that(complete, "all history", every=2.0)
                took = time.monotonic() - began
            answered = stub.report()
            return {
                "took": took,
                "cpu": recommender.cpu,
                "point": recommender.cpu / answered["points"] * 1e6,
                "block": pings.longest * 1e3,
                "first": peak_before,
                "peak": recommender.peak_rss,
                "cycles": recommender.passes(),
                "answers": answered["answers"],
                "series": answered["series"],
                "points": answered["points"] / 1e6,
                "bytes": answered["bytes"] / 2**20,
                "largest": answered["largest"] / 2**20,
                "server cpu": stub.cpu,
                "complaints": len(recommender.complaints),
            }


_LINES = (
    ("took", "s", "from the start until all history is in the model"),
    ("cpu", "s", "CPU until then, cycles included"),
    ("point", "us", "the same for a point"),
    ("block", "ms", "longest answer of /health-check meanwhile"),
    ("first", "MiB", "most memory until the first cycle"),
    ("peak", "MiB", "most memory in the end"),
    ("cycles", "", "cycles meanwhile"),
    ("answers", "", "answers of Prometheus"),
    ("series", "", "series in them"),
    ("points", "", "million points in them"),
    ("bytes", "MiB", "of all answers, uncompressed"),
    ("largest", "MiB", "of the largest"),
    ("server cpu", "s", "CPU of the Prometheus"),
    ("complaints", "", "warnings and errors in its log"),
)


def show(sizes: Mapping[int, Mapping[str, float]]) -> None:
    """Print a table with a line per figure and a column per size."""
    print(f"{'':6}{'VPAs':56}" + "".join(f"{vpas:>12}" for vpas in sizes))
    for name, unit, text in _LINES:
        print(f"{unit:6}{text:56}" + "".join(f"{each[name]:12.2f}" for each in sizes.values()))


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description="Benchmark history from Prometheus.")
    parser.add_argument("--vpas", type=int, nargs="*", default=list(SIZES), help="the sizes")
    parser.add_argument("--pods", type=int, default=10, help="of a VPA")
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("flags", nargs="*", help="after --: flags of the recommender")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary, "bench")
        try:
            sizes = {
                vpas: measure(vpas, given.pods, tuple(given.flags), folder / str(vpas))
                for vpas in given.vpas
            }
        except TooSlowError as error:
            print(f"bench-history: {error}", file=sys.stderr)
            return 1
    found: dict[str, Any] = {"machine": machine(NumPy="numpy"), "sizes": sizes}
    if given.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    print(found["machine"])
    show(sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
