"""Requests of the containers of VPAs, compared with targets and with pod templates."""

from dataclasses import dataclass

import numpy as np

from recommender.model.aggregates import NO_VPA
from recommender.model.column_table import Floats, Ints
from recommender.model.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBalance:
    """Sums over containers, in millicores or bytes.

    A container without a target counts in neither of the last two, and one whose template has no
    request, or whose template isn't read, in neither of the first two.
    """

    given_back: float  # less than in the pod template
    added: float  # more than in the pod template
    above_target: float
    below_target: float


def balance_by_namespace(usage: Usage, resource: str) -> dict[str, RequestBalance]:
    """Return the sums for the containers of VPAs, of each namespace that has VPAs."""
    containers, aggregates = usage.containers, usage.aggregates
    places: dict[str, int] = {}
    most = max((one.number for one in usage.autoscalers.values()), default=0)
    place_of = np.zeros(most + 1, dtype=np.int64)
    for key, autoscaler in usage.autoscalers.items():
        place_of[autoscaler.number] = places.setdefault(key.namespace, len(places))
    rows = _active(usage)
    rows = rows[aggregates.vpa[containers.aggregate[rows]] != NO_VPA]
    found = containers.aggregate[rows]
    place, request = place_of[aggregates.vpa[found]], containers.requests(resource)[rows]

    def sums(wanted: Ints) -> tuple[list[float], list[float]]:
        """Return by how much requests are below and above the wanted amounts."""
        less = np.where(wanted > 0, wanted - request, 0)
        below, above = (
            np.bincount(place, weights=np.maximum(part, 0), minlength=len(places)).tolist()
            for part in (less, -less)
        )
        return below, above

    given_back, added = sums(aggregates.templates(resource)[found])
    below_target, above_target = sums(aggregates.targets(resource)[found])
    return {
        namespace: RequestBalance(
            given_back=given_back[number],
            added=added[number],
            above_target=above_target[number],
            below_target=below_target[number],
        )
        for namespace, number in places.items()
    }


def request_sums(usage: Usage, resource: str) -> tuple[Floats, Ints]:
    """Return the sum of the requests, and the number of containers, of each aggregate."""
    rows = _active(usage)
    found = usage.containers.aggregate[rows]
    counts = np.bincount(found, minlength=usage.aggregates.vpa.size)
    sums = np.zeros(counts.size)
    np.add.at(sums, found, usage.containers.requests(resource)[rows])
    return sums, counts


def _active(usage: Usage) -> Ints:
    """Return the rows of the containers in pods that are not finished."""
    containers = usage.containers
    return np.flatnonzero(containers.is_active & (containers.aggregate >= 0))
