"""Command lines are accepted and refused as the reference does.

The results are those of a program that declares flags as the reference does, with klog 2.140.0 and
pflag 1.0.10.
"""

from dataclasses import dataclass

import pytest

from common.errors import ConfigError
from common.flags import boolean, flag, read_flags, whole
from common.runtime.settings import CommonSettings, LeaderElectionSettings


@dataclass(frozen=True, kw_only=True)
class Settings(CommonSettings, LeaderElectionSettings):
    """Flags that the program has, too."""

    register: bool = flag(
        "--register-webhook", default=True, parse=boolean, group="General", help="Register."
    )
    replicas: int = flag(
        "--min-replicas", default=2, parse=whole(), group="General", metavar="COUNT", help="Count."
    )


@dataclass(frozen=True, kw_only=True)
class Accepted:
    id: str
    argv: tuple[str, ...]
    v: int = 4
    elect: bool = False
    kubeconfig: str = ""
    replicas: int = 2
    positional: tuple[str, ...] = ()


ACCEPTED = [
    Accepted(id="nothing", argv=()),
    Accepted(id="-v3", argv=("-v3",), v=3),
    Accepted(id="-v=3", argv=("-v=3",), v=3),
    Accepted(id="-v 3", argv=("-v", "3"), v=3),
    Accepted(id="--v 3", argv=("--v", "3"), v=3),
    Accepted(id="--v=3", argv=("--v=3",), v=3),
    Accepted(id="a negative shorthand", argv=("-v-1",), v=-1),
    Accepted(id="the last one counts", argv=("--v=4", "-v3"), v=3),
    Accepted(id="a flag of klog", argv=("--alsologtostderr",)),
    Accepted(id="a false flag of klog", argv=("--alsologtostderr=false",)),
    Accepted(id="a flag of klog with a value", argv=("--stderrthreshold", "info")),
    Accepted(
        id="a word after a Boolean of klog",
        argv=("--alsologtostderr", "false"),
        positional=("false",),
    ),
    Accepted(
        id="a word after a Boolean",
        argv=("--leader-elect", "false"),
        elect=True,
        positional=("false",),
    ),
    Accepted(id="an underscore", argv=("--leader_elect=true",), elect=True),
    Accepted(id="a value with two dashes", argv=("--kubeconfig", "--v=2"), kubeconfig="--v=2"),
    Accepted(id="a value that is a dash", argv=("--kubeconfig", "-"), kubeconfig="-"),
    Accepted(id="an empty value", argv=("--kubeconfig=",)),
    Accepted(id="a negative value", argv=("--min-replicas", "-1"), replicas=-1),
    Accepted(id="a stray argument", argv=("stray",), positional=("stray",)),
    Accepted(
        id="stray arguments around a flag",
        argv=("stray", "--v=2", "more"),
        v=2,
        positional=("stray", "more"),
    ),
    Accepted(id="arguments after two dashes", argv=("--", "--v=2"), positional=("--v=2",)),
    Accepted(id="nothing after two dashes", argv=("--v=2", "--"), v=2),
    Accepted(id="a dash", argv=("-",), positional=("-",)),
    Accepted(id="an empty argument", argv=("",), positional=("",)),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_accepted(case: Accepted) -> None:
    read = read_flags(Settings, case.argv)
    assert (read.verbosity, read.leader_elect, read.kubeconfig, read.replicas) == (
        *(case.v, case.elect, case.kubeconfig, case.replicas),
    )
    assert read.register
    assert read.ignored_arguments == case.positional
    assert len(read.warnings) == bool(case.positional)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        pytest.param(("--nope=x",), "unknown flag: --nope", id="an unknown flag"),
        pytest.param(("--nope", "--help"), "unknown flag: --nope", id="help after an error"),
        pytest.param(("--leader-elec",), "unknown flag: --leader-elec", id="an abbreviation"),
        pytest.param(("--v4",), "unknown flag: --v4", id="a value without an equals sign"),
        pytest.param(("--_v=2",), "unknown flag: --_v", id="an underscore that is no separator"),
        pytest.param(("-alsologtostderr",), "shorthand -a in -alsologtostderr:", id="one dash"),
        pytest.param(
            ("-logtostderr=true",), "shorthand -l in -logtostderr:", id="one dash and a value"
        ),
        pytest.param(("-leader-elect",), "shorthand -l", id="one dash, a flag of our own"),
        pytest.param(("-4",), "shorthand -4", id="a negative number"),
        pytest.param(("-vmodule=a=1",), "'module=a=1'", id="one dash, a name with v"),
        pytest.param(("-v 4",), "' 4'", id="a shorthand and its value in one argument"),
        pytest.param(("-v=",), "'='", id="a shorthand with an empty value"),
        pytest.param(("--v=",), "''", id="an empty number"),
        pytest.param(("-v", "-h"), "'-h'", id="a flag as a value"),
        pytest.param(("-v",), "--v needs a value", id="a shorthand without a value"),
        pytest.param(("--kubeconfig",), "--kubeconfig needs a value", id="no value"),
        pytest.param(("--leader-elect=",), "''", id="an empty Boolean"),
        pytest.param(("--min-replicas=many", "--help"), "'many'", id="help after a bad value"),
        pytest.param(("---v=2",), "not a flag: '---v=2'", id="three dashes"),
        pytest.param(("--=2",), "not a flag: '--=2'", id="no name"),
    ],
)
def test_refused(argv: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError) as failed:
        read_flags(Settings, argv)
    assert problem in str(failed.value)


def test_the_value_of_an_unknown_flag_is_not_reported() -> None:
    with pytest.raises(ConfigError, match=r"^unknown flag: --pasword$"):
        read_flags(Settings, ("--pasword=secret",))


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("-h",),
        ("-help",),
        ("-hello",),
        ("--help=x",),
        ("--help", "--nope"),
        ("stray", "--help"),
    ],
    ids=" ".join,
)
def test_help(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_flags(Settings, argv)
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_a_warning_names_the_ignored_arguments() -> None:
    (warning,) = read_flags(Settings, ("--leader-elect", "false", "more")).warnings
    assert warning == "positional arguments are ignored, Booleans need an equals sign: false more"


def test_a_program_of_our_own_refuses_stray_arguments() -> None:
    with pytest.raises(ConfigError, match="unexpected argument: 'stray'"):
        read_flags(LeaderElectionSettings, ("stray",))
