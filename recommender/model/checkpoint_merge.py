"""Merging of histories that cover the same usage, so that none of it counts twice.

A VPA may move to this recommender from another one, which wrote its checkpoint from usage that
this one has recorded too. Adding both would count that usage twice with each such move; taking
only one of them could lose a part.
"""

import numpy as np

from recommender.model.aggregates import Aggregates, HalfLives, History
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER
from recommender.model.usage import Usage


def merge_checkpoint(usage: Usage, key: VpaKey, container: str, history: History, now: int) -> None:
    """Add the history in a checkpoint to a VPA's container, without the usage recorded already.

    The comparison leaves out windows that run at the instant ``now``: no checkpoint has them.
    """
    usage.autoscalers[key].history_flags.just_loaded.add(container)
    groups = [one for one in usage.groups(key) if one.container == container]
    if not groups:
        usage.load_history(key, container, history)
        return
    rest = _rest(usage.without_open_peaks(groups, now), history)
    loaded = usage.autoscalers[key].loaded
    if container not in loaded:
        usage.load_history(key, container, EMPTY_HISTORY)
    usage.aggregates.merge(np.array([loaded[container]]), rest, _FIRST)


def merged_history(ours: History, theirs: History, half_lives: HalfLives) -> History:
    """Return the merged history; each bucket and total weighs at least as much as in either."""
    table = Aggregates(half_lives, capacity=1)
    table.load(table.new(), ours)
    table.merge(_FIRST, _rest(table, theirs), _FIRST)
    return table.save(_FIRST)[0]


_FIRST = np.zeros(1, dtype=np.int64)
_EMPTY = SavedHistogram(weights={}, total=0.0, reference=NEVER)
EMPTY_HISTORY = History(cpu=_EMPTY, memory=_EMPTY, first_sample=NEVER, last_sample=NEVER, samples=0)


def _rest(ours: Aggregates, theirs: History) -> Aggregates:
    """Return the part of a history that the first row of a table doesn't have."""
    other = Aggregates(ours.half_lives, capacity=1)
    other.load(other.new(), theirs)
    if ours.first_sample[0] > theirs.last_sample:
        return other  # they don't overlap
    rest = Aggregates(ours.half_lives, capacity=1)
    rest.new()
    rest.cpu = ours.cpu.rest(_FIRST, other.cpu, _FIRST)
    rest.memory = ours.memory.rest(_FIRST, other.memory, _FIRST)
    rest.first_sample[0] = theirs.first_sample
    rest.last_sample[0] = theirs.last_sample
    rest.samples[0] = max(theirs.samples - int(ours.samples[0]), 0)
    return rest
