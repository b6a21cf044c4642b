"""Invalid flags of the recommender, and settings computed from flags."""

from datetime import timedelta

import pytest

from common.errors import ConfigError
from common.flags import read_flags
from recommender.settings import RecommenderSettings
from recommender.sources.promql import Queries


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        pytest.param("--cpu-histogram-decay-half-life=-1s", "must be positive", id="half-life"),
        pytest.param("--container-recommendation-max-allowed-cpu=x", "not a quantity", id="cap"),
    ],
)
def test_invalid_flags(flag: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_flags(RecommenderSettings, [flag])


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--history-length=8", "--history-length: not a duration"),
        ("--history-length=0d", "--history-length: must be positive"),
        ("--history-resolution=1.5h", "--history-resolution: not a duration"),
        ("--prometheus-query-timeout=5d", "--prometheus-query-timeout: not a duration"),
        ("--prometheus-query-timeout=0s", "--prometheus-query-timeout must be positive"),
    ],
)
def test_history_durations_are_checked_only_with_prometheus(flag: str, complaint: str) -> None:
    assert not read_flags(RecommenderSettings, [flag]).reads_prometheus
    with pytest.raises(ConfigError, match=complaint):
        read_flags(RecommenderSettings, ["--storage=prometheus", flag])


def test_history_settings_from_flags() -> None:
    flags = [
        *("--storage=prometheus", "--history-length=2d", "--history-resolution=30m"),
        *("--history-cpu-metric=cpu", "--history-memory-metric=memory", "--pod-label-prefix=l_"),
        *("--prometheus-cadvisor-job-name=", "--container-namespace-label=ns"),
        *("--container-pod-name-label=pod", "--container-name-label=container"),
        *("--metric-for-pod-labels=labels", "--pod-namespace-label=n", "--pod-name-label=p"),
        "--prometheus-query-timeout=90s",
    ]
    settings = read_flags(RecommenderSettings, flags)
    queries = Queries(settings)
    assert settings.reads_prometheus
    assert settings.query_timeout == timedelta(seconds=90)
    assert settings.history_span == (timedelta(days=2), timedelta(minutes=30))
    selector = 'pod=~".+", container!="POD", container!="", ns="shop"'
    assert queries.cpu("shop") == f"rate(cpu{{{selector}}}[30m])"
    assert queries.memory("shop") == f"memory{{{selector}}}"
    assert queries.pod_labels("shop") == 'last_over_time(labels{n="shop"}[30m])'
    assert (settings.pod_name_label, settings.pod_label_prefix) == ("p", "l_")


def test_three_credentials_exclude_each_other() -> None:
    flags = ["--prometheus-bearer-token=a", "--prometheus-bearer-token-file=b", "--username=c"]
    assert read_flags(RecommenderSettings, flags[:2]).prometheus_bearer_token == "a"
    with pytest.raises(ConfigError, match="exclude each other"):
        read_flags(RecommenderSettings, flags)


def test_intervals_of_seconds_are_accepted() -> None:
    flags = [
        "--recommender-interval=2s",
        "--confidence-interval-cpu=30s",
        "--memory-aggregation-interval=20s",
        "--memory-histogram-decay-half-life=15s",
    ]
    settings = read_flags(RecommenderSettings, flags)
    assert settings.interval == timedelta(seconds=2)
    assert settings.estimation.cpu_confidence == timedelta(seconds=30)
    assert settings.aggregation.interval == timedelta(seconds=20)
    assert settings.half_lives.memory == timedelta(seconds=15)


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        pytest.param([], 0, id="none"),
        pytest.param(["--min-checkpoints=10"], 0, id="the default"),
        pytest.param(["--min-checkpoints=9", "--humanize-memory"], 2, id="two"),
        pytest.param(["--use-external-metrics"], 1, id="external metrics without a name"),
        pytest.param(
            ["--use-external-metrics", "--external-metrics-cpu-metric=c"], 0, id="with a name"
        ),
        pytest.param(["--round-cpu-millicores=0", "--round-memory-bytes=-1"], 2, id="rounding"),
    ],
)
def test_warnings(flags: list[str], count: int) -> None:
    assert len(read_flags(RecommenderSettings, flags).warnings) == count


def test_a_maximum_of_zero_is_no_maximum() -> None:
    flags = ["--container-recommendation-max-allowed-cpu=0"]
    assert not read_flags(RecommenderSettings, flags).publication.max_allowed
