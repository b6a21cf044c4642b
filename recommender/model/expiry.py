"""Garbage collection of history: aggregates that are expired, or empty and unused.

Source: recommender.md 5.4; docs/deviations.md X97, X98 and X125.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from recommender.model.autoscalers import Autoscaler, rule_for
from recommender.model.column_table import Mask
from recommender.model.keys import Place, VpaKey
from recommender.model.matching import LabelSet
from recommender.model.timestamps import NEVER, span
from recommender.model.usage import Usage

_SLICE = 500  # label sets, or VPAs, before other tasks run


def collect(usage: Usage, now: int, contributive: AbstractSet[VpaKey]) -> Iterator[int]:
    """Drop aggregates that are expired, or empty and unused (5.4); yield their number in slices.

    An empty aggregate is in use while an active pod has its key. It is also in use if one of its
    VPAs is in ``contributive`` (their targets exist), and a pod has its key or it has memory peaks
    (X97). The loaded history of a container expires with the last of its samples. ``now`` is an
    instant.
    """
    active, others = list[int](), list[int]()
    for pod in usage.pods.values():
        (active if pod.active else others).extend(pod.containers.values())
    in_use = usage.aggregates.marked(usage.containers.aggregate[active])
    there = in_use | usage.aggregates.marked(usage.containers.aggregate[others])
    sweep = _Sweep(usage=usage, now=now, contributive=contributive, in_use=in_use, there=there)
    every = tuple(usage.matching)
    for at in range(0, len(every), _SLICE):
        yield _collect(sweep, every[at : at + _SLICE])
    autoscalers = tuple(usage.autoscalers.values())
    for at in range(0, len(autoscalers), _SLICE):
        for autoscaler in autoscalers[at : at + _SLICE]:
            _collect_loaded(sweep, autoscaler)
        yield 0
    for key, container in sweep.lost:
        _mark(usage, key, container, expired=_is_unknown(usage, key, container))


def expire_loaded(usage: Usage, now: int) -> None:
    """Drop history that was just loaded and is expired, even if there are new samples since.

    Without a restart it would have expired before these samples. ``now`` is the instant of the
    newest usage; without usage nothing expires.
    """
    if now == NEVER:
        return
    for key, autoscaler in usage.autoscalers.items():
        for container in autoscaler.history_flags.just_loaded & autoscaler.loaded.keys():
            last = int(usage.aggregates.last_sample[autoscaler.loaded[container]])
            if last != NEVER and now - last >= _lifetime(usage, autoscaler, container):
                usage.drop_loaded(key, container)
                _mark(usage, key, container, expired=True)
        autoscaler.history_flags.just_loaded.clear()


@dataclass(slots=True, kw_only=True, eq=False)
class _Sweep:
    """The state of one garbage collection."""

    usage: Usage
    now: int
    contributive: AbstractSet[VpaKey]
    in_use: Mask  # aggregates of active pods
    there: Mask  # aggregates of all pods
    lost: set[Place] = field(default_factory=set)  # containers that lost a part of their history


def _collect(sweep: _Sweep, label_sets: Sequence[LabelSet]) -> int:
    usage, aggregates, now = sweep.usage, sweep.usage.aggregates, sweep.now
    places = [(one, name, row) for one in label_sets for name, row in one.aggregates.items()]
    matched = (bool(one.autoscalers & sweep.contributive) for one, _, _ in places)
    useful = np.fromiter(matched, np.bool_, count=len(places))
    rows = np.array([row for _, _, row in places], dtype=np.int64)
    useful &= sweep.there[rows] | ~aggregates.memory.is_empty(rows)
    useless = aggregates.is_empty(rows) & ~sweep.in_use[rows] & ~useful
    needless = aggregates.is_expired(rows, now) | useless
    for at in np.flatnonzero(needless).tolist():
        label_set, name, row = places[at]
        del label_set.aggregates[name]
        if aggregates.samples[row] or aggregates.memory.total[row]:
            sweep.lost.update((vpa, name) for vpa in label_set.autoscalers)
    for label_set in label_sets:
        usage.matching.drop_if_unused(label_set)
    collected = rows[needless]
    usage.drop_aggregates(collected)
    return len(collected)


def _collect_loaded(sweep: _Sweep, autoscaler: Autoscaler) -> None:
    usage, key = sweep.usage, autoscaler.key
    for container in tuple(autoscaler.loaded):
        last = int(usage.aggregates.last_sample[_rows(usage, key, container)].max())
        if last != NEVER and sweep.now - last >= _lifetime(usage, autoscaler, container):
            usage.drop_loaded(key, container)
            sweep.lost.add((key, container))


def _mark(usage: Usage, key: VpaKey, container: str, *, expired: bool) -> None:
    history_flags = usage.autoscalers[key].history_flags
    history_flags.forgotten.add(container)
    if expired:
        history_flags.expired.add(container)
        history_flags.killed.discard(container)


def _is_unknown(usage: Usage, key: VpaKey, container: str) -> bool:
    """Return True if no sample of a VPA's container is left."""
    rows, aggregates = _rows(usage, key, container), usage.aggregates
    return not (aggregates.samples[rows].any() or aggregates.memory.total[rows].any())


def _rows(usage: Usage, key: VpaKey, container: str) -> list[int]:
    loaded = usage.autoscalers[key].loaded
    rows: list[int] = usage.rows_of(key, container).tolist()
    return [*rows, loaded[container]] if container in loaded else rows


def _lifetime(usage: Usage, autoscaler: Autoscaler, container: str) -> int:
    return span(rule_for(autoscaler.rules, container).applied_to(usage.defaults).lifetime)
