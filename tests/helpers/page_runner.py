"""Runs the commands of a documentation page in their order, and compares what they print."""

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from page_commands import PageCommand, manifests

WITHIN = 90  # seconds, for a command that waits
_READ_WITHIN = 30  # seconds, until a command that only reads prints what its page shows
_PAUSE = 0.3  # seconds
_READS = re.compile(r"kubectl (-n \S+ )?(get|describe|logs|top) ")
# grep finds nothing on a healthy cluster, which is no failure.
_PRELUDE = 'set -o pipefail; grep() { command grep "$@" || [ $? = 1 ]; }; '
_SIGPIPE = 128 + 13  # ``head`` has read enough


async def run(command: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run a command in a folder; return its exit code, and what it prints, errors included."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", _PRELUDE + command),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(WITHIN):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode()


async def run_commands(
    found: list[PageCommand],
    folder: Path,
    variables: Mapping[str, str],
    *,
    changed: Callable[[str], str] = str,
) -> None:
    """Run commands, each after ``changed`` has changed it.

    A command that only reads runs until it prints what the page shows.

    Raises:
        AssertionError: a command prints something else, or fails and the page doesn't show that.
    """
    for each in found:
        deadline = time.monotonic() + (_READ_WITHIN if _READS.match(each.command) else 0)
        while True:
            problem = await _problem(each, changed(each.command), folder, variables)
            if not problem or time.monotonic() >= deadline:
                break
            await asyncio.sleep(_PAUSE)  # other processes set no event here
        assert not problem, problem


async def _problem(
    expected: PageCommand, command: str, folder: Path, variables: Mapping[str, str]
) -> str:
    """Run a command, and return how it differs from its page; empty if it doesn't."""
    code, printed = await run(command, folder, variables)
    anything = expected.output.strip() in ("", "…")
    if expected.matches(printed) and (code in (0, _SIGPIPE) or not anything):
        return ""
    shown = f"{expected.page}: $ {expected.command}\nshows\n{expected.output}"
    return f"{shown}\nbut it is ({code})\n{printed}"


def write_manifests(page: str, folder: Path) -> None:
    """Write the manifests of a page, for its commands."""
    for name, text in manifests(page).items():
        (folder / name).write_text(text)
