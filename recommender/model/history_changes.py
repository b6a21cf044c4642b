"""Changes of a VPA's history: after a change of its selector, and when it starts over.

Source: docs/deviations.md Q3 and X123.
"""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from common.labels import NOTHING
from recommender.model.autoscalers import Autoscaler
from recommender.model.checkpoint_merge import EMPTY_HISTORY
from recommender.model.keys import VpaKey
from recommender.model.matching import LabelSet
from recommender.model.usage import Usage


def keep_former_history(usage: Usage) -> None:
    """Move the usage of pods that a VPA selects no longer to its loaded history.

    A workload that was re-created under its name may have other labels. Usage moves when the last
    of the pods is gone. Usage that another VPA matches stays there. Nothing moves while the target
    selects nothing, because it may come back.
    """
    receivers: defaultdict[LabelSet, list[Autoscaler]] = defaultdict(list)
    for autoscaler in usage.autoscalers.values():
        if autoscaler.former and autoscaler.selector != NOTHING:
            for label_set in [one for one in autoscaler.former if not one.pods]:
                autoscaler.former.discard(label_set)
                receivers[label_set].append(autoscaler)
    for label_set, autoscalers in receivers.items():
        if label_set.autoscalers:
            continue
        for container in tuple(label_set.aggregates):
            _move(usage, label_set, container, autoscalers)
        usage.matching.drop_if_unused(label_set)


def start_over(usage: Usage, key: VpaKey, container: str, now: int) -> None:
    """Drop the history of a VPA's container; other VPAs of its pods keep it.

    ``now`` is an instant.
    """
    autoscaler = usage.autoscalers[key]
    if container in autoscaler.loaded:
        usage.drop_loaded(key, container)
    for label_set in usage.matching.matched(key) | autoscaler.former:
        if container in label_set.aggregates:
            others = label_set.autoscalers - {key}
            _move(usage, label_set, container, [usage.autoscalers[one] for one in others])
            if label_set.pods:
                usage.aggregate(label_set.namespace, label_set.labels, container, now)
        usage.matching.drop_if_unused(label_set)
    history_flags = autoscaler.history_flags
    for names in (history_flags.forgotten, history_flags.outdated):
        names.add(container)
    for names in (history_flags.just_loaded, history_flags.expired, history_flags.killed):
        names.discard(container)


def _move(
    usage: Usage, label_set: LabelSet, container: str, autoscalers: Iterable[Autoscaler]
) -> None:
    """Move the usage of pods with these labels to the loaded history of these VPAs."""
    rows = np.array([label_set.aggregates[container]])
    for autoscaler in autoscalers:
        if container not in autoscaler.loaded:
            usage.load_history(autoscaler.key, container, EMPTY_HISTORY)
        into = np.array([autoscaler.loaded[container]])
        usage.aggregates.merge(into, usage.aggregates, rows)
    del label_set.aggregates[container]
    usage.drop_aggregates(rows)
