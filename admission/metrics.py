"""What the admission controller counts: the reference's metrics, and outcomes of our own.

Source: vertical-pod-autoscaler/pkg/utils/metrics/admission/admission.go; admission.md 12.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Histogram,
    values,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from admission.review import Subject
from common.runtime.build_info import expose_build_info

_COMPONENT = "admission_controller"
_PREFIX = f"vpa_{_COMPONENT}"
_TENTHS = tuple(round(tenth / 10, 1) for tenth in range(1, 11))
_ADMISSION_BUCKETS = (0.01, 0.02, 0.05, *_TENTHS, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_EXECUTION_BUCKETS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0),
    *(80.0, 90.0, 100.0, 120.0, 150.0, 240.0, 300.0),
)


class Outcome(enum.StrEnum):
    """How a review ended; the value is the metric label."""

    PATCHED = "patched"  # a pod got resources or annotations, a VPA its default
    NO_VPA = "no_vpa"
    OFF = "off"  # the pod's VPA only gives advice
    ALLOWED = "allowed"  # a VPA without fault that needed no default
    DENIED = "denied"  # a VPA that breaks a rule
    NOT_SYNCED = "not_synced"  # the caches have not listed yet: pods pass unchanged
    TIMED_OUT = "timed_out"  # the pod's VPA was not found in time
    LOOKUP_FAILED = "lookup_failed"  # the pod's owners could not be found out
    BAD_OBJECT = "bad_object"  # a pod of a version or a shape that we don't know
    UNDECODABLE = "undecodable"  # a body that is no review
    UNSUPPORTED = "unsupported"  # neither a pod nor a VPA, or a VPA that is deleted
    CONTENT_TYPE = "content_type"
    OVERSIZED = "oversized"
    REFUSED = "refused"  # no HTTP, or beyond another limit of the port
    ERROR = "error"  # a bug or a broken VPA; the pod passes unchanged

    @property
    def status(self) -> str:
        """The reference's coarser word for it."""
        if self is Outcome.PATCHED:
            return "applied"
        return "error" if self in _ERRORS else "skipped"


# Not among them, as in the reference: a pod whose patch failed, and a VPA that was refused.
_ERRORS = (Outcome.UNDECODABLE, Outcome.UNSUPPORTED, Outcome.CONTENT_TYPE)


class Step(enum.StrEnum):
    """A part of a review's time; the value is the metric label."""

    READ_REQUEST = "read_request"
    ADMIT = "admit"
    BUILD_RESPONSE = "build_response"
    WRITE_RESPONSE = "write_response"
    TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """Where a process counts, and what ``/metrics`` shows."""

    counted: CollectorRegistry
    shown: CollectorRegistry

    @classmethod
    def alone(cls) -> Self:
        """The library's own registry, for both."""
        return cls(counted=REGISTRY, shown=REGISTRY)

    @classmethod
    def shared(cls, number: int) -> Self:
        """Of several workers: each counts in files, and all sums are shown.

        The files are in the folder that the environment names. They belong to the worker's
        ``number``, not to its process: one that is started again counts on.
        """
        values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]  # as shipped
        shown = CollectorRegistry()
        MultiProcessCollector(shown)  # type: ignore[no-untyped-call]  # as shipped
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            shown.register(collector)
        return cls(counted=CollectorRegistry(), shown=shown)


class AskedGauge:
    """A gauge of one label whose values are found out at each scrape.

    It is no value that is kept, so it is the same for one process and for several workers.
    """

    def __init__(self, name: str, text: str, label: str, registry: CollectorRegistry) -> None:
        self.labels: Sequence[str] = (label,)
        self._name, self._text = name, text
        self._asked: dict[str, Callable[[], float]] = {}
        registry.register(self)

    def ask(self, value: str, find: Callable[[], float]) -> None:
        """Ask ``find`` at each scrape, for the label's ``value``."""
        self._asked[value] = find

    def describe(self) -> Iterable[Metric]:
        """The name, for the registry."""
        yield GaugeMetricFamily(self._name, self._text, labels=self.labels)

    def collect(self) -> Iterable[Metric]:
        """What is found out now."""
        family = GaugeMetricFamily(self._name, self._text, labels=self.labels)
        for value, find in self._asked.copy().items():  # by another thread
            family.add_metric([value], find())
        yield family


class AdmissionMetrics:
    """The metrics of one process."""

    def __init__(
        self, registry: CollectorRegistry, *, asked: CollectorRegistry | None = None
    ) -> None:
        """``registry`` counts; ``asked``, if it is another one, has what is found out."""
        expose_build_info(_COMPONENT, asked or registry)
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
        self._steps = {step: steps.labels(step.value) for step in Step}
        self._reviews = Counter(
            f"{_PREFIX}_reviews_total",
            "Reviews by what they were about and how they ended.",
            ["resource", "outcome"],
            registry=registry,
        )
        self._found: dict[tuple[Subject, Outcome], tuple[Histogram, Counter]] = {}
        checks = Counter(
            f"{_PREFIX}_self_checks_total",
            "Reviews that the webhook asked of itself, by whether the answer was right.",
            ["result"],
            registry=registry,
        )
        self._checks = {flag: checks.labels("right" if flag else "wrong") for flag in (True, False)}
        self._remaining = AskedGauge(
            f"{_PREFIX}_certificate_remaining_seconds",
            "How long a certificate is still valid; negative once it has expired.",
            "certificate",
            asked or registry,
        )

    def remains(self, certificate: str, seconds: Callable[[], float]) -> None:
        """Ask ``seconds`` at each scrape how long a certificate is still valid."""
        self._remaining.ask(certificate, seconds)

    def reviewed(self, subject: Subject, outcome: Outcome, seconds: float) -> None:
        """Count one review that took ``seconds``."""
        found = self._found.get((subject, outcome))
        if found is None:  # looking for labels takes longer than counting
            latency = self._latency.labels(outcome.status, subject.value)
            found = latency, self._reviews.labels(subject.value, outcome.value)
            self._found[subject, outcome] = found
        found[0].observe(seconds)
        found[1].inc()
        if subject is Subject.POD:
            self._pods[outcome is Outcome.PATCHED].inc()

    def refused(self, status: int) -> None:
        """Count what the server refused with this HTTP status, before it was a review."""
        outcome = Outcome.OVERSIZED if status == 413 else Outcome.REFUSED
        self._reviews.labels(Subject.UNKNOWN.value, outcome.value).inc()

    def checked(self, *, right: bool) -> None:
        """Count one self-check."""
        self._checks[right].inc()

    def spent(self, step: Step, seconds: float) -> None:
        """Record the time that one step took."""
        self._steps[step].observe(seconds)
