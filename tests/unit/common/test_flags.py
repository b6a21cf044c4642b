"""Command lines, parsed as the reference parses them."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from common.errors import ConfigError
from common.flags import (
    boolean,
    declared,
    duration,
    flag,
    groups,
    names,
    one_of,
    port_number,
    read_flags,
    show,
)
from common.runtime.settings import KLOG_FLAGS, CommonSettings, LeaderElectionSettings
from common.version import version
from golden_data import lists


def some_flag(name: str, **options: Any) -> Any:
    return flag(name, **{"group": "General", "metavar": "THING"} | options)


@dataclass(frozen=True, kw_only=True)
class BaseSettings:
    """Flags that several programs have."""

    accepted_without_effect: ClassVar[Mapping[str, str]] = KLOG_FLAGS

    elect: bool = flag(
        "--leader-elect", default=False, parse=boolean, group="Leaders", help="One acts."
    )
    verbosity: int = some_flag("--v", short="-v", default=4, parse=int, help="Detail.")


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """Flags of these tests."""

    interval: timedelta = flag(
        "--interval",
        default=timedelta(minutes=1),
        parse=duration,
        group="Timing",
        help="How often, at 100%.",
    )
    count: int = some_flag("--count", default=2, parse=int, help="How many.")
    port: int = flag("--port", default=0, parse=port_number, group="General", help="Where.")
    rate: float = some_flag("--rate-limit", default=-1.0, parse=float, help="How fast.")
    register: bool = some_flag("--register", default=True, parse=boolean, help="Register.")
    ignored: tuple[str, ...] = some_flag("--ignored", default=(), parse=names, help="Not these.")
    address: str = some_flag(
        "--webhook-address", default="", parse=str, help="Where.", env="WEBHOOK_ADDRESS"
    )
    shapes: tuple[str, ...] = flag(
        "--shape", default=(), parse=str, group="General", help="Each.", is_repeated=True
    )
    patience: timedelta = flag(
        "--patience",
        alias="--wait",
        default=timedelta(0),
        parse=duration,
        group="General",
        metavar="THING",
        help="How long.",
    )


def read(*argv: str, environ: dict[str, str] | None = None) -> Settings:
    return read_flags(Settings, argv, program="vpa-test", environ=environ)


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param(["--count=3"], {"count": 3}, id="two dashes"),
        pytest.param(["--count", "3"], {"count": 3}, id="value as a separate argument"),
        pytest.param(["--rate_limit=2.5"], {"rate": 2.5}, id="underscores are dashes"),
        pytest.param(["--rate-limit=-1"], {"rate": -1.0}, id="a negative number"),
        pytest.param(
            ["--rate-limit", "-1"], {"rate": -1.0}, id="a negative number as a separate argument"
        ),
        pytest.param(["--count=3", "--count=4"], {"count": 4}, id="the last one counts"),
        pytest.param(["--leader-elect"], {"elect": True}, id="a bare Boolean"),
        pytest.param(["--leader-elect=false"], {"elect": False}, id="a Boolean that is false"),
        pytest.param(["--register=f"], {"register": False}, id="Go's short false"),
        pytest.param(["--leader_elect=T"], {"elect": True}, id="an underscore and a short Boolean"),
        pytest.param(["--interval=1h30m"], {"interval": timedelta(minutes=90)}, id="a duration"),
        pytest.param(["--ignored=a,b"], {"ignored": ("a", "b")}, id="a list"),
        pytest.param(["--ignored="], {"ignored": ()}, id="an empty list"),
        pytest.param(["--shape=a,b"], {"shapes": ("a,b",)}, id="a repeated flag once"),
        pytest.param(
            ["--shape=a", "--shape", "b"], {"shapes": ("a", "b")}, id="a repeated flag twice"
        ),
        pytest.param(["-v", "2"], {"verbosity": 2}, id="the short name"),
        pytest.param(["-v=2"], {"verbosity": 2}, id="the short name with an equals sign"),
        pytest.param(["--v=2"], {"verbosity": 2}, id="the short name with two dashes"),
        pytest.param(["--webhook-address=under_score"], {"address": "under_score"}, id="a value"),
        pytest.param(["--wait=5s"], {"patience": timedelta(seconds=5)}, id="an alias"),
        pytest.param(
            ["--patience=60s", "--wait=1m"],
            {"patience": timedelta(minutes=1)},
            id="a flag and its alias with the same value",
        ),
        pytest.param(
            ["--wait=5s", "--wait=6s"],
            {"patience": timedelta(seconds=6)},
            id="the last one of an alias counts",
        ),
        pytest.param(
            ["--logtostderr", "--stderrthreshold=0", "--vmodule=a=1", "--log_dir=/tmp"],
            {},
            id="klog's flags have no effect",
        ),
    ],
)
def test_command_lines(argv: list[str], want: dict[str, Any]) -> None:
    assert read(*argv) == Settings(**want)


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        pytest.param(["--nope=1"], "--nope", id="unknown"),
        pytest.param(["--coun=1"], "--coun", id="no abbreviations"),
        pytest.param(["stray"], "stray", id="an argument that is no flag"),
        pytest.param(["--count=many"], "many", id="no number"),
        pytest.param(["--count"], "--count", id="no value"),
        pytest.param(["--port=http"], "http", id="a port that is no number"),
        pytest.param(["--port=65536"], "65536", id="a port beyond the last"),
        pytest.param(["--port=-1"], "-1", id="a port below zero"),
        pytest.param(["--interval=5"], "5", id="a duration without a unit"),
        pytest.param(["--leader-elect=maybe"], "maybe", id="neither true nor false"),
        pytest.param(
            ["--patience=5s", "--wait=6s"],
            "--patience=5s and --wait=6s are two names of one flag with different values",
            id="a flag and its alias with different values",
        ),
    ],
)
def test_an_invalid_command_line_raises_a_one_line_error(argv: list[str], word: str) -> None:
    with pytest.raises(ConfigError) as failed:
        read(*argv)
    assert word in str(failed.value)
    assert "\n" not in str(failed.value)


def test_the_environment_sets_a_flag_that_is_missing() -> None:
    environ = {"WEBHOOK_ADDRESS": "from-env"}
    assert read(environ=environ).address == "from-env"
    assert read("--webhook-address=flag", environ=environ).address == "flag"
    assert read(environ={"WEBHOOK_ADDRESS": ""}).address == ""


def printed(argument: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        read(argument)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help_lists_flags_with_their_defaults(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(argument, capsys)
    assert "How often, at 100%. (default: 1m0s)" in text
    assert "One acts. (default: false)" in text
    assert "without effect: --add-dir-header" in text


def test_help_lists_the_groups_of_a_class_before_those_of_its_bases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert {title: [f.name for f in fields] for title, fields in groups(Settings).items()} == {
        "Timing": ["interval"],
        "General": [
            *("count", "port", "rate", "register", "ignored", "address", "shapes"),
            "patience",
            "verbosity",
        ],
        "Leaders": ["elect"],
    }
    text = printed("--help", capsys)
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0].isupper()]
    assert titles == ["Timing:", "General:", "Leaders:"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("  --interval DURATION", id="a metavar of the parser"),
        pytest.param("  --count THING", id="a metavar of the flag"),
        pytest.param("  --register [THING]", id="an optional value"),
        pytest.param("  --leader-elect [BOOL]", id="a Boolean"),
        pytest.param("  -v, --v THING", id="a short name"),
        pytest.param("  --patience, --wait THING", id="an alias"),
    ],
)
def test_help_names_values(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("--help", capsys).splitlines()
    assert line in [one.replace(" THING,", ",") for one in lines]  # named twice before Python 3.13


@dataclass(frozen=True, kw_only=True)
class LongSettings:
    """Flags of a program without klog's flags."""

    place: str = flag(
        "--place",
        default="a-name-with-dashes",
        parse=str,
        group="General",
        metavar="NAME",
        help="Words that fill a line up to the column at which a value with dashes has to go",
    )


def test_help_wraps_no_default_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_flags(LongSettings, ["--help"])
    text = capsys.readouterr().out
    assert "(default:\n    a-name-with-dashes)" in text
    assert "without effect" not in text


@pytest.mark.parametrize("name", ["--logtostderr", "--vmodule=a=1"])
def test_klogs_flags_are_unknown_to_a_program_without_them(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown flag"):
        read_flags(LongSettings, [name])


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("--version", capsys) == f"vpa-test {version()}\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", timedelta()),
        ("1h30m", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("-1.5h", -timedelta(minutes=90)),
        ("+5s", timedelta(seconds=5)),
        (".5m", timedelta(seconds=30)),
        ("1.s", timedelta(seconds=1)),
        ("1500us", timedelta(milliseconds=1.5)),
        ("1µs", timedelta(microseconds=1)),
        ("600ns", timedelta(microseconds=1)),
        ("1m1m", timedelta(minutes=2)),
    ],
)
def test_durations(text: str, want: timedelta) -> None:
    assert duration(text) == want


@pytest.mark.parametrize("text", ["", "1", "h", "1d", "1 s", "--1s", "1h-5m", "1e3s", ".s"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=1), "1s"),
        (timedelta(minutes=1), "1m0s"),
        (timedelta(hours=24), "24h0m0s"),
        (timedelta(seconds=90.5), "1m30.5s"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=7), "7µs"),
        (-timedelta(minutes=1), "-1m0s"),
        (True, "true"),
        (("a", "b"), "a,b"),
        (None, ""),
        (0.5, "0.5"),
    ],
)
def test_show(value: object, want: str) -> None:
    assert show(value) == want


class Speed(enum.StrEnum):
    SLOW = "slow"
    FAST = "fast"


@pytest.mark.parametrize("speed", Speed)
def test_a_choice(speed: Speed) -> None:
    assert one_of(Speed)(speed.value) is speed


@pytest.mark.parametrize("text", ["", "Slow", "SLOW", "slow ", "both"])
def test_invalid_choices(text: str) -> None:
    with pytest.raises(ValueError, match=f"not one of slow, fast: '{text}'"):
        one_of(Speed)(text)


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_true(text: str) -> None:
    assert boolean(text) is True


@pytest.mark.parametrize("text", ["yes", "on", "", "tRUE", "2"])
def test_invalid_booleans(text: str) -> None:
    with pytest.raises(ValueError, match="not true or false"):
        boolean(text)


# The reference's flags, as its programs print them


def golden() -> dict[str, dict[str, str]]:
    """Return the reference's defaults by component and flag."""
    return {
        each["component"]: {f"--{f['name']}": f["effective_default"] for f in each["flags"]}
        for each in lists("flags")
    }


def go_text(value: object) -> str:
    """Return a default as Go prints it: ``50``, not ``50.0``."""
    return f"{value:g}" if isinstance(value, float) else show(value)


def test_shared_flags_have_the_references_names_and_defaults() -> None:
    ours_alone = {"--logging-format", "--context", "--read-api"}
    for component, flags in golden().items():
        for field in declared(CommonSettings):
            name = field.metadata["flag"]
            if name in ours_alone:
                assert name not in flags
                continue
            assert (component, name, go_text(field.default)) == (component, name, flags[name])


def test_leader_election_flags_have_the_references_names_and_defaults() -> None:
    for component in ("recommender", "updater"):
        flags = golden()[component]
        ours = {f.metadata["flag"]: show(f.default) for f in declared(LeaderElectionSettings)}
        theirs = {name: text for name, text in flags.items() if name.startswith("--leader-elect")}
        del theirs["--leader-elect-resource-name"]  # each process has its own
        assert ours == theirs


def test_klogs_flags_are_those_of_the_reference() -> None:
    theirs = golden()["recommender"]
    shared = {name: text for name, text in KLOG_FLAGS.items() if name in theirs}
    assert {name: theirs[name] for name in shared} == shared


def test_settings_that_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        read_flags(
            CommonSettings, ["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"]
        )


def test_an_unknown_log_format() -> None:
    with pytest.raises(ConfigError, match="'xml' is not text or json"):
        read_flags(CommonSettings, ["--logging-format=xml"])
