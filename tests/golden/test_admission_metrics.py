"""Names, labels, buckets and flags of the admission controller, compared with the reference's."""

from prometheus_client import CollectorRegistry

from admission.metrics import AdmissionMetrics, ReviewOutcome, ReviewStep
from admission.review import ReviewSubject
from admission.settings import AdmissionSettings
from reference_lists import check_flags, check_metrics

COMPONENT = "admission-controller"


def observed() -> CollectorRegistry:
    """Return a registry in which every metric has one observation."""
    registry = CollectorRegistry()
    metrics = AdmissionMetrics(registry)
    metrics.reviewed(ReviewSubject.POD, ReviewOutcome.PATCHED, 0.001)
    metrics.spent(ReviewStep.TOTAL, 0.001)
    return registry


def test_metrics_have_the_references_names_types_labels_and_buckets() -> None:
    check_metrics(COMPONENT, observed())


def test_the_steps_are_the_references() -> None:
    assert {step.value for step in ReviewStep} == {
        *("read_request", "admit", "build_response", "write_response", "total")
    }


def test_flags_have_the_references_names_and_defaults() -> None:
    check_flags(COMPONENT, AdmissionSettings)
