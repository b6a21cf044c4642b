"""Prometheus and promtool as programs; tests that need them are skipped where they are missing."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from component import LOOPBACK

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
PROBLEM = "" if PROMETHEUS and PROMTOOL else "prometheus and promtool are not on the PATH"
NEEDS_PROMETHEUS = [pytest.mark.prometheus, pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)]
"""The marks of modules with tests that need the programs."""


async def promtool(*arguments: str) -> str:
    """Run promtool and return its output; fail the test with it if the exit code isn't 0."""
    process = await asyncio.create_subprocess_exec(
        str(PROMTOOL),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


@contextlib.asynccontextmanager
async def prometheus(
    data: Path, port: int, *flags: str, configuration: str = "global: {}\n"
) -> AsyncIterator[None]:
    """Run a Prometheus with a database, and by default without scrape targets."""
    (data / "prometheus.yml").write_text(configuration, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        str(PROMETHEUS),
        f"--config.file={data / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=error",
        *flags,
        stdin=asyncio.subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
