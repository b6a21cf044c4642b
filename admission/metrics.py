"""The metrics of the admission controller: the reference's, and metrics of outcomes.

Source: vertical-pod-autoscaler/pkg/utils/metrics/admission/admission.go; admission.md 12.
"""

import enum
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from admission.review import ReviewSubject
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.cache_metrics import CacheMetrics
from common.kube.client_metrics import ClientMetrics
from common.runtime.build_info import expose_build_info

_COMPONENT = "admission_controller"
_PREFIX = f"vpa_{_COMPONENT}"
_TENTHS = tuple(round(tenth / 10, 1) for tenth in range(1, 11))
_ADMISSION_BUCKETS = (0.01, 0.02, 0.05, *_TENTHS, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_EXECUTION_BUCKETS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0),
    *(80.0, 90.0, 100.0, 120.0, 150.0, 240.0, 300.0),
)


class ReviewOutcome(enum.StrEnum):
    """The result of a review; the value is the metric label."""

    PATCHED = "patched"  # resources or annotations of a pod, or the default of a VPA
    NO_VPA = "no_vpa"
    OFF = "off"  # the pod's VPA has mode Off
    ALLOWED = "allowed"  # a valid VPA that needs no default
    DENIED = "denied"  # an invalid VPA
    NOT_SYNCED = "not_synced"  # the caches have not listed yet; pods pass unchanged
    TIMED_OUT = "timed_out"  # the look-up of the pod's VPA timed out
    LOOKUP_FAILED = "lookup_failed"  # the pod's owners could not be looked up
    BAD_OBJECT = "bad_object"  # an undecodable pod, or with too many containers
    UNDECODABLE = "undecodable"  # the body is not an AdmissionReview
    UNSUPPORTED = "unsupported"  # neither a pod nor a VPA, or the deletion of a VPA
    CONTENT_TYPE = "content_type"
    OVERSIZED = "oversized"
    REFUSED = "refused"  # not HTTP, or beyond another limit of the server
    ERROR = "error"  # a bug or an unusable number; the pod passes unchanged

    @property
    def status(self) -> str:
        """Return the outcome's ``status`` label of the reference's latency metric."""
        if self is ReviewOutcome.PATCHED:
            return "applied"
        return "error" if self in _ERRORS else "skipped"


# As in the reference, a failed patch of a pod and a refused VPA are not errors here.
_ERRORS = (ReviewOutcome.UNDECODABLE, ReviewOutcome.UNSUPPORTED, ReviewOutcome.CONTENT_TYPE)


class ReviewStep(enum.StrEnum):
    """A timed step of a review; the value is the metric label."""

    READ_REQUEST = "read_request"
    ADMIT = "admit"
    BUILD_RESPONSE = "build_response"
    WRITE_RESPONSE = "write_response"
    TOTAL = "total"


class AdmissionMetrics:
    """The metrics of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        expose_build_info(_COMPONENT, registry)
        pods = Counter(
            f"{_PREFIX}_admission_pods_total",
            "Pods that were reviewed, by whether they got a patch.",
            ["applied"],
            registry=registry,
        )
        self._pods = {flag: pods.labels("true" if flag else "false") for flag in (True, False)}
        self._latency = Histogram(
            f"{_PREFIX}_admission_latency_seconds",
            "Time spent on a review.",
            ["status", "resource"],
            buckets=_ADMISSION_BUCKETS,
            registry=registry,
        )
        steps = Histogram(
            f"{_PREFIX}_execution_latency_seconds",
            "Time spent on the steps of a review.",
            ["step"],
            buckets=_EXECUTION_BUCKETS,
            registry=registry,
        )
        self._steps = {step: steps.labels(step.value) for step in ReviewStep}
        self._reviews = Counter(
            f"{_PREFIX}_reviews_total",
            "Reviews by what they were about and how they ended.",
            ["resource", "outcome"],
            registry=registry,
        )
        self._found: dict[tuple[ReviewSubject, ReviewOutcome], tuple[Histogram, Counter]] = {}
        checks = Counter(
            f"{_PREFIX}_self_checks_total",
            "Reviews that the webhook asked of itself, by whether the answer was right.",
            ["result"],
            registry=registry,
        )
        self._checks = {flag: checks.labels("right" if flag else "wrong") for flag in (True, False)}
        self._remaining = Gauge(
            f"{_PREFIX}_certificate_remaining_seconds",
            "How long a certificate is still valid; negative once it has expired.",
            ["certificate"],
            registry=registry,
        )
        self._registered = Gauge(
            f"{_PREFIX}_webhook_registered",
            "1 if the webhook configuration was right at the last check, else 0; not exposed with "
            "--register-webhook=false.",
            ["configuration"],
            registry=registry,
        )
        self.caches = CacheMetrics(_COMPONENT, registry)
        self.client = ClientMetrics(registry)

    def registers(self, right: Callable[[], bool]) -> None:
        """Report the webhook's registration; ``right`` is called at each scrape."""
        self._registered.labels(CONFIGURATION_NAME).set_function(right)

    def remains(self, certificate: str, seconds: Callable[[], float]) -> None:
        """Report the remaining lifetime of a certificate; ``seconds`` is called at each scrape."""
        self._remaining.labels(certificate).set_function(seconds)

    def reviewed(self, subject: ReviewSubject, outcome: ReviewOutcome, seconds: float) -> None:
        """Count one review that took ``seconds``."""
        found = self._found.get((subject, outcome))
        if found is None:  # kept, because labels() takes longer than counting
            latency = self._latency.labels(outcome.status, subject.value)
            found = latency, self._reviews.labels(subject.value, outcome.value)
            self._found[subject, outcome] = found
        found[0].observe(seconds)
        found[1].inc()
        if subject is ReviewSubject.POD:
            self._pods[outcome is ReviewOutcome.PATCHED].inc()

    def refused(self, status: int) -> None:
        """Count a request that the server refused with this HTTP status before it was decoded."""
        outcome = ReviewOutcome.OVERSIZED if status == 413 else ReviewOutcome.REFUSED
        self._reviews.labels(ReviewSubject.UNKNOWN.value, outcome.value).inc()

    def checked(self, *, right: bool) -> None:
        """Count one self-check."""
        self._checks[right].inc()

    def spent(self, step: ReviewStep, seconds: float) -> None:
        """Record the duration of one step."""
        self._steps[step].observe(seconds)
