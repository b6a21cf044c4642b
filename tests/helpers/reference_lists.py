"""The reference's lists of flags and metrics, and checks of our components against them."""

import re
from decimal import Decimal
from typing import Any

from prometheus_client import CollectorRegistry

from common.flags import declared, show
from common.runtime.exposition import exposition
from common.runtime.settings import KLOG_FLAGS
from golden_data import lists


def of_component(component: str, kind: str) -> list[dict[str, Any]]:
    """Return a list of the reference; ``kind`` is flags or metrics."""
    (entry,) = (entry for entry in lists(kind) if entry["component"] == component)
    found: list[dict[str, Any]] = entry[kind]
    return found


def check_flags(component: str, settings: type) -> set[str]:
    """Assert that every flag exists with the same default; return the names of additional flags."""
    ours = {
        field.metadata["flag"].removeprefix("--"): show(field.default)
        for field in declared(settings)
    }
    accepted = {name.removeprefix("--"): text for name, text in KLOG_FLAGS.items()}
    reference = of_component(component, "flags")
    for flag in reference:
        name, wanted = flag["name"], flag["effective_default"]
        shown = (accepted | ours)[name]
        if flag["type"] == "float64":
            assert float(shown) == float(wanted), name
        else:
            assert shown == wanted, name
    return set(ours) - {flag["name"] for flag in reference}


def check_metrics(component: str, registry: CollectorRegistry) -> None:
    """Assert that every metric has samples and the same type, labels and buckets."""
    types = {metric.name: metric.type for metric in registry.collect()}
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    text = exposition(registry).decode()
    for wanted in of_component(component, "metrics"):
        histogram = wanted["type"] == "histogram"
        name = wanted["name"] + ("_bucket" if histogram else "")
        ours = [sample for sample in samples if sample.name == name]
        assert ours, name
        counter = wanted["type"] == "counter"
        family = wanted["name"].removesuffix("_total") if counter else wanted["name"]
        assert types[family] == wanted["type"], name
        labels = {frozenset(sample.labels) - {"le"} for sample in ours}
        assert labels == {frozenset(wanted["labels"])}, name
        if histogram:
            bounds = {float(sample.labels["le"]) for sample in ours} - {float("inf")}
            assert wanted["buckets"] == sorted(bounds), name
            for bound in wanted["buckets"]:
                found = rf'^{name}{{.*\ble="{re.escape(go_text(bound))}"'
                assert re.search(found, text, re.MULTILINE), (name, bound)


def go_text(number: float) -> str:
    """Return a number as Go's client library writes the bound of a bucket.

    Source: ``writeFloat`` in github.com/prometheus/common/expfmt, ``FormatFloat`` in strconv.
    """
    exact = Decimal(repr(number)).normalize()
    if -5 < exact.adjusted() < 6:
        return f"{exact:f}"
    digits = "".join(map(str, exact.as_tuple().digits))
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' * (number < 0)}{digits[0]}{fraction}e{exact.adjusted():+03d}"
