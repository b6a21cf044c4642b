"""PromQL queries, and their points in time."""

from datetime import timedelta

import pytest

from recommender.model.timestamps import span
from recommender.sources.promql import Queries, TimeRange, chunk
from recommender.sources.usage_source_settings import UsageSourceSettings, prometheus_duration

HOUR = span(timedelta(hours=1))
SERIES = 'pod_name=~".+", name!="POD", name!="", namespace="shop"'
USUAL = Queries(UsageSourceSettings())
CUSTOM = Queries(
    UsageSourceSettings(
        prometheus_cadvisor_job_name="",
        history_resolution="5m",
        history_cpu_metric="cpu",
        history_memory_metric="memory",
        container_namespace_label="ns",
        container_pod_name_label="pod",
        container_name_label="container",
    )
)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(
            USUAL.cpu("shop"),
            f'rate(container_cpu_usage_seconds_total{{job="kubernetes-cadvisor", {SERIES}}}[1h])',
            id="CPU",
        ),
        pytest.param(
            USUAL.memory("shop"),
            f'container_memory_working_set_bytes{{job="kubernetes-cadvisor", {SERIES}}}',
            id="memory",
        ),
        pytest.param(
            CUSTOM.cpu("shop"),
            'rate(cpu{pod=~".+", container!="POD", container!="", ns="shop"}[5m])',
            id="CPU: flags, and any job",
        ),
        pytest.param(
            CUSTOM.count("shop"),
            'count(memory{pod=~".+", container!="POD", container!="", ns="shop"})',
            id="the number of series",
        ),
    ],
)
def test_usage(got: str, want: str) -> None:
    assert got == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            'up{job="kubernetes-pods"}',
            'last_over_time(up{job="kubernetes-pods", kubernetes_namespace="shop"}[1h])',
            id="the default (Q14)",
        ),
        pytest.param(
            'kube_pod_labels{job="kube-state-metrics"}[8d]',
            'last_over_time(kube_pod_labels{job="kube-state-metrics", '
            'kubernetes_namespace="shop"}[1h])',
            id="with the range that the reference needs",
        ),
        pytest.param(
            "kube_pod_labels",
            'last_over_time(kube_pod_labels{kubernetes_namespace="shop"}[1h])',
            id="a name alone",
        ),
        pytest.param(
            " up { a = 'b' , } ",
            "last_over_time(up{a = 'b' , kubernetes_namespace=\"shop\"}[1h])",
            id="spaces and a comma at the end",
        ),
        pytest.param(
            '{__name__="up", a="}[1h]"}',
            'last_over_time({__name__="up", a="}[1h]", kubernetes_namespace="shop"}[1h])',
            id="brackets in a string",
        ),
        pytest.param('label_replace(up, "a", "b", "c", "d")', None, id="more than a selector"),
        pytest.param("up[8d:1h]", None, id="a subquery"),
        pytest.param('up{a="b"} or down', None, id="two selectors"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_labels_of_pods(text: str, want: str | None) -> None:
    settings = UsageSourceSettings(metric_for_pod_labels=text)
    assert Queries(settings).pod_labels("shop") == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("8d", timedelta(days=8)),
        ("1w", timedelta(days=7)),
        ("1y2w3d4h5m6s7ms", timedelta(days=382, hours=4, minutes=5, seconds=6, milliseconds=7)),
        ("90m", timedelta(minutes=90)),
    ],
)
def test_durations(text: str, want: timedelta) -> None:
    assert prometheus_duration(text) == want


@pytest.mark.parametrize("text", ["", "0s", "8", "1.5h", "1h1d", "-1h", "1h ", "99999999999999y"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|must be positive|too long"):
        prometheus_duration(text)


def test_history_is_queried_at_the_reference_s_points() -> None:
    now = 1000 * HOUR
    window = TimeRange.until(now, length=timedelta(hours=5), resolution=timedelta(hours=2))
    assert (window.start, window.count) == (995 * HOUR, 3)
    assert window.end == 999 * HOUR
    day = TimeRange.until(now, length=timedelta(days=8), resolution=timedelta(hours=1))
    assert (day.count, day.end) == (193, now)


@pytest.mark.parametrize(
    ("series", "points", "steps"),
    [
        pytest.param(2, 20, [10], id="all at once"),
        pytest.param(3, 10, [3, 3, 3, 1], id="in chunks"),
        pytest.param(10, 10, [1] * 10, id="a point of each series at a time"),
        pytest.param(1000, 10, [1] * 10, id="at least one point"),
        pytest.param(0, 10, [10], id="no series"),
    ],
)
def test_chunks(series: int, points: int, steps: list[int]) -> None:
    rest: TimeRange | None = TimeRange(start=0, step=HOUR, count=10)
    times: list[int] = []
    counts = []
    while rest is not None:
        part = chunk(rest, series=series, points=points)
        counts.append(part.count)
        times += range(part.start, part.end + 1, HOUR)
        rest = rest.after(part)
    assert counts == steps
    assert times == [number * HOUR for number in range(10)]  # each point once, in order


def test_a_query_has_at_most_10000_points_of_a_series() -> None:
    assert chunk(TimeRange(start=0, step=1, count=50_000), series=1, points=10**6).count == 10_000


def test_every_selects_each_nth_point() -> None:
    window = TimeRange(start=7, step=HOUR, count=193)
    assert window.every(24) == TimeRange(start=7, step=24 * HOUR, count=9)
    assert TimeRange(start=7, step=HOUR, count=5).every(24).count == 1
