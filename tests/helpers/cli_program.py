"""The program ``kubectl-vpa``, run as a process, or one command of it within the test."""

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubectl_vpa.output.screen import Screen
from kubectl_vpa.program import new_parser


@dataclass(frozen=True, slots=True)
class Printed:
    """The end of a run of the program."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def items(self) -> Any:
        """Return the items of JSON output."""
        return self.json["items"]


async def run_cli(
    kubeconfig: Path, *arguments: str, width: int = 0, environ: Mapping[str, str] | None = None
) -> Printed:
    """Run a command; ``width`` limits its lines as a terminal of this width does."""
    variables = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if width:
        variables["COLUMNS"] = str(width)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "kubectl_vpa", *arguments),
        env={**variables, "KUBECONFIG": str(kubeconfig), **(environ or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Printed(process.returncode, out.decode(), err.decode())


async def call_command(kubeconfig: Path, command: str, *arguments: str) -> Printed:
    """Run a command in the test's process, for a tenth of the CPU time of a new process.

    It is for output in JSON and for commands that succeed. Errors are raised, not printed.
    """
    words = [command, *arguments, f"--kubeconfig={kubeconfig}"]
    parsed = new_parser(command).parse_args(words)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = await parsed.run(parsed, Screen())
    return Printed(int(code), out.getvalue(), err.getvalue())
