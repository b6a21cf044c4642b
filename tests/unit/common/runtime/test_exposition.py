"""The text of /metrics, compared with that of Go's client library."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

import build
from common.runtime.exposition import exposition


def bounds(registry: CollectorRegistry) -> list[str]:
    """Return the labels of the buckets in the text, in order."""
    lines = exposition(registry).decode().splitlines()
    return [line.partition('le="')[2].partition('"')[0] for line in lines if "_bucket{" in line]


# The right column is what strconv.FormatFloat(bound, 'g', -1, 64) returns in Go.
GO = [
    pytest.param(0.0, "0", id="zero"),
    pytest.param(1.0, "1", id="a whole number"),
    pytest.param(0.5, "0.5", id="a fraction"),
    pytest.param(0.1 + 0.2, "0.30000000000000004", id="a fraction with all digits"),
    pytest.param(0.0025, "0.0025", id="a small fraction"),
    pytest.param(0.0001, "0.0001", id="the smallest power of ten without an exponent"),
    pytest.param(0.00001, "1e-05", id="below it"),
    pytest.param(7.5, "7.5", id="a whole number and a fraction"),
    pytest.param(100000.0, "100000", id="six digits"),
    pytest.param(655360.25, "655360.25", id="six digits and a fraction"),
    pytest.param(1e6, "1e+06", id="seven digits"),
    pytest.param(1024000.0, "1.024e+06", id="seven digits, four of them not zero"),
    pytest.param(65536000000.0, "6.5536e+10", id="eleven digits"),
    pytest.param(1e16, "1e+16", id="an exponent in Python, too"),
    pytest.param(-1.0, "-1", id="a negative whole number"),
    pytest.param(-0.025, "-0.025", id="a negative fraction"),
]


@pytest.mark.parametrize(("bound", "text"), GO)
def test_a_bound_has_the_text_of_go(bound: float, text: str) -> None:
    registry = CollectorRegistry()
    Histogram("things_seconds", "Things.", buckets=(bound,), registry=registry).observe(0)
    assert bounds(registry) == [text, "+Inf"]


def test_labels_and_values_of_other_metrics_are_unchanged() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", ("size",), registry=registry).labels("1.0").inc()
    assert 'things_total{size="1.0"} 1.0' in exposition(registry).decode()


def test_other_labels_of_a_bucket_are_unchanged() -> None:
    registry = CollectorRegistry()
    sizes = Histogram("sizes", "Sizes.", ("size",), buckets=(2.0,), registry=registry)
    sizes.labels("1.0").observe(1)
    assert 'sizes_bucket{le="2",size="1.0"} 1.0' in exposition(registry).decode()


@pytest.mark.parametrize("component", build.COMPONENTS)
def test_no_bound_of_a_component_ends_in_zero(component: str) -> None:
    texts = bounds(build.registries()[component])
    assert all(not text.endswith(".0") for text in texts)
