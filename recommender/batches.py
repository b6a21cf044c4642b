"""As many VPAs as may be estimated at a time: the event loop stands still until they are."""

from collections.abc import Iterator, Sequence

from recommender.concurrency import in_slices_by_weight
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage

_MOST_VPAS = 100
_MOST_ROWS = 20_000  # aggregates, which take some 80 ms to merge; more only where one VPA has them


def vpa_batches(usage: Usage, keys: Sequence[VpaKey]) -> Iterator[Sequence[VpaKey]]:
    """The VPAs in slices, after each of which other tasks may get their turn."""

    def row_count(key: VpaKey) -> int:
        return sum(len(group.rows) for group in usage.groups(key))

    return in_slices_by_weight(keys, _MOST_VPAS, weight=row_count, most=_MOST_ROWS)
