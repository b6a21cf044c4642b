"""The pinned packages: what is installed is the same everywhere, and can be installed anywhere."""

import re
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = "pyvpa"
PUBLISHED = ("constraints-image.txt", "constraints-cli.txt")


def pins(name: str) -> set[str]:
    """Return the pins of a file, such as ``coverage[toml]==7.17.3``."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return {line.split(" ")[0] for line in lines if "==" in line}


def required_with_extras() -> Iterator[Requirement]:
    """Yield what the installed packages require with extras, such as ``coverage[toml]``."""
    for package in distributions():
        if package.name == PROJECT:
            continue
        for text in package.requires or ():
            required = Requirement(text)
            if required.extras and (
                required.marker is None or required.marker.evaluate({"extra": ""})
            ):
                yield required


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_has_the_packages_that_the_tests_use(name: str) -> None:
    """Its constraints are a subset of the project's."""
    assert pins(name) <= pins("constraints.txt")


def test_a_package_is_pinned_with_the_extras_that_others_require() -> None:
    """Without them pip refuses the hashes as soon as a newer version of the package exists."""
    pinned = {
        canonicalize_name(requirement.name): requirement.extras
        for requirement in map(Requirement, pins("constraints.txt"))
    }
    missing = [
        str(required)
        for required in required_with_extras()
        if not required.extras <= pinned.get(canonicalize_name(required.name), set())
    ]
    assert missing == []


def test_no_file_names_a_host() -> None:
    for name in ("constraints.txt", *PUBLISHED):
        assert "://" not in (ROOT / name).read_text("utf-8")


def test_what_ci_installs_is_pinned() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    for line in re.findall(r"pip install .*", script):
        assert "--require-hashes" in line
