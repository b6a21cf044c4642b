"""The explanation of a recommendation, from its samples to its status."""

from collections.abc import Mapping

from common.api.base import Time, Wire
from common.recommendation.decision_trace import Amount


class ExplainedStep(Wire, frozen=True, kw_only=True):
    """A number before and after one step; null: no number. ``by`` is the step's operand.

    The result of a step is the input of the next step of the same number.
    """

    step: str
    by: str
    before: str | None
    after: str | None
    meaning: str


class ExplainedNumber(Wire, frozen=True, kw_only=True):
    """The steps that lead to one number of the status; null: the status doesn't have it."""

    resource: str
    amount: Amount
    published: str | None
    steps: tuple[ExplainedStep, ...]


class ExplainedContainer(Wire, frozen=True, kw_only=True):
    """The history of a container, and the steps that lead to its numbers.

    ``samples`` is the number of CPU samples; the times are those of the first and last of them.
    ``weight`` is the present total weight of all samples. ``confidence`` is in units of
    ``--confidence-interval-cpu`` and ``-memory``. ``sharing`` is the number of containers that
    share the pod's minimum.
    """

    name: str
    samples: int
    oldest_sample: Time | None
    newest_sample: Time | None
    weight: Mapping[str, float]
    confidence: Mapping[str, float]
    sharing: int
    numbers: tuple[ExplainedNumber, ...]


class ExcludedContainer(Wire, frozen=True, kw_only=True):
    """A container without a recommendation."""

    name: str
    reason: str
    why: str


class RecommendationExplanation(Wire, frozen=True, kw_only=True):
    """The explanation of a VPA's recommendation; the attributes are the fields of the response.

    ``status`` compares it with the status of the VPA. It is ``equal``, ``written`` (the next cycle
    writes it), or ``waits``: a small difference is written when it grows, at the latest at ``due``.
    ``heldUp`` is the reason why nothing is written at present.
    """

    namespace: str
    name: str
    generation: int
    at: Time
    target: str | None
    selector: str | None
    pods: int
    unsupported: str | None
    status: str
    due: Time | None
    held_up: str | None
    containers: tuple[ExplainedContainer, ...]
    left_out: tuple[ExcludedContainer, ...]
