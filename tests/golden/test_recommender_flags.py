"""Flags and metrics have the reference's names, types and defaults."""

from datetime import timedelta

from prometheus_client import Histogram
from prometheus_client.metrics import MetricWrapperBase

from common.flags import boolean, declared, duration, positive_duration, show
from common.quantity import Quantity, parse_unsigned
from common.runtime.settings import KLOG_FLAGS
from golden_data import Differences
from recommender.metric_types import BatchHistogram, PlainCounter
from recommender.metrics import RecommenderMetrics
from recommender.settings import RecommenderSettings
from reference_lists import of_component

PARSERS = {
    "bool": (boolean,),
    "duration": (duration, positive_duration),
    "quantity": (Quantity.parse, parse_unsigned),
}


def test_flags() -> None:
    differences = Differences()
    ours = {field.metadata["flag"].lstrip("-"): field for field in declared(RecommenderSettings)}
    for flag in of_component("recommender", "flags"):
        name, default = flag["name"], flag["effective_default"]
        if f"--{name}" in KLOG_FLAGS:
            continue
        differences.check(name, "declared", name in ours, True)
        if name not in ours:
            continue
        field = ours[name]
        got = show(field.default)
        if flag["type"] in ("float64", "int", "int64", "Level"):
            differences.check(name, "default", float(got), float(default))
        else:
            differences.check(name, "default", got, default)
        wanted = PARSERS.get(flag["type"])
        if wanted is not None:
            differences.check(name, "type", field.metadata["parse"] in wanted, True)
    differences.check(
        "lease", "duration", RecommenderSettings().leader_elect_lease_duration, timedelta(0, 15)
    )
    differences.none_in(130)


def test_metrics() -> None:
    differences = Differences()
    registered = RecommenderMetrics().registry._collector_to_names
    ours = {name: collector for collector, names in registered.items() for name in names}
    for metric in of_component("recommender", "metrics"):
        name = metric["name"]
        collector = ours.get(name)
        if isinstance(collector, PlainCounter):
            differences.check(name, "type", "counter", metric["type"])
            differences.check(name, "labels", list(collector.labels), metric["labels"])
            continue
        if isinstance(collector, BatchHistogram):
            differences.check(name, "type", "histogram", metric["type"])
            differences.check(name, "labels", list(collector.labels), metric["labels"])
            differences.check(name, "buckets", list(collector.bounds), metric["buckets"])
            continue
        assert isinstance(collector, MetricWrapperBase), name
        differences.check(name, "type", collector._type, metric["type"])
        differences.check(name, "labels", list(collector._labelnames), metric["labels"])
        if metric["type"] == "histogram":
            assert isinstance(collector, Histogram), name
            bounds = list(collector._upper_bounds)[:-1]
            differences.check(name, "buckets", bounds, metric["buckets"])
    differences.none_in(40)
