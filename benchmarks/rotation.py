"""Three rotations of the webhook's certificates under 1,000 reviews a second, for a minute.

    make bench-rotation

Two replicas of the webhook, their volumes half a second apart, beside a sandbox. Whoever calls
trusts what the webhook configuration says, as API servers do. Not one call may fail.
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
    """Run it, and print how it went; whether no call failed and none was left out."""
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
    """Entry point; the exit code is 0 if no call failed."""
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
