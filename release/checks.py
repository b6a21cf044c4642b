"""A check of a release, its result, and the line that reports it."""

import enum
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


class CheckState(enum.StrEnum):
    """Whether a release may be made, by one check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check."""

    state: CheckState
    text: str = ""  # what was found, what to do, or why the check was skipped
    output: str = ""  # of a program that failed

    def __str__(self) -> str:
        return f"{self.state}: {self.text}" if self.text else str(self.state)


def ok(text: str = "") -> CheckResult:
    """Return a success with what was found."""
    return CheckResult(state=CheckState.OK, text=text)


def failed(text: str, output: str = "") -> CheckResult:
    """Return a failure with what to do about it."""
    return CheckResult(state=CheckState.FAILED, text=text, output=output)


def skipped(text: str) -> CheckResult:
    """Return that a check could not be made, with the reason."""
    return CheckResult(state=CheckState.SKIPPED, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The checkout that is to be released."""

    root: Path
    version: str
    programs: tuple[str, ...]  # that the wheel installs

    @classmethod
    def of(cls, root: Path) -> Self:
        """Read ``pyproject.toml``, which is the source of the version."""
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
        project: dict[str, Any] = tomllib.loads(text)["project"]
        return cls(root=root, version=project["version"], programs=tuple(project["scripts"]))

    @property
    def distributions(self) -> Path:
        """The folder of what is published."""
        return self.root / "dist"

    @property
    def wheel(self) -> Path:
        return self.distributions / f"pyvpa-{self.version}-py3-none-any.whl"

    @property
    def source(self) -> Path:
        return self.distributions / f"pyvpa-{self.version}.tar.gz"

    @property
    def bill_of_materials(self) -> Path:
        return self.distributions / f"pyvpa-{self.version}.cdx.json"

    @property
    def environment(self) -> Path:
        """The folder of a virtual environment with the wheel, its dependencies and nothing else."""
        return self.root / "build" / ".venv"

    @property
    def cli_environment(self) -> Path:
        """The folder of a virtual environment with what ``kubectl vpa`` needs."""
        return self.root / "build" / ".venv-cli"


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """A check with the name that its line begins with."""

    name: str
    run: Callable[[Release], CheckResult]


def run_checks(
    checks: Sequence[ReleaseCheck], release: Release, *, write: Callable[[str], None]
) -> bool:
    """Run all checks, and write a line for each; return False if one failed."""
    width = max(len(check.name) for check in checks)
    passed = True
    for check in checks:
        result = check.run(release)
        passed &= result.state is not CheckState.FAILED
        if result.output:
            write(result.output.rstrip())
        write(f"{check.name:<{width}}  {result}")
    return passed


def run_program(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return its exit code and output.

    It imports nothing from the checkout, except for what is installed.
    """
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["PYTHONSAFEPATH"] = "1"
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def run_module(name: str, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a module of this environment as a program."""
    return run_program(sys.executable, "-m", name, *arguments, folder=folder)
