"""Usage from any source, with the outcome of each request for it."""

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.api.metrics import PodMetrics
from common.errors import DecodeError, KubeError
from common.kube.paginated_list import Undecoded

OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOutcome:
    """The outcome of one request."""

    place: str  # a namespace or pod; empty: the whole cluster
    outcome: str = OK  # or the reason of the failure; also the metric's label
    error: str = ""

    @classmethod
    def failed(cls, place: str, error: KubeError | DecodeError) -> "FetchOutcome":
        """Return the outcome of a failed request."""
        outcome = getattr(error, "reason", type(error).__name__)
        return cls(place=place, outcome=outcome, error=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """The usage of one cycle: decoded ``metrics``, and ``lists`` that are decoded later."""

    metrics: Sequence[PodMetrics] = ()
    lists: Sequence[Undecoded[PodMetrics]] = ()
    answers: tuple[FetchOutcome, ...]

    def slices(self, size: int) -> Iterator[Sequence[PodMetrics]]:
        """Yield all usage in slices of ``size`` pods; call it once."""
        for start in range(0, len(self.metrics), size):
            yield self.metrics[start : start + size]
        for one in self.lists:
            yield from one.slices(size)

    @property
    def outcomes(self) -> dict[str, Tally[str]]:
        """Return the number of each outcome, by scope: ``cluster`` or ``part`` of it."""
        found: dict[str, Tally[str]] = {}
        for answer in self.answers:
            scope = "part" if answer.place else "cluster"
            found.setdefault(scope, Tally())[answer.outcome] += 1
        return found

    @property
    def failures(self) -> tuple[FetchOutcome, ...]:
        """Return the failed requests."""
        return tuple(answer for answer in self.answers if answer.outcome != OK)


class UsageSource(Protocol):
    """A source of usage."""

    async def fetch(self, namespaces: Collection[str]) -> FetchResult:
        """Return the latest usage in these namespaces, which have VPAs, and the failures."""
        ...
