"""The model of usage: pods, aggregates and VPAs; samples are added in batches.

It changes under the recommender's ``model_lock`` alone. No method waits, so each call is atomic.

Source: recommender.md sections 4-6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from common.labels import Selector
from common.scheduling.pod_claims import PodShape
from recommender.model import memory_peaks
from recommender.model.aggregates import (
    MEMORY_WEIGHT,
    NO_VPA,
    Aggregates,
    AggregationRules,
    HalfLives,
    History,
)
from recommender.model.autoscalers import (
    EVERY_OTHER,
    Autoscaler,
    ContainerRule,
    HistoryFlags,
    rule_for,
)
from recommender.model.column_table import ColumnTable, Ints, Mask, distinct_batches
from recommender.model.keys import NO_REQUESTS, PodKey, Requests, VpaKey
from recommender.model.matching import LabelSet, Matching
from recommender.model.memory_peaks import OpenPeaks, WindowUpdate
from recommender.model.oom_outcome import OomOutcome, OomResult
from recommender.model.pods import NOWHERE, Containers, PodFacts, TrackedPod
from recommender.model.sidecars import Sidecars

_NO_TEMPLATE: Mapping[str, Requests] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerGroup:
    """The aggregates of one container name that a VPA matches or that were loaded for it."""

    vpa: VpaKey
    container: str
    rows: tuple[int, ...]  # of Aggregates; the loaded history comes last
    has_pods: bool  # it has more than the loaded history


class Usage:
    """The model of usage."""

    def __init__(
        self,
        *,
        defaults: AggregationRules | None = None,
        half_lives: HalfLives | None = None,
        sidecars: Sidecars | None = None,
    ) -> None:
        self.defaults = defaults or AggregationRules()
        self.sidecars = sidecars or Sidecars()
        self.aggregates = Aggregates(half_lives or HalfLives())
        self.containers = Containers()
        self.matching = Matching()
        self.pods: dict[PodKey, TrackedPod] = {}
        self.autoscalers: dict[VpaKey, Autoscaler] = {}
        self.selectors_version = 0  # incremented when a VPA changes
        self._vpa_numbers = ColumnTable()  # a row for each VPA, see Autoscaler.number

    # Pods

    def put_pod(self, pod: PodFacts, now: int, shape: PodShape | None = None) -> None:
        """Add or update a pod; a ``shape`` is kept for its labels if the pod is new.

        A new pod with the same name starts over (Q33). If a pod's labels change, its containers
        begin new windows (Q10). Aggregates stay.
        """
        tracked = self.pods.get(pod.key)
        if tracked is not None and tracked.uid != pod.uid:
            self.remove_pod(pod.key)
            tracked = None
        label_set = self.matching.label_set(pod.key.namespace, pod.labels)
        if tracked is None:
            tracked = self.pods[pod.key] = TrackedPod(
                key=pod.key,
                uid=pod.uid,
                label_set=label_set,
                active=pod.active,
                sidecars=pod.sidecars,
            )
            label_set.enter(tracked.sidecars, tracked.regular)
            self.matching.keep_shape(label_set, shape)
        elif tracked.label_set is not label_set:
            self._relabel(tracked, label_set, now)
            self.matching.keep_shape(label_set, shape)
        tracked.active = pod.active
        for name in pod.containers:
            if name not in tracked.containers:
                aggregate = self._aggregate(label_set, name, now)
                row = self.containers.track(label_set, name, aggregate, pod.uid)
                tracked.containers[name] = row
                label_set.regular[name] += tracked.is_regular(name)
        for name, requests in zip(pod.containers, pod.requests, strict=False):
            row = tracked.containers[name]
            self.containers.set_requests(row, requests, is_active=pod.active)
        for name in tracked.containers.keys() - set(pod.containers):
            self.containers.forget(tracked.containers.pop(name))
            label_set.regular[name] -= tracked.is_regular(name)

    def remove_pod(self, key: PodKey) -> None:
        """Remove a pod and its windows; its aggregates stay."""
        tracked = self.pods.pop(key)
        for row in tracked.containers.values():
            self.containers.forget(row)
        tracked.label_set.leave(tracked.sidecars, tracked.regular)
        self.matching.drop_if_unused(tracked.label_set)

    # VPAs

    def put_autoscaler(
        self,
        key: VpaKey,
        selector: Selector,
        rules: tuple[ContainerRule, ...],
        update_mode: str = "",
        target: str = "",
        *,
        template_requests: Mapping[str, Requests] = _NO_TEMPLATE,
    ) -> None:
        """Add or update a VPA; ``update_mode`` is as written.

        Its loaded history stays (Q3), unless ``target`` changes (X123). ``template_requests`` are
        those of the target's pod template by container name.
        """
        asked = (selector, rules, update_mode, target, template_requests)
        known = self.autoscalers.get(key)
        if known is None:
            known = Autoscaler(
                key=key,
                number=self._vpa_numbers.new() + 1,
                selector=selector,
                rules=rules,
                target=target,
            )
            self.autoscalers[key] = known
        elif known.declared == asked:
            return
        is_same = known.target == target
        known.declared = asked
        self.selectors_version += 1
        changed, matched = self.matching.select(key, selector), self.matching.matched(key)
        known.former = (known.former | changed) - matched
        if not is_same:
            self._forget_loaded(known)
            known.history_flags.outdated.add(EVERY_OTHER)
        for label_set in changed | matched:
            self._apply_rules(label_set)

    def remove_autoscaler(self, key: VpaKey) -> None:
        """Remove a VPA and its loaded history; the usage of its pods stays."""
        removed = self.autoscalers.pop(key)
        self._forget_loaded(removed)
        self.selectors_version += 1
        for label_set in self.matching.remove(key):
            self._apply_rules(label_set)
        self._vpa_numbers.free(removed.number - 1)

    def _forget_loaded(self, autoscaler: Autoscaler) -> None:
        for row in autoscaler.loaded.values():
            self.aggregates.free(row)
        autoscaler.loaded, autoscaler.history_flags = {}, HistoryFlags()
        autoscaler.former = set()
        self.sidecars.forget(autoscaler.key)

    def load_history(self, key: VpaKey, container: str, history: History) -> None:
        """Set the loaded history of a container, which counts in every estimate."""
        loaded = self.autoscalers[key].loaded
        if container in loaded:
            self.drop_loaded(key, container)
        loaded[container] = self.aggregates.new()
        self.aggregates.load(loaded[container], history)

    def rows_of(self, key: VpaKey, container: str) -> Ints:
        """Return the aggregates of a container name that the VPA matches."""
        found = (one.aggregates.get(container) for one in self.matching.matched(key))
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def pod_count(self, key: VpaKey) -> int:
        """Return the number of tracked pods that the VPA's selector matches."""
        return sum(label_set.pods for label_set in self.matching.matched(key))

    def pod_shape(self, key: VpaKey) -> PodShape | None:
        """Return the shape of the pod that came last; None: no pod that the VPA matches has one."""
        return self.matching.newest_shape(key)

    def pod_containers(self, key: VpaKey) -> frozenset[str]:
        """Return the names of all containers in the tracked pods that the VPA matches."""
        counts = ((one.regular, one.sidecars) for one in self.matching.matched(key) if one.pods)
        return frozenset(name for pair in counts for each in pair for name in +each)

    def row_count(self, key: VpaKey) -> int:
        """Return the number of aggregates in all groups of a VPA."""
        matched = sum(len(label_set.aggregates) for label_set in self.matching.matched(key))
        return matched + len(self.autoscalers[key].loaded)

    def groups(self, key: VpaKey) -> tuple[ContainerGroup, ...]:
        """Return the VPA's aggregates by container name."""
        rows: dict[str, list[int]] = {}
        # Sorted, so that the last bits of a sum are the same in every run.
        for label_set in sorted(self.matching.matched(key), key=attrgetter("text")):
            for container, row in label_set.aggregates.items():
                rows.setdefault(container, []).append(row)
        from_pods = frozenset(rows)
        for container, row in self.autoscalers[key].loaded.items():
            rows.setdefault(container, []).append(row)
        return tuple(
            ContainerGroup(
                vpa=key,
                container=container,
                rows=tuple(rows[container]),
                has_pods=container in from_pods,
            )
            for container in sorted(rows)
        )

    def aggregate(self, namespace: str, labels: Mapping[str, str], container: str, now: int) -> int:
        """Return or create the aggregate of a container name in pods with these labels."""
        return self._aggregate(self.matching.label_set(namespace, labels), container, now)

    # Samples

    def add_cpu(self, rows: Ints, times: Ints, amounts: Ints, now: int) -> Mask:
        """Add CPU samples in millicores, in order; return a mask of the accepted ones.

        ``rows`` are of ``containers`` and may repeat. Negative amounts are refused, and so are
        samples that aren't newer than the container's last one.
        """
        accepted = np.zeros(len(rows), dtype=np.bool_)
        for batch in distinct_batches(rows):
            mine, at = rows[batch], times[batch]
            good = (at > self.containers.last_cpu[mine]) & (amounts[batch] >= 0)
            self.containers.last_cpu[mine[good]] = at[good]
            accepted[batch] = good
        chosen = rows[accepted]
        self.containers.note_first(chosen, times[accepted])
        aggregates = self._aggregates_of(chosen, now)
        self.aggregates.add_cpu(aggregates, times[accepted], amounts[accepted])
        return accepted

    def add_memory(self, rows: Ints, times: Ints, amounts: Ints, now: int) -> Mask:
        """Add memory samples in bytes, in order; return a mask of the accepted ones."""
        accepted = np.zeros(len(rows), dtype=np.bool_)
        for batch in distinct_batches(rows):
            mine = rows[batch]
            aggregates = self._aggregates_of(mine, now)
            observed = memory_peaks.observe(
                self.containers.windows(mine),
                times[batch],
                amounts[batch],
                interval=self.aggregates.interval[aggregates],
            )
            self._take_over(mine, aggregates, amounts[batch], observed)
            accepted[batch] = observed.accepted
        self.containers.note_first(rows[accepted], times[accepted])
        return accepted

    def add_oom(self, pod: PodKey, container: str, *, at: int, request: int, now: int) -> OomResult:
        """Record an OOM kill; ``request`` is the container's memory request in bytes."""
        tracked = self.pods.get(pod)
        if tracked is None or container not in tracked.containers:
            return OomResult(outcome=OomOutcome.UNKNOWN_CONTAINER)
        rows = np.array([tracked.containers[container]])
        times, requests = np.array([at]), np.array([request])
        aggregates = self._aggregates_of(rows, now)
        interval = self.aggregates.interval[aggregates]
        windows = self.containers.windows(rows)
        if memory_peaks.is_too_old(windows, times, interval=interval)[0]:
            return OomResult(outcome=OomOutcome.TOO_OLD)
        amounts = memory_peaks.needed(
            windows,
            requests,
            ratio=self.aggregates.oom_bump_up_ratio[aggregates],
            min_bump=self.aggregates.oom_min_bump_up[aggregates],
        )
        observed = memory_peaks.observe(windows, times, amounts, interval=interval, is_oom=True)
        self._take_over(rows, aggregates, amounts, observed)
        if observed.accepted[0]:
            for key in tracked.label_set.autoscalers:
                self.autoscalers[key].history_flags.killed.add(container)
        return OomResult(
            outcome=OomOutcome.RECORDED if observed.accepted[0] else OomOutcome.INVALID,
            aggregate=int(aggregates[0]),
            amount=int(amounts[0]),
        )

    # Reads and removals

    def open_peaks(self, now: int) -> OpenPeaks:
        """Return the containers whose windows haven't ended; invalid after any change."""
        containers = self.containers
        rows = np.flatnonzero((containers.window_end > now) & (containers.aggregate >= 0))
        rows = rows[np.argsort(containers.aggregate[rows], kind="stable")]
        return OpenPeaks(containers=rows, aggregates=containers.aggregate[rows])

    def without_peaks(self, groups: Sequence[ContainerGroup], peaks: OpenPeaks) -> Aggregates:
        """Return the groups' merged usage, without the peaks of windows that haven't ended.

        A checkpoint leaves them out: after a restart the containers begin a new window, and the
        peak of the old one would count twice (recommender.md 11.1).
        """
        merged = self.aggregates.merged([group.rows for group in groups])
        chosen, targets = self.open_in(groups, peaks)
        highest, ends = self.containers.highest(chosen), self.containers.window_end[chosen]
        merged.memory.subtract(targets, highest, ends, MEMORY_WEIGHT)
        return merged

    def open_in(self, groups: Sequence[ContainerGroup], peaks: OpenPeaks) -> tuple[Ints, Ints]:
        """Return the groups' containers in a running window, and the index of each one's group."""
        sizes = [len(group.rows) for group in groups]
        members = np.fromiter((row for group in groups for row in group.rows), dtype=np.int64)
        first = np.searchsorted(peaks.aggregates, members, side="left")
        counts = np.searchsorted(peaks.aggregates, members, side="right") - first
        before = np.cumsum(counts) - counts
        chosen = peaks.containers[np.arange(counts.sum()) + np.repeat(first - before, counts)]
        return chosen, np.repeat(np.repeat(np.arange(len(groups)), sizes), counts)

    def without_open_peaks(self, groups: Sequence[ContainerGroup], now: int) -> Aggregates:
        """Return the same for the windows that haven't ended at the instant ``now``."""
        return self.without_peaks(groups, self.open_peaks(now))

    def drop_aggregates(self, rows: Ints) -> None:
        """Free rows that no label set has any more; their containers get new ones when needed."""
        if rows.size:
            belongs = self.containers.aggregate
            orphans = np.flatnonzero(self.aggregates.marked(rows)[belongs] & (belongs >= 0))
            belongs[orphans] = NOWHERE
        for row in rows.tolist():
            self.aggregates.free(row)

    def drop_loaded(self, key: VpaKey, container: str) -> None:
        """Drop the loaded history of a VPA's container."""
        self.aggregates.free(self.autoscalers[key].loaded.pop(container))

    def aggregate_count(self) -> int:
        """Return the number of aggregates, without loaded checkpoints."""
        return sum(len(label_set.aggregates) for label_set in self.matching)

    def _aggregate(self, label_set: LabelSet, container: str, now: int) -> int:
        row = label_set.aggregates.get(container)
        if row is None:
            row = label_set.aggregates[container] = self.aggregates.create(now, self.defaults)
            self._apply_rules_to(row, label_set, container)
        return row

    def _aggregates_of(self, rows: Ints, now: int) -> Ints:
        """Return the aggregates of containers; create those again that were collected."""
        for row in np.unique(rows[self.containers.aggregate[rows] == NOWHERE]).tolist():
            label_set, name = self.containers.keys[row]
            self.containers.move(row, label_set, self._aggregate(label_set, name, now))
        return self.containers.aggregate[rows]

    def _take_over(
        self, rows: Ints, aggregates: Ints, amounts: Ints, observed: WindowUpdate
    ) -> None:
        after = observed.after
        self.containers.set_windows(rows, after)
        gone, come = observed.replaces, observed.counts
        memory = self.aggregates.memory
        memory.subtract(aggregates[gone], observed.replaced[gone], after.end[gone], MEMORY_WEIGHT)
        memory.add(aggregates[come], amounts[come], after.end[come], MEMORY_WEIGHT)

    def _relabel(self, pod: TrackedPod, label_set: LabelSet, now: int) -> None:
        before = pod.label_set
        pod.label_set = label_set
        before.leave(pod.sidecars, pod.regular)
        label_set.enter(pod.sidecars, pod.regular)
        for name, row in pod.containers.items():
            self.containers.move(row, label_set, self._aggregate(label_set, name, now))
        self.matching.drop_if_unused(before)

    def _apply_rules(self, label_set: LabelSet) -> None:
        for container, row in label_set.aggregates.items():
            self._apply_rules_to(row, label_set, container)

    def _apply_rules_to(self, row: int, label_set: LabelSet, container: str) -> None:
        """Apply the flags' rules with the overrides of the VPAs; of several VPAs the last wins."""
        rules, mode, number, template = self.defaults, None, NO_VPA, NO_REQUESTS
        for vpa in sorted(label_set.autoscalers):
            autoscaler = self.autoscalers[vpa]
            rule = rule_for(autoscaler.rules, container)
            rules = rule.applied_to(rules)
            mode = None if rule.off else autoscaler.update_mode
            number = NO_VPA if rule.off else autoscaler.number
            template = autoscaler.template_requests.get(container, NO_REQUESTS)
        self.aggregates.set_rules(row, rules)
        self.aggregates.set_mode(row, mode)
        self.aggregates.set_vpa(row, number, template)
