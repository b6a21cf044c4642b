"""What ``kubectl vpa explain`` prints."""

import enum
from datetime import datetime

from kubectl_vpa.results.lists import Result


class NumberSource(enum.StrEnum):
    """The origin of an explanation of numbers."""

    RECOMMENDER = "recommender"  # its read API
    CHECKPOINTS = "checkpoints"  # computed from them as the recommender does


class NumberStep(Result, frozen=True, kw_only=True):
    """A number before and after a step, as quantities."""

    step: str
    by: str  # the operand, such as a factor or a bound; empty if there is none
    before: str | None
    after: str | None
    meaning: str


class ComputedNumber(Result, frozen=True, kw_only=True):
    """One number of a recommendation, as quantities."""

    amount: str  # target, lowerBound, upperBound or uncappedTarget
    value: str | None  # the result; null if nothing is recommended
    published: str | None  # in the status of the VPA
    steps: tuple[NumberStep, ...]


class CurvePoint(Result, frozen=True, kw_only=True):
    """A point of a percentile curve: this fraction of the usage is at most the amount."""

    fraction: float
    amount: int  # millicores or bytes


class ComputedResource(Result, frozen=True, kw_only=True):
    """How the numbers of one resource of a container are computed."""

    resource: str
    request: str | None  # the present request in most pods; null if there is none
    confidence: float | None  # the length of the history, in confidence intervals
    weight: float | None  # the present weight of all samples
    numbers: tuple[ComputedNumber, ...]
    curve: tuple[CurvePoint, ...]


class ComputedContainer(Result, frozen=True, kw_only=True):
    """How the numbers of one container are computed."""

    container: str
    samples: int  # of CPU
    first_sample: datetime | None
    last_sample: datetime | None
    excluded: str | None  # why the container gets no recommendation
    resources: tuple[ComputedResource, ...]


class ComputedVpa(Result, frozen=True, kw_only=True):
    """How the numbers of a VPA are computed."""

    namespace: str
    name: str
    workload_kind: str
    workload_name: str
    mode: str
    source: NumberSource
    flags_of: str | None  # the pod whose flags apply; null: the defaults are assumed
    held_up: str | None  # why the numbers aren't published at present
    containers: tuple[ComputedContainer, ...]
