"""The demo, as README.md shows it: what it prints, and the commands of the second terminal."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest

from kubectl_program import needs_kubectl
from page_commands import ROOT, blocks, commands
from page_runner import run_commands

pytestmark = [*needs_kubectl(), pytest.mark.timeout(240)]  # real time, with five processes
README = "README.md"
SUMMARY = "Requests of each pod, before and after\n"
EXPORT = re.compile(r"^ *export (\w+)=(.+)$", re.MULTILINE)


async def printed_until(output: asyncio.StreamReader, end: str) -> str:
    """Return the lines up to one that contains ``end``, or all of them if none does."""
    lines = []
    while line := (await output.readline()).decode():
        lines.append(line)
        if end in line:
            break
    return "".join(lines)


async def test_the_demo_is_as_the_readme_shows_it(tmp_path: Path) -> None:
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "demo", "--keep", f"--folder={tmp_path / 'demo'}"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert demo.stdout is not None
    try:
        printed = await printed_until(demo.stdout, "get vpa,pods")
        (summary,) = (block.text for block in blocks(README) if block.text.startswith(SUMMARY))
        shown = [" ".join(line.split()) for line in printed.splitlines()]
        for line in re.findall(r"^ok .*$", summary, re.MULTILINE):  # numbers are measurements
            assert " ".join(line.split()) in shown, printed
        found = [one for one in commands(README) if one.command.startswith("kubectl")]
        assert len(found) > 1
        await run_commands(found, tmp_path, dict(EXPORT.findall(printed)))
        demo.send_signal(signal.SIGINT)
        assert await demo.wait() == 0, await demo.stdout.read()
    finally:
        if demo.returncode is None:
            demo.terminate()
            await demo.wait()
