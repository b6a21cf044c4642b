"""Compaction of aggregates without pods: those whose samples ended in the same hour share rows.

Each rollout has another ``pod-template-hash``, and each run of a CronJob another UID. So each of
them begins new aggregates, which get no samples after the next one but are kept for eight days
(recommender.md 5.4). A VPA uses only their sum; they differ only in the time of expiry.

Compaction drops the labels that controllers generate, and adds up aggregates whose last sample is
in the same 192nd part of their lifetime. That is an hour by default, the interval of garbage
collection. A cluster that rolls out all day then keeps no more rows than one with a rollout every
hour, and the recommendation is the same (X82).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from recommender.model.aggregates import Aggregates
from recommender.model.autoscalers import Autoscaler
from recommender.model.column_table import distinct_batches
from recommender.model.matching import LabelSet
from recommender.model.usage import Usage

GENERATED_LABELS = frozenset(
    {
        "pod-template-hash",
        "pod-template-generation",
        "controller-revision-hash",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
    }
)
"""Labels that controllers generate to distinguish their pods."""

_PARTS = 192  # of a lifetime: an hour of eight days
_SLICE = 500  # label sets before other tasks run


def compact(usage: Usage) -> Iterator[None]:
    """Compact aggregates without pods, slice by slice."""
    unused = [one for one in usage.matching if not one.pods and not one.mark]
    former: defaultdict[LabelSet, list[Autoscaler]] = defaultdict(list)
    for autoscaler in usage.autoscalers.values():
        for label_set in autoscaler.former:
            former[label_set].append(autoscaler)
    for start in range(0, len(unused), _SLICE):
        _compact(usage, unused[start : start + _SLICE], former)
        yield


def _compact(
    usage: Usage,
    label_sets: Sequence[LabelSet],
    former: Mapping[LabelSet, Sequence[Autoscaler]],
) -> None:
    into: list[int] = []
    rows: list[int] = []
    for label_set in label_sets:
        for container, row in tuple(label_set.aggregates.items()):
            shared = _shared(usage, label_set, row)
            if shared is None:
                continue
            for autoscaler in former.get(label_set, ()):
                autoscaler.former.add(shared)
            del label_set.aggregates[container]
            there = shared.aggregates.setdefault(container, row)
            if there != row:
                into.append(there)
                rows.append(row)
        usage.matching.drop_if_unused(label_set)
    _add_up(usage.aggregates, into, rows)


def _shared(usage: Usage, label_set: LabelSet, row: int) -> LabelSet | None:
    """Return the label set to move the aggregate to; None if a VPA selects generated labels."""
    labels = {key: value for key, value in label_set.labels.items() if key not in GENERATED_LABELS}
    found = usage.matching.label_set(label_set.namespace, labels, mark=_mark(usage.aggregates, row))
    if found.autoscalers == label_set.autoscalers:
        return found
    usage.matching.drop_if_unused(found)
    return None


def _mark(aggregates: Aggregates, row: int) -> str:
    """Return a mark that aggregates have in common if they expire at nearly the same time."""
    part = max(int(aggregates.lifetime[row]) // _PARTS, 1)
    if aggregates.samples[row]:
        return f"until {aggregates.last_sample[row] // part} of {part}"
    return f"empty {aggregates.created[row] // part} of {part}"


def _add_up(aggregates: Aggregates, into: Sequence[int], rows: Sequence[int]) -> None:
    targets, sources = np.array(into, dtype=np.int64), np.array(rows, dtype=np.int64)
    for batch in distinct_batches(targets):
        mine, theirs = targets[batch], sources[batch]
        aggregates.merge(mine, aggregates, theirs)
        created = np.maximum(aggregates.created[mine], aggregates.created[theirs])
        aggregates.created[mine] = created
    for row in rows:
        aggregates.free(row)
