"""The recommender's flags for Prometheus as arguments of ``kubectl vpa report``."""

import argparse
from datetime import timedelta

import pytest

from common.errors import ConfigError
from common.flags import groups
from kubectl_vpa.cluster.prometheus_flags import add_prometheus, prometheus_settings
from recommender.sources.usage_source_settings import (
    HISTORY_QUERIES,
    PROMETHEUS,
    UsageSourceSettings,
)


def parsed(*arguments: str) -> UsageSourceSettings:
    parser = argparse.ArgumentParser()
    add_prometheus(parser)
    return prometheus_settings(parser.parse_args(arguments))


def test_all_flags_but_the_source_are_those_of_the_recommender() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_prometheus(parser)
    named = {name for action in parser._actions for name in action.option_strings}
    declared = groups(UsageSourceSettings)
    wanted = {
        each.metadata["flag"] for title in (PROMETHEUS, HISTORY_QUERIES) for each in declared[title]
    }
    assert named == wanted - {"--storage"}


def test_defaults_are_those_of_the_recommender_but_there_is_no_address() -> None:
    assert parsed() == UsageSourceSettings(storage="prometheus", prometheus_address="")


def test_values_are_parsed_as_those_of_the_recommender() -> None:
    found = parsed(
        "--prometheus-address=https://prometheus:9090",
        "--prometheus-insecure",
        "--history-length=2d",
        "--container-name-label=container",
    )
    assert found.prometheus_address == "https://prometheus:9090"
    assert found.prometheus_insecure is True
    assert found.history_span == (timedelta(days=2), timedelta(hours=1))
    assert found.container_name_label == "container"


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("--history-length=8", "--history-length: not a duration such as 8d or 1h30m: '8'"),
        ("--prometheus-query-timeout=0s", "--prometheus-query-timeout must be positive"),
    ],
)
def test_a_wrong_duration_is_named(argument: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parsed(argument)


def test_a_wrong_boolean_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--prometheus-insecure=maybe")
    assert "--prometheus-insecure: not true or false: 'maybe'" in capsys.readouterr().err
