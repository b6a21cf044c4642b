"""Benchmark of recreated pods that have no room: with requests for room, and without.

    make bench-capacity

A Deployment fills its nodes, and each replacement needs a node of its own. A simulated autoscaler
adds nodes for Pending pods and for CapacityBuffers, some seconds after it sees them. The control
plane, the components and their manifests are real.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

from e2e.cluster import Cluster, case_in_namespace, installed_cluster
from e2e.recreation import Site, site

_MODES = ("provision", "off")


async def measure(*, pods: int, delay: float) -> None:
    """Run both modes in one cluster, and print the results."""
    with tempfile.TemporaryDirectory() as folder:
        async with installed_cluster(Path(folder)) as cluster:
            print(f"{pods} pods; a node is Ready {delay:.0f} s after the autoscaler adds it")
            print(
                f"{'--capacity-check':<18}{'Pending (s): median':>20}{'p99':>8}{'longest':>9}",
                end="",
            )
            print(f"{'nodes added':>13}{'all recreated after (s)':>25}")
            for mode in _MODES:
                await _measure_one(cluster, mode, pods=pods, delay=delay)


async def _measure_one(cluster: Cluster, mode: str, *, pods: int, delay: float) -> None:
    loop = asyncio.get_running_loop()
    async with (
        case_in_namespace(cluster, f"bench-{mode}") as case,
        site(case, f"--capacity-check={mode}", replicas=pods, delay=delay) as here,
    ):
        began = loop.time()
        await here.recommend()
        await here.wait_until_recreated()
        _print(mode, here, await here.pending_seconds(), loop.time() - began)


def _print(mode: str, here: Site, waits: Sequence[float], seconds: float) -> None:
    median, high = waits[len(waits) // 2], waits[min(len(waits) - 1, len(waits) * 99 // 100)]
    print(f"{mode:<18}{median:>20.2f}{high:>8.2f}{waits[-1]:>9.2f}", end="")
    print(f"{here.autoscaler.added:>13}{seconds:>25.0f}", flush=True)


def main() -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Recreate pods that have no room.")
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--delay", type=float, default=10, help="seconds until a node is Ready")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(pods=options.pods, delay=options.delay))
    return 0


if __name__ == "__main__":
    sys.exit(main())
