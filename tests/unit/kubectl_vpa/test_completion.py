"""Completion of the command line of ``kubectl vpa``."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_vpa.completion import Candidates, Shell, Wanted, candidates, script
from kubectl_vpa.program import COMMANDS, new_parser

NAMES = tuple(COMMANDS)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param([], (*NAMES, "--help", "--version"), id="nothing yet"),
        pytest.param(["st"], ("status",), id="the start of a command"),
        pytest.param(["nothing"], (), id="no such command"),
        pytest.param(["export", "--as", "h"], ("helm",), id="a value of an option"),
        pytest.param(["export", "--as", "helm", "-o", ""], ("yaml", "json", "csv"), id="formats"),
        pytest.param(["status", "--no"], ("--no-headers",), id="an option"),
        pytest.param(["status", "-A", "--no"], ("--no-headers",), id="after a switch"),
        pytest.param(["completion", "z"], ("zsh",), id="a positional argument"),
    ],
)
def test_candidates_follow_from_the_parser(words: list[str], want: tuple[str, ...]) -> None:
    assert candidates(new_parser(), words).texts == want


@pytest.mark.parametrize(
    ("words", "wanted", "arguments"),
    [
        (["status", "-n", "sh"], Wanted.NAMESPACE, ()),
        (["why", ""], Wanted.SUBJECT, ()),
        (["why", "-n", "shop", "w"], Wanted.SUBJECT, ("-n", "shop")),
        (
            ["why", "--context", "prod", "-o", "json", "w"],
            Wanted.SUBJECT,
            ("--context", "prod"),
        ),
    ],
)
def test_names_are_read_from_the_cluster(
    words: list[str], wanted: Wanted, arguments: tuple[str, ...]
) -> None:
    want = Candidates(wanted=wanted, arguments=arguments)
    assert candidates(new_parser(), words) == want


CHECKERS = {Shell.BASH: "bash", Shell.ZSH: "zsh", Shell.FISH: "fish", Shell.KUBECTL: "sh"}


@pytest.mark.parametrize("shell", Shell)
def test_a_shell_accepts_its_script(shell: Shell, tmp_path: Path) -> None:
    program = shutil.which(CHECKERS[shell])
    if program is None:
        pytest.skip(f"{CHECKERS[shell]} is not on the PATH")
    file = tmp_path / "script"
    file.write_text(script(shell))
    subprocess.run((program, "-n", str(file)), check=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH with the program."""
    program = tmp_path / "kubectl-vpa"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kubectl_vpa "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on the PATH")
def test_bash_completes_by_its_script(path: str) -> None:
    lines = (
        script(Shell.BASH),
        "COMP_WORDS=(kubectl-vpa export --as k) COMP_CWORD=3",
        "_kubectl_vpa",
        'echo "${COMPREPLY[@]}"',
    )
    done = subprocess.run(
        ("bash", "-c", "\n".join(lines)),
        env={"PATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "kustomize\n"


def test_kubectl_gets_candidates_and_no_file_names(path: str, tmp_path: Path) -> None:
    file = tmp_path / "kubectl_complete-vpa"
    file.write_text(script(Shell.KUBECTL))
    done = subprocess.run(
        ("sh", str(file), "do"), env={"PATH": path}, check=True, capture_output=True, text=True
    )
    assert done.stdout == "doctor\n:4\n"
