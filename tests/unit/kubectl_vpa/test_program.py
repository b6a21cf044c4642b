"""The command line of ``kubectl vpa``: what it accepts, and what it imports."""

import subprocess
import sys

import pytest

from kubectl_vpa.program import COMMANDS, new_parser


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(
            ("status", "-o", "xml"),
            "argument -o/--output: 'xml' is not one of table, wide, json, yaml, csv, name",
            id="a format",
        ),
        pytest.param(
            ("export", "--as", "xml"),
            "argument --as: 'xml' is not one of objects, recommendations, kustomize, helm, patch",
            id="a form",
        ),
        pytest.param(
            ("status", "-n", "shop", "-A"),
            "argument -A/--all-namespaces: not allowed with argument -n/--namespace",
            id="one namespace and all",
        ),
    ],
)
def test_an_error_names_the_argument_and_its_values(
    words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        new_parser().parse_args(words)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {error}\n")


def test_each_command_can_be_chosen_alone() -> None:
    for name in COMMANDS:
        # Without a command all of them have their arguments.
        assert new_parser(name).format_help() == new_parser().format_help()


def test_a_command_that_needs_no_model_does_not_import_it() -> None:
    """NumPy takes a tenth of a second, and a program that lists VPAs doesn't need it."""
    script = (
        "import sys; from kubectl_vpa.program import new_parser; new_parser('status'); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", script], check=False).returncode == 0
