"""How a VPA's recommendation comes about, for people and programs.

Nothing is decided here: it is all told by the functions that make the numbers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import Wire
from common.codes import Code
from common.labels import NOTHING
from common.recommendation.processing import ContainerAmounts
from common.resources import RESOURCES
from recommender.estimate.trace import Amount, Cause, Evidence, Step, Trail
from recommender.model.timestamps import NEVER, moment
from recommender.publish.status import LATEST, published
from recommender.publish.status_decision import Circumstances, Outcome, Writing


class Neglect(Code):
    """Why a container that something is known of gets no recommendation."""

    OFF = "off", "its policy has mode Off"
    EXPIRED = "expired", "no pod has it, and its checkpoint is older than history is kept"
    NATIVE_SIDECAR = "native_sidecar", "it is a native sidecar, and the gate NativeSidecar is off"


def neglect(container: str, *, alive: Collection[str], sidecars: Collection[str]) -> Neglect:
    """Return why a container gets no recommendation; ``sidecars`` are left out by the gate."""
    if container not in alive:
        return Neglect.EXPIRED
    return Neglect.NATIVE_SIDECAR if container in sidecars else Neglect.OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Everything that was told while a recommendation was made up."""

    vpa: VerticalPodAutoscaler
    circumstances: Circumstances
    outcome: Outcome
    trail: Trail
    neglected: Mapping[str, Neglect]  # by container


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Why there is nothing to explain, with the HTTP status for that."""

    status: int
    error: str


class Stage(Wire, frozen=True, kw_only=True):
    """A number before and after one step; null: there is none. ``by`` is what the step works with.

    What comes out of a step is what goes into the next one of the same number.
    """

    step: Cause
    by: str
    before: str | None
    after: str | None
    meaning: str


class Number(Wire, frozen=True, kw_only=True):
    """The way of one number into the status; null: the status doesn't have it."""

    resource: str
    amount: Amount
    published: str | None
    steps: tuple[Stage, ...]


class Explained(Wire, frozen=True, kw_only=True):
    """What is known of a container, and the way of its numbers.

    ``samples`` are CPU samples, and the times are those of the first and the last of them.
    ``weight`` is what all samples weigh together by now, ``confidence`` is in units of
    ``--confidence-interval-cpu`` and ``-memory``, ``sharing`` counts the containers among which the
    pod's minimum is divided.
    """

    name: str
    samples: int
    oldest_sample: datetime | None
    newest_sample: datetime | None
    weight: Mapping[str, float]
    confidence: Mapping[str, float]
    sharing: int
    numbers: tuple[Number, ...]


class LeftOut(Wire, frozen=True, kw_only=True):
    """A container without a recommendation."""

    name: str
    reason: Neglect
    why: str


class Explanation(Wire, frozen=True, kw_only=True):
    """How the recommendation of a VPA comes about.

    ``status`` says whether the VPA's status says so already: ``equal``, ``written`` (by the next
    cycle, which is when it is due), or ``waits`` for a difference that a reader would notice, until
    ``due`` at the latest. ``heldUp`` is why nothing is written at the moment.
    """

    namespace: str
    name: str
    generation: int
    at: datetime
    target: str | None
    selector: str | None
    pods: int
    unsupported: str | None
    status: Writing
    due: datetime | None
    held_up: str | None
    containers: tuple[Explained, ...]
    left_out: tuple[LeftOut, ...]


_NONE = Evidence(
    samples=0, first_sample=NEVER, last_sample=NEVER, sharing=0, weight={}, confidence={}
)


def explanation(account: Account, *, held_up: str = "") -> Explanation:
    """Take apart what was told; ``held_up`` says why nothing is written at the moment."""
    vpa, circumstances, trail = account.vpa, account.circumstances, account.trail
    resolution, ref = circumstances.resolution, vpa.spec.target_ref
    status = account.outcome.status(vpa.status)
    left = LATEST - circumstances.interval - circumstances.waited
    waits = account.outcome.writing is Writing.WAITS
    says = published(status)
    return Explanation(
        namespace=vpa.metadata.namespace,
        name=vpa.metadata.name,
        generation=vpa.metadata.generation,
        at=circumstances.now,
        target=None if ref is None else f"{ref.api_version} {ref.kind} {ref.name}".strip(),
        selector=None if resolution.selector == NOTHING else str(resolution.selector),
        pods=circumstances.pods,
        unsupported=resolution.message or None,
        status=account.outcome.writing,
        due=circumstances.now + left if waits else None,
        held_up=held_up or None,
        containers=tuple(
            _container(name, trail.evidence.get(name, _NONE), trail.of(name), says.get(name))
            for name in trail.containers
        ),
        left_out=tuple(
            LeftOut(name=name, reason=reason, why=reason.meaning)
            for name, reason in sorted(account.neglected.items())
        ),
    )


def _container(
    name: str, known: Evidence, steps: Sequence[Step], says: ContainerAmounts | None
) -> Explained:
    return Explained(
        name=name,
        samples=known.samples,
        oldest_sample=moment(known.first_sample),
        newest_sample=moment(known.last_sample),
        weight=known.weight,
        confidence=known.confidence,
        sharing=known.sharing,
        numbers=tuple(_numbers(steps, says)),
    )


def _numbers(steps: Iterable[Step], says: ContainerAmounts | None) -> Iterator[Number]:
    ways: dict[tuple[str, Amount], list[Step]] = {}
    for step in steps:
        ways.setdefault((step.resource, step.amount), []).append(step)
    for resource, amount in sorted(ways, key=_place):
        value = amount.of(says).get(resource)
        yield Number(
            resource=resource,
            amount=amount,
            published=None if value is None else str(value),
            steps=tuple(map(_stage, ways[resource, amount])),
        )


def _place(way: tuple[str, Amount]) -> tuple[int, str, int]:
    resource, amount = way
    rank = RESOURCES.index(resource) if resource in RESOURCES else len(RESOURCES)
    return (rank, resource, list(Amount).index(amount))


def _stage(step: Step) -> Stage:
    return Stage(
        step=step.cause,
        by=step.by,
        before=None if step.before is None else str(step.before),
        after=None if step.after is None else str(step.after),
        meaning=step.cause.meaning,
    )
