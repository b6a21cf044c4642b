"""The wheel: built, installed in a new environment, and tried."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.checks import (
    CheckResult,
    Release,
    ReleaseCheck,
    failed,
    ok,
    run_module,
    run_program,
)

CONSTRAINTS = "constraints-image.txt"
"""The packages that the images have."""


def build(release: Release) -> CheckResult:
    """Build a source distribution, and from that a wheel.

    The wheel of a release is therefore one that others can build from its source.
    """
    shutil.rmtree(release.distributions, ignore_errors=True)
    done = run_module(
        *("build", "--no-isolation", "--outdir", release.distributions, release.root),
        folder=release.root,
    )
    if done.returncode:
        return failed("the build failed: see above", done.stdout + done.stderr)
    for made in (release.source, release.wheel):
        if not made.is_file():
            return failed(f"the build made no {made.name}: check the version and name in it")
    return ok(f"{release.source.name} and {release.wheel.name} in dist/")


def install(release: Release) -> CheckResult:
    """Install the wheel and its pinned dependencies in a new environment, without pip."""
    for module, arguments in _installation(release):
        done = run_module(module, *arguments, folder=release.root)
        if done.returncode:
            return failed("the installation failed: see above", done.stdout + done.stderr)
    return ok(f"with {CONSTRAINTS} in a new environment; no dependency is missing")


def _installation(release: Release) -> Iterator[tuple[str, Sequence[str | Path]]]:
    """Yield the modules to run, with their arguments."""
    python = release.environment / "bin" / "python"
    pip = ("--python", python, "--disable-pip-version-check")
    yield "venv", ("--clear", "--without-pip", release.environment)
    yield "pip", (*pip, "install", "--require-hashes", "--requirement", CONSTRAINTS)
    yield "pip", (*pip, "install", "--no-deps", release.wheel)
    yield "pip", (*pip, "check")


def try_programs(release: Release) -> CheckResult:
    """Run each program of the wheel outside of the checkout."""
    for program in release.programs:
        path = release.environment / "bin" / program
        if not path.exists():
            return failed(f"{program} is missing: install the wheel first")
        said = run_program(path, "--version", folder=release.environment)
        if said.stdout.split() != [program, release.version]:
            return failed(
                f"{program} --version doesn't print the version", said.stdout + said.stderr
            )
        helped = run_program(path, "--help", folder=release.environment)
        if helped.returncode:
            return failed(f"{program} --help failed: see above", helped.stderr)
    return ok(", ".join(release.programs))


CHECKS = (
    ReleaseCheck("source distribution and wheel", build),
    ReleaseCheck("installation of the wheel", install),
    ReleaseCheck("programs of the wheel", try_programs),
)
