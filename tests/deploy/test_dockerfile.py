"""The Dockerfile: pinned, complete and minimal; and the program that executes it in tests."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.images import TARGETS
from image_packages import DOCKERFILE, PACKAGES, chain, imported, installed, of_kind, required
from image_roots.context import read_ignore_file
from image_roots.dockerfile import (
    Copy,
    Instruction,
    UnsupportedError,
    copy_of,
    parse,
)

ROOT = Path(__file__).parents[2]
ARGUMENTS = ("VERSION", "REVISION", "CREATED", "SOURCE")
ENTRYPOINTS = {
    "recommender": "/recommender",
    "updater": "/updater",
    "admission": "/admission-controller",
    "certs": "/certs",
}


# The base, the targets, the context


def test_the_base_is_pinned_by_a_digest() -> None:
    base = DOCKERFILE.arguments["BASE"]
    assert re.fullmatch(r"python:3\.\d+-slim[\w.-]*@sha256:[0-9a-f]{64}", base)
    names = {stage.name for stage in DOCKERFILE.stages}
    assert {stage.base for stage in DOCKERFILE.stages} <= {*names, base}


def test_each_component_has_a_target() -> None:
    for target, image in TARGETS.items():
        stage = DOCKERFILE.stage(target)
        labels = of_kind(stage, "LABEL")[0].pairs({})
        assert labels["org.opencontainers.image.title"] == image
        (entrypoint,) = of_kind(stage, "ENTRYPOINT")
        assert entrypoint.command() == [ENTRYPOINTS[target]]
        (user,) = [each.text for part in chain(stage) for each in of_kind(part, "USER")]
        assert user == "65532:65532"


def test_without_a_target_the_build_fails() -> None:
    last = DOCKERFILE.stage("")
    assert last.name == ""
    (run,) = last.instructions
    command = [sys.executable, *run.command()[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.command()[0], done.returncode) == ("python", 1)
    assert done.stderr.startswith("name a target: --target=")
    assert all(target in done.stderr for target in TARGETS)


@pytest.mark.parametrize("missing", ARGUMENTS)
def test_without_an_argument_the_build_fails(missing: str) -> None:
    """Execute the command of the Dockerfile that checks them."""
    (check,) = [run for run in of_kind(DOCKERFILE.stage("runtime"), "RUN") if run.text[0] == ":"]
    environ = {name: "1" for name in ARGUMENTS if name != missing}
    done = subprocess.run(check.command(), env=environ, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"{missing}: missing: --build-arg {missing}=" in done.stderr
    subprocess.run(check.command(), env={**environ, missing: "1"}, check=True)


def test_the_context_is_what_the_wheel_is_built_from() -> None:
    allowed, excluded = read_ignore_file((ROOT / ".dockerignore").read_text("utf-8"))
    files = {"LICENSE", "README.md", "constraints-image.txt", "pyproject.toml"}
    assert set(allowed) == {*files, *PACKAGES}
    assert excluded == ["__pycache__"]


# The packages


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_the_packages_that_its_component_imports(target: str) -> None:
    named = installed(target)
    assert sorted(set(named)) == sorted(named)
    brought = required(set(named))
    assert imported(target) - set(named) <= brought, "missing"
    assert set(named) - imported(target) == set(), "needless"


def test_numpy_is_in_the_recommender_alone() -> None:
    assert [target for target in TARGETS if "numpy" in installed(target)] == ["recommender"]


def test_the_packages_of_all_images_are_the_dependencies_of_the_project() -> None:
    requirements = map(Requirement, importlib.metadata.requires("pyvpa") or ())
    dependencies = {canonicalize_name(each.name) for each in requirements if each.marker is None}
    assert {name for target in TARGETS for name in installed(target)} == dependencies


# What the program that executes it refuses


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("FROM a\nADD b c", "line 2: ADD is not supported", id="another instruction"),
        pytest.param(
            "FROM --platform=x a", "--platform=x a is not supported", id="FROM with flags"
        ),
        pytest.param("RUN true", "before FROM is not supported", id="an instruction before FROM"),
        pytest.param("FROM a\nRUN <<EOF\nEOF", "here-document is not", id="a here-document"),
        pytest.param("FROM a\nRUN true \\", "last line is continued", id="an unfinished line"),
        pytest.param("FROM ${BASE}", "BASE is not declared", id="an undeclared variable"),
    ],
)
def test_a_dockerfile_that_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(problem)):
        parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("--chown=1:1 a b", "--chown", id="COPY with another flag"),
        pytest.param("a", "a is not supported", id="COPY without a destination"),
        pytest.param("$A b", "the variable in $A", id="a variable without braces"),
        pytest.param("${A:-x} b", "the variable in ${A:-x}", id="a default of a variable"),
    ],
)
def test_an_instruction_that_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(problem)):
        copy_of(Instruction(1, "COPY", text), {"A": "a"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("!a\n*", "the first pattern is not *"),
        ("*\n!a/b", "!a/b is not supported"),
        ("*\n!a*", "!a* is not supported"),
        ("*\nbuild", "build is not supported"),
    ],
)
def test_an_ignore_file_that_is_no_allow_list_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(problem)):
        read_ignore_file(text)


def test_what_is_read_from_instructions() -> None:
    found = parse('ARG A=1\nFROM x:${A} AS one\n# c\nRUN a \\\n # c\n && b\nENV B="1 2" C=3\n')
    (stage,) = found.stages
    run, env = stage.instructions
    assert (stage.base, stage.name) == ("x:1", "one")
    assert (run.line, run.command()) == (4, ["/bin/sh", "-c", "a && b"])
    assert env.pairs({}) == {"B": "1 2", "C": "3"}
    assert Instruction(1, "RUN", '["a", "b c"]').command() == ["a", "b c"]
    copy = copy_of(Instruction(1, "COPY", "--from=one a ${A}/ ."), {"A": "b"})
    assert copy == Copy("one", ("a", "b/"), ".")
    assert parse("ARG A=1\nFROM ${A}", {"A": "2"}).stages[0].base == "2"
