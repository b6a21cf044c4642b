"""The wheel: built, installed in a new environment, and tried."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.checks import (
    CheckResult,
    CheckState,
    Release,
    ReleaseCheck,
    failed,
    ok,
    run_module,
    run_program,
)

CONSTRAINTS = "constraints-image.txt"
"""The packages that the images have."""

CLI_CONSTRAINTS = "constraints-cli.txt"
"""The packages that ``kubectl vpa`` needs; the images have neither it nor all of them."""

CLI = "kubectl-vpa"


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
    return _install(release, release.environment, CONSTRAINTS)


def install_cli(release: Release) -> CheckResult:
    """Install the wheel for ``kubectl vpa`` in a new environment, and run it."""
    result = _install(release, release.cli_environment, CLI_CONSTRAINTS)
    if result.state is not CheckState.OK:
        return result
    return _try(release, (CLI,), release.cli_environment)


def _install(release: Release, environment: Path, constraints: str) -> CheckResult:
    for module, arguments in _installation(release, environment, constraints):
        done = run_module(module, *arguments, folder=release.root)
        if done.returncode:
            return failed("the installation failed: see above", done.stdout + done.stderr)
    return ok(f"with {constraints} in a new environment; no dependency is missing")


def _installation(
    release: Release, environment: Path, constraints: str
) -> Iterator[tuple[str, Sequence[str | Path]]]:
    """Yield the modules to run, with their arguments."""
    python = environment / "bin" / "python"
    pip = ("--python", python, "--disable-pip-version-check")
    yield "venv", ("--clear", "--without-pip", environment)
    yield "pip", (*pip, "install", "--require-hashes", "--requirement", constraints)
    yield "pip", (*pip, "install", "--no-deps", release.wheel)
    yield "pip", (*pip, "check")


def try_programs(release: Release) -> CheckResult:
    """Run each program of a component outside of the checkout."""
    components = tuple(each for each in release.programs if each != CLI)
    return _try(release, components, release.environment)


def _try(release: Release, programs: Sequence[str], environment: Path) -> CheckResult:
    """Run programs outside of the checkout: they print their version and their help."""
    for program in programs:
        path = environment / "bin" / program
        if not path.exists():
            return failed(f"{program} is missing: install the wheel first")
        said = run_program(path, "--version", folder=environment)
        if said.stdout.split() != [program, release.version]:
            return failed(
                f"{program} --version doesn't print the version", said.stdout + said.stderr
            )
        helped = run_program(path, "--help", folder=environment)
        if helped.returncode:
            return failed(f"{program} --help failed: see above", helped.stderr)
    return ok(", ".join(programs))


CHECKS = (
    ReleaseCheck("source distribution and wheel", build),
    ReleaseCheck("installation of the wheel", install),
    ReleaseCheck("programs of the wheel", try_programs),
    ReleaseCheck("kubectl vpa of the wheel", install_cli),
)
