"""Usage as it comes from wherever it is read, and what came of each question for it."""

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.api.metrics import PodMetrics
from common.errors import DecodeError, KubeError
from common.kube.pages import Undecoded
from recommender.slices import in_slices

OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOutcome:
    """What came of one question."""

    place: str  # what was asked for: a namespace, a pod; empty: the whole cluster
    outcome: str = OK  # or why there was no usable answer, fit to be a metric label
    error: str = ""

    @classmethod
    def failed(cls, place: str, error: KubeError | DecodeError) -> "FetchOutcome":
        """Return the outcome of an error, or of an answer that can't be decoded."""
        outcome = getattr(error, "reason", type(error).__name__)
        return cls(place=place, outcome=outcome, error=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """The usage of one cycle; ``lists`` hold it as well, still to be decoded."""

    metrics: Sequence[PodMetrics] = ()
    lists: Sequence[Undecoded[PodMetrics]] = ()
    answers: tuple[FetchOutcome, ...]

    def slices(self, size: int) -> Iterator[Sequence[PodMetrics]]:
        """Yield all of it, so many pods at a time; to be gone through once."""
        yield from in_slices(self.metrics, size)
        for one in self.lists:
            yield from one.slices(size)

    @property
    def outcomes(self) -> dict[str, Tally[str]]:
        """Return how often which outcome, by scope: ``cluster`` or ``part`` of it."""
        found: dict[str, Tally[str]] = {}
        for answer in self.answers:
            scope = "part" if answer.place else "cluster"
            found.setdefault(scope, Tally())[answer.outcome] += 1
        return found

    @property
    def failures(self) -> tuple[FetchOutcome, ...]:
        """Return the questions that failed."""
        return tuple(answer for answer in self.answers if answer.outcome != OK)


class UsageSource(Protocol):
    """Where the cycle reads usage."""

    async def fetch(self, namespaces: Collection[str]) -> FetchResult:
        """Return the latest usage; ``namespaces`` are those that have VPAs. Failures are in it."""
        ...
