"""A fuzzer that sends 100,000 broken and nearly right reviews: ``make fuzz-admission``.

The webhook is a separate process, called over TLS, with an API server whose VPAs match most of
the pods. hypothesis draws reviews from the wire types. Each is sent unchanged and with its bytes
broken in many ways, and every answer is judged as in the tests. A finding is printed and written
to a file, and the exit code is 1. The same seed draws the same reviews.
"""

import argparse
import asyncio
import contextlib
import json
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks.admission import webhook
from benchmarks.admission_world import Size, review
from review_answers import complaint
from review_strategies import POD, VPA, Posted, broken, reviews
from webhook_client import Connection

SIZE = Size(vpas=5, replica_sets=60)
DRAWN = 200  # reviews of a batch; hypothesis frees its memory between batches
VARIANTS = 20  # bodies per review
CONNECTIONS = 4
LONGEST = 5.0  # seconds; timeout of an answer
WARM = 0.2  # share of the inputs after which memory has to be steady
MOST_GROWTH = 10.0  # MiB after that
RAW = 64  # maximum length of a random body in bytes

_GATES = "--feature-gates=InPlace=true,PerVPAConfig=true,CPUStartupBoost=true"


@dataclass(slots=True)
class Run:
    """The results so far."""

    sent: int = 0
    slowest: float = 0.0  # seconds
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MiB, after the warm-up

    @property
    def growth(self) -> float:
        return max(self.memory) - self.memory[0] if self.memory else 0.0


def drawn(number: int, subject: tuple[str, str]) -> list[Any]:
    """Return a batch of reviews; ``number`` is the seed."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=DRAWN,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(reviews(subject))
    def collect(asked: Any) -> None:
        found.append(asked)

    collect()
    return found


def bodies(asked: Any, rng: Random) -> list[Posted]:
    """Return the review, broken variants of it, and random bytes."""
    whole = json.dumps(_placed(asked, rng), separators=(",", ":")).encode()
    raw = [Posted(rng.randbytes(rng.randrange(RAW)), intact=False)]
    others = [Posted(broken(whole, rng), intact=False) for _ in range(VARIANTS - 2)]
    return [Posted(whole, intact=True), *others, *raw]


def _placed(asked: Any, rng: Random) -> Any:
    """Give most pods the owner of a pod with a VPA, so that they are patched."""
    model = msgspec.json.decode(review(0, SIZE))["request"]
    request = asked.get("request")
    pod = request.get("object") if isinstance(request, dict) else None
    meta = pod.get("metadata") if isinstance(pod, dict) else None
    if not isinstance(meta, dict) or rng.randrange(10) == 0:
        return asked
    for name in ("ownerReferences", "labels"):
        meta[name] = model["object"]["metadata"][name]
    request["namespace"] = model["namespace"]
    return asked


async def post_all(
    port: int, context: ssl.SSLContext, waiting: Sequence[Posted], run: Run, folder: Path
) -> None:
    """Send bodies over a few kept connections, and judge every answer."""
    queue = iter(waiting)

    async def client() -> None:
        async with contextlib.AsyncExitStack() as stack:
            connection = await stack.enter_async_context(_connected(port, context))
            for each in queue:
                began = time.perf_counter()
                try:
                    async with asyncio.timeout(LONGEST):
                        status, answer = await connection.send(each.body)
                # EOF, a reset, or an invalid status line: there was no answer.
                except (TimeoutError, OSError, EOFError, IndexError) as error:
                    _found(run, folder, each, f"no answer: {error!r}")
                    connection = await stack.enter_async_context(_connected(port, context))
                    continue
                run.slowest = max(run.slowest, time.perf_counter() - began)
                run.kinds[_kind(answer)] += 1
                if wrong := complaint(each, status, answer):
                    _found(run, folder, each, wrong)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(client())
    run.sent += len(waiting)


@contextlib.asynccontextmanager
async def _connected(port: int, context: ssl.SSLContext) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


def _kind(answer: bytes) -> str:
    if b'"allowed":false' in answer:
        return "refused"
    if b'"patch":' in answer:
        return "patched"
    return "allowed"


def _found(run: Run, folder: Path, posted: Posted, wrong: str) -> None:
    file = folder / f"finding-{len(run.findings)}"
    file.write_bytes(posted.body)
    run.findings.append(f"{wrong}: {file}")
    print(f"  {wrong}\n    {posted.body[:200]!r}", flush=True)


async def fuzz(count: int, first_seed: int, folder: Path, findings: Path) -> Run:
    """Start the webhook, and send ``count`` bodies."""
    run = Run()
    with webhook(SIZE, folder / "webhook", [_GATES]) as target:
        context = ssl.create_default_context(cafile=target.ca)
        for number in range(first_seed, sys.maxsize):
            rng = Random(number)
            asked = drawn(number, VPA if number % 3 == 0 else POD)
            waiting = [body for each in asked for body in bodies(each, rng)][: count - run.sent]
            await post_all(target.port, context, waiting, run, findings)
            memory = target.rss
            if run.sent >= WARM * count:
                run.memory.append(memory)
            print(
                f"{run.sent:>8,} of {count:,}: {len(run.findings)} findings, "
                f"slowest {run.slowest * 1e3:.0f} ms, {memory:.1f} MiB",
                flush=True,
            )
            if run.sent >= count:
                break
    log = (folder / "webhook" / "webhook.log").read_text(encoding="utf-8", errors="replace")
    if bugs := log.count("Traceback (most recent call last)"):
        kept = findings / "webhook.log"
        kept.write_text(log, encoding="utf-8")
        run.findings.append(f"{bugs} tracebacks: {kept}")
    return run


def main() -> int:
    """Run the program; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="bodies to send")
    parser.add_argument("--seed", type=int, default=1, help="where the draws begin")
    options = parser.parse_args()
    findings = Path(tempfile.mkdtemp(prefix="fuzz-admission-"))
    with tempfile.TemporaryDirectory() as folder:
        run = asyncio.run(fuzz(options.count, options.seed, Path(folder), findings))
    if run.growth > MOST_GROWTH:
        run.findings.append(f"memory grew by {run.growth:.1f} MiB")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in run.kinds.most_common())
    print(f"{run.sent:,} bodies: {kinds}; memory grew by {run.growth:.1f} MiB once warm")
    for finding in run.findings:
        print(finding)
    if not run.findings:
        findings.rmdir()
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
