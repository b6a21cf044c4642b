"""Benchmark of three certificate rotations in a minute under 1,000 reviews per second.

    make bench-rotation

Two replicas of the webhook run against a sandbox; their volumes change half a second apart. The
caller trusts the CA bundle of the webhook configuration, as API servers do. No call may fail.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import uvloop

from process_harness import world
from rotation import calls, site


async def measure(*, rate: float, seconds: float, rotations: int) -> bool:
    """Run it, print the results, and return whether all calls were sent and succeeded."""
    with tempfile.TemporaryDirectory() as folder:
        async with world(Path(folder)) as it, site(it) as here:
            await here.start(lag=0.0)
            await here.start(lag=0.5)
            loop = asyncio.get_running_loop()
            async with calls(here, callers=32, rate=rate):
                began = loop.time()
                for number in range(rotations):
                    await asyncio.sleep(began + seconds * number / rotations - loop.time())
                    await here.rotate()
                    print(f"rotation {number + 1} done after {loop.time() - began:.1f} s")
                await asyncio.sleep(began + seconds - loop.time())
                took = loop.time() - began
    print(f"{here.calls} reviews in {took:.1f} s: {here.calls / took:.0f} a second")
    print(f"{here.connections} connections, {rotations} rotations")
    print(f"{here.failures.total()} failed")
    for failure, times in here.failures.most_common(5):
        print(f"  {times} times {failure}")
    return not here.failures and here.calls >= 0.95 * rate * seconds


def main() -> int:
    """Run the program; return 0 if no call failed."""
    parser = argparse.ArgumentParser(description="Rotate certificates under load.")
    parser.add_argument("--rate", type=float, default=1000, help="reviews a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rotations", type=int, default=3)
    options = parser.parse_args()
    run = measure(rate=options.rate, seconds=options.seconds, rotations=options.rotations)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 0 if runner.run(run) else 1


if __name__ == "__main__":
    sys.exit(main())
