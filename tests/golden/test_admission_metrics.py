"""Names, labels, buckets and flags of the admission controller, against the reference's lists."""

from typing import Any

from prometheus_client import CollectorRegistry

from admission.metrics import Metrics, Outcome, Step
from admission.review import Subject
from admission.settings import Settings
from common.flags import ACCEPTED_WITHOUT_EFFECT, declared, show
from golden_data import lists

COMPONENT = "admission-controller"


def of_component(name: str) -> list[dict[str, Any]]:
    (entry,) = (entry for entry in lists(name) if entry["component"] == COMPONENT)
    found: list[dict[str, Any]] = entry[name]
    return found


def observed() -> CollectorRegistry:
    """A registry in which every metric has been used once."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.reviewed(Subject.POD, Outcome.PATCHED, 0.001)
    metrics.spent(Step.TOTAL, 0.001)
    return registry


def test_metrics_have_the_references_names_labels_and_buckets() -> None:
    samples = [sample for metric in observed().collect() for sample in metric.samples]
    for wanted in of_component("metrics"):
        histogram = wanted["type"] == "histogram"
        name = wanted["name"] + ("_bucket" if histogram else "")
        ours = [sample for sample in samples if sample.name == name]
        assert ours, name
        assert {frozenset(sample.labels) - {"le"} for sample in ours} == {
            frozenset(wanted["labels"])
        }
        if histogram:
            assert wanted["buckets"] == sorted(
                {float(sample.labels["le"]) for sample in ours} - {float("inf")}
            )


def test_the_steps_are_the_references() -> None:
    assert {step.value for step in Step} == {
        *("read_request", "admit", "build_response", "write_response", "total")
    }


def test_flags_have_the_references_names_and_defaults() -> None:
    ours = {
        field.metadata["flag"].removeprefix("--"): show(field.default)
        for field in declared(Settings)
    }
    accepted = {name.removeprefix("--"): text for name, text in ACCEPTED_WITHOUT_EFFECT.items()}
    for flag in of_component("flags"):
        name, wanted = flag["name"], flag["effective_default"]
        shown = (accepted | ours)[name]
        if flag["type"] == "float64":
            assert float(shown) == float(wanted), name
        else:
            assert shown == wanted, name
