"""Benchmark of the components on a real control plane: ``make bench-e2e``.

It starts etcd and the Kubernetes servers on loopback, with simulated kubelets, and installs the
definitions and access rules of ``deploy/`` with kubectl. Recommender, updater and admission run as
processes with the tokens of their service accounts. There are three rounds: the recommender alone,
evictions by the updater, and resizes in place by the updater. The API server's audit log provides
the counts and times of actions. They are checked against its metrics and against the objects.

Kubelets, the metrics server and this program share one process, and all processes share the cores
of the machine. Compare figures only with those of the same machine.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.e2e_figures import Histogram
from benchmarks.e2e_rounds import (
    IN_PLACE,
    RECOMMENDER,
    UPDATER,
    Round,
    evictions,
    recommendations,
    resizes,
)
from benchmarks.e2e_world import ROOT, Size, World, running_world
from benchmarks.load_world import TooSlowError
from common.errors import VpaError
from controlplane import binaries
from controlplane.processes import ProcessUsage, usage_of

_PODS_PER_SECOND = 50  # minimum rate of an updater; sets the interval, which limits a pass
_BENCH = "bench, kubelets, metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All figures of a run."""

    versions: dict[str, str]
    size: Size
    flags: dict[str, str]
    boot: float  # seconds
    recommendations: Round
    evictions: Round
    resizes: Round
    webhook: Histogram  # seconds, pods created in the round of evictions
    used: dict[str, ProcessUsage]  # at the end

    @property
    def complaints(self) -> list[str]:
        """Return descriptions of wrong results; timings are never wrong."""
        pods, vpas = self.size.pods, self.size.vpas
        checks = {
            "a recommendation on every VPA": self.recommendations.counted == vpas,
            "bounds on every VPA": self.recommendations.right == vpas,
            "evictions the same in audit log and metrics": self.evictions.counted
            >= self.evictions.actions,
            "a patched replacement for every evicted pod": self.evictions.right
            >= self.evictions.actions,
            "one answer of the webhook for every eviction": self.webhook.count
            >= self.evictions.actions,
            "resizes the same in audit log and metrics": self.resizes.counted
            >= self.resizes.actions,
            "every pod resized": self.resizes.right == pods,
        }
        return [what for what, holds in checks.items() if not holds]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON data, in seconds and MiB."""
        rounds = {
            name: {
                **asdict(one),
                "per_second": one.rate,
                "cores": {process: one.cores(process) for process in one.cpu},
            }
            for name, one in self._rounds()
        }
        return {
            "versions": self.versions,
            "pods": self.size.pods,
            "vpas": self.size.vpas,
            "flags": self.flags,
            "boot_seconds": self.boot,
            **rounds,
            "webhook": {
                "count": self.webhook.count,
                "p50_seconds": self.webhook.quantile(0.5),
                "p99_seconds": self.webhook.quantile(0.99),
                "buckets": {str(bound): count for bound, count in self.webhook.buckets.items()},
            },
            "rss_mib": {name: one.memory_mib for name, one in self.used.items()},
            "complaints": self.complaints,
        }

    def show(self) -> None:
        """Print a table."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        print(f"{versions}\n{self.size.pods} pods, {self.size.vpas} VPAs")
        for name, flags in self.flags.items():
            print(f"    {name}: {flags}")
        print(f"\n{self.boot:9.1f} s    boot to ready")
        for name, one in self._rounds():
            _show_round(name, one)
        print(f"\nwebhook, {self.webhook.count} new pods, as the API server sees it")
        for part in (0.5, 0.99):
            value = self.webhook.quantile(part)
            text = "none" if value is None else f"{1000 * value:9.1f} ms  "
            print(f"{text} p{100 * part:.0f}, interpolated inside its bucket")
        print("\nmemory at the end (recommender: at its own)")
        for name, usage in self.used.items():
            print(f"{usage.memory_mib:9.0f} MiB  {name}")
        for complaint in self.complaints:
            print(f"NOT SO: {complaint}")

    def _rounds(self) -> list[tuple[str, Round]]:
        return [
            ("recommendations", self.recommendations),
            ("evictions", self.evictions),
            ("resizes", self.resizes),
        ]


def _show_round(name: str, one: Round) -> None:
    own, server = one.component, "kube-apiserver"
    print(
        f"\n{one.actions} {name}, {one.counted} by objects or metrics, {one.right} as they should"
    )
    print(f"{one.seconds:9.2f} s    {one.rate:.0f} per second, {one.calls} calls of the {own}")
    for process in (own, server):
        each = 1000 * one.cpu.get(process, 0.0) / one.actions
        print(f"{one.cores(process):9.2f} cores {process}, {each:.2f} ms of CPU for each")
    if one.server_ms is not None:
        print(f"{one.server_ms:9.2f} ms   of one action inside the API server, on average")


async def measure(size: Size, folder: Path, limits: tuple[str, ...]) -> Figures:
    """Run all rounds; all processes have ended when this returns or raises.

    Raises:
        VpaError: a server or a component ended, or was not ready.
        TooSlowError: a wait timed out.
    """
    interval = timedelta(seconds=max(5, size.pods / _PODS_PER_SECOND))
    async with running_world(size, folder, limits) as (world, boot):
        _log(f"control plane is ready after {boot:.1f} s")
        await world.install()
        await world.fill()
        _log(f"{size.pods} pods run and are measured")
        recommended = await recommendations(world)
        _log(f"recommendations: {recommended.seconds:.2f} s")
        await world.start_admission()
        evicted, webhook = await evictions(world, interval)
        _log(f"evictions: {evicted.rate:.0f} per second")
        resized = await resizes(world, interval)
        _log(f"resizes: {resized.rate:.0f} per second")
        common = " ".join(limits)
        return Figures(
            versions=await _versions(world),
            size=size,
            flags={
                "all": common or "the default limits of requests",
                "recommender": " ".join(RECOMMENDER),
                "updater": " ".join(UPDATER),
                "updater, in place": " ".join(IN_PLACE),
            },
            boot=boot,
            recommendations=recommended,
            evictions=evicted,
            resizes=resized,
            webhook=webhook,
            used={**world.used(), _BENCH: usage_of(os.getpid())},
        )


async def _versions(world: World) -> dict[str, str]:
    info = msgspec.json.decode(await world.client.request("GET", "/version"))
    return {
        "Kubernetes": info["gitVersion"],
        "etcd": _first_line(str(binaries.find().path("etcd")), "--version").partition(": ")[2],
        "Python": platform.python_version(),
        "commit": _first_line("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
    }


def _first_line(*command: str) -> str:
    """Return the first line that a program prints; empty if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.partition("\n")[0]


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _until_signal(size: Size, folder: Path, limits: tuple[str, ...]) -> Figures:
    """Measure; end in order on Ctrl-C or SIGTERM, and ignore further signals."""
    loop, measuring = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _cancel_once, measuring)
    return await measure(size, folder, limits)


def _cancel_once(task: asyncio.Task[Any] | None) -> None:
    if task is not None and not task.cancelling():
        task.cancel()


def main() -> int:
    """Measure, print, and return 0 if all results are right, whatever the timings."""
    parser = argparse.ArgumentParser(description="Benchmark VPA on a real control plane.")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--vpas", type=int, default=1000)
    parser.add_argument(
        "--kube-api-qps",
        type=int,
        default=1000,
        help="the components' flag; their own default is 50, and would be what is measured",
    )
    parser.add_argument("--patience", type=float, default=300, help="seconds for any one wait")
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    if asked.vpas < 1 or asked.pods < 2 * asked.vpas or asked.pods % asked.vpas:
        parser.error("--pods must be a multiple of --vpas, twice as many at least")
    size = Size(vpas=asked.vpas, replicas=asked.pods // asked.vpas, patience=asked.patience)
    limits = (f"--kube-api-qps={asked.kube_api_qps}", f"--kube-api-burst={2 * asked.kube_api_qps}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        try:
            figures = uvloop.run(_until_signal(size, folder.resolve(), limits))
        except (VpaError, TooSlowError) as error:
            _log(f"bench-e2e: {error}")
            return 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            _log("bench-e2e: stopped")
            return 130
    if asked.output == "json":
        print(json.dumps(figures.as_json(), indent=2))
    else:
        figures.show()
    return 1 if figures.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
