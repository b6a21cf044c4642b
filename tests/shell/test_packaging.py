"""The wheel has the product's packages only, and its programs run without the checkout."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PRODUCT = {"common", "recommender", "updater", "admission", "certs", "kubectl_vpa"}
OTHERS = ("benchmarks", "controlplane", "demo", "docs", "sandbox", "tests")
COMMAND_LINE = "kubectl-vpa"  # needs the extra cli, which the images don't have
PROGRAMS = (
    *("vpa-recommender", "vpa-updater", "vpa-admission-controller", "vpa-certs"),
    COMMAND_LINE,
)
INFO = f"pyvpa-{PROJECT['version']}.dist-info"


def pip(*arguments: str | Path) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    command = (sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", *quiet)
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, because a build includes old files and creates new ones."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    without = shutil.ignore_patterns("__pycache__", "data", "recorded")
    for name in (*PRODUCT, *OTHERS):
        shutil.copytree(ROOT / name, source / name, ignore=without)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


def test_only_the_product_is_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {*PRODUCT, INFO}


def test_every_file_of_the_product_is_in_the_wheel(wheel: Path) -> None:
    files = {
        str(file.relative_to(ROOT))
        for package in PRODUCT
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(INFO)} == (
        files
    )


def test_the_metadata_is_complete(wheel: Path) -> None:
    found = Parser().parsestr(zipfile.ZipFile(wheel).read(f"{INFO}/METADATA").decode())
    versions = [
        one.rpartition(" ")[2] for one in found.get_all("Classifier", []) if "Python :: 3." in one
    ]
    assert found["Requires-Python"] == f"<3.{int(versions[-1][2:]) + 1},>={versions[0]}"
    assert found["License-Expression"] == "Apache-2.0"
    assert all(found[name] for name in ("Author", "Summary", "Keywords", "Project-URL"))


def test_the_dependencies_of_the_command_line_and_the_sandbox_are_extras() -> None:
    """Packages that only these and the demo import aren't installed with the components."""
    required = {one.partition(">=")[0] for one in PROJECT["dependencies"]}
    assert "rich" not in required


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--target", folder, wheel)
    return folder


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_without_the_checkout(program: str, installed: Path) -> None:
    def run(argument: str) -> str:
        return subprocess.run(
            (installed / "bin" / program, argument),
            cwd="/",
            env={"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert run("--version") == f"{program} {PROJECT['version']}\n"
    assert run("--help").startswith(f"usage: {program} ")


def test_there_are_no_other_programs(installed: Path) -> None:
    assert {file.name for file in (installed / "bin").iterdir()} == set(PROGRAMS)


def test_the_python_version_of_the_tests_is_declared() -> None:
    running = f"Programming Language :: Python :: {sys.version_info[0]}.{sys.version_info[1]}"
    assert running in PROJECT["classifiers"]
