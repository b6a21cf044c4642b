"""Matching of VPAs and pods by namespace and labels.

Pods with equal labels are one :class:`LabelSet`, so a selector is evaluated once per label set
and not once per pod.

Source: recommender.md 5.1, 6.2; ``clusterState`` in
vertical-pod-autoscaler/pkg/recommender/model/cluster.go.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from common.labels import Operator, Selector, canonical_labels
from common.scheduling.pod_claims import PodShape
from recommender.model.keys import VpaKey

_NAMING = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)


@dataclass(slots=True, kw_only=True, eq=False)
class LabelSet:
    """Equal labels in one namespace."""

    namespace: str
    text: str  # canonical
    labels: Mapping[str, str]
    mark: str = ""  # not empty: it has no pods, but compacted aggregates of deleted pods
    autoscalers: set[VpaKey] = field(default_factory=set)  # VPAs whose selector matches
    aggregates: dict[str, int] = field(default_factory=dict)  # container name -> row
    pods: int = 0  # tracked pods with these labels
    sidecars: Counter[str] = field(default_factory=Counter)  # pods by native sidecar
    regular: Counter[str] = field(default_factory=Counter)  # pods by regular container
    shape: PodShape | None = None  # of the pod that came last; None: there are no pods
    shaped_at: int = 0  # the later, the larger

    def enter(self, sidecars: Iterable[str], regular: Iterable[str]) -> None:
        """Count a pod with these native sidecars and regular containers."""
        self.pods += 1
        self.sidecars.update(sidecars)
        self.regular.update(regular)

    def leave(self, sidecars: Iterable[str], regular: Iterable[str]) -> None:
        """Undo ``enter``."""
        self.pods -= 1
        if self.pods:
            self.sidecars.subtract(sidecars)
            self.regular.subtract(regular)
        else:  # label sets outlive their pods by days, so free the memory
            self.sidecars.clear()
            self.regular.clear()
            self.shape = None


class Selectors:
    """The selectors of one namespace, indexed by a label that each of them requires.

    Nearly all selectors require a label with a value (``app=web``), so only a few of a thousand in
    a namespace are evaluated for a pod. If a selector requires several, it is indexed by the label
    that the fewest others have: many would have ``env=prod``.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[str, Selector]] = {}
        self._unindexed: dict[str, Selector] = {}  # selectors that require no label with a value
        self._places: dict[str, tuple[tuple[str, str], ...]] = {}  # in _by_label, for each name

    def __bool__(self) -> bool:
        return bool(self._places)

    def put(self, name: str, selector: Selector) -> None:
        """Add or replace the selector of a name."""
        if name in self._places:
            self.remove(name)
        places = self._places[name] = self._index_labels(selector)
        for place in places:
            self._by_label.setdefault(place, {})[name] = selector
        if not places and not selector.nothing:
            self._unindexed[name] = selector

    def remove(self, name: str) -> None:
        self._unindexed.pop(name, None)
        for place in self._places.pop(name):
            there = self._by_label[place]
            del there[name]
            if not there:
                del self._by_label[place]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[tuple[str, Selector]]:
        """Return the selectors that may match, each of them once."""
        found = (self._by_label.get(pair) for pair in labels.items())
        there = (each.items() for each in found if each is not None)
        return chain(chain.from_iterable(there), self._unindexed.items())

    def matching(self, labels: Mapping[str, str]) -> Iterator[str]:
        """Return the names of the selectors that match."""
        return (name for name, one in self.candidates(labels) if one.matches(labels))

    def _index_labels(self, selector: Selector) -> tuple[tuple[str, str], ...]:
        """Return the labels of which a pod must have one; empty if the selector requires none."""
        named = [
            tuple((one.key, value) for value in dict.fromkeys(one.values))
            for one in selector.requirements
            if one.operator in _NAMING
        ]
        return min(named, key=self._selector_count, default=())

    def _selector_count(self, places: tuple[tuple[str, str], ...]) -> int:
        return sum(len(self._by_label.get(place, ())) for place in places)


class Matching:
    """Label sets and selectors by namespace."""

    def __init__(self) -> None:
        self._label_sets: dict[str, dict[str, LabelSet]] = {}
        self._selectors: dict[str, Selectors] = {}
        self._matched: dict[VpaKey, set[LabelSet]] = {}
        self._arrivals = 0  # of pods with a shape

    def __iter__(self) -> Iterator[LabelSet]:
        for label_sets in self._label_sets.values():
            yield from label_sets.values()

    def label_set(self, namespace: str, labels: Mapping[str, str], *, mark: str = "") -> LabelSet:
        """Return the label set of these labels, after matching a new one with the VPAs.

        Equal labels with another ``mark`` are another label set.
        """
        text = f"{mark}\n{canonical_labels(labels)}" if mark else canonical_labels(labels)
        label_sets = self._label_sets.setdefault(namespace, {})
        found = label_sets.get(text)
        if found is None:
            found = LabelSet(namespace=namespace, text=text, labels=dict(labels), mark=mark)
            label_sets[text] = found
            selectors = self._selectors.get(namespace)
            for name in selectors.matching(labels) if selectors is not None else ():
                self._join(VpaKey(namespace, name), found)
        return found

    def is_matched(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return True if any VPA's selector matches; doesn't add a label set."""
        selectors = self._selectors.get(namespace)
        return selectors is not None and any(True for _ in selectors.matching(labels))

    def select(self, vpa: VpaKey, selector: Selector) -> set[LabelSet]:
        """Set the selector of a VPA; return the label sets that it began or ceased to match."""
        before = self._matched.get(vpa, set())
        for label_set in before:
            label_set.autoscalers.discard(vpa)
        self._matched[vpa] = set()
        self._selectors.setdefault(vpa.namespace, Selectors()).put(vpa.name, selector)
        for label_set in self._label_sets.get(vpa.namespace, {}).values():
            if selector.matches(label_set.labels):
                self._join(vpa, label_set)
        return before ^ self._matched[vpa]

    def remove(self, vpa: VpaKey) -> set[LabelSet]:
        """Remove a VPA; return the label sets that it matched."""
        selectors = self._selectors[vpa.namespace]
        selectors.remove(vpa.name)
        if not selectors:
            del self._selectors[vpa.namespace]
        matched = self._matched.pop(vpa)
        for label_set in matched:
            label_set.autoscalers.discard(vpa)
        return matched

    def matched(self, vpa: VpaKey) -> set[LabelSet]:
        """Return the label sets that a VPA matches."""
        return self._matched[vpa]

    def keep_shape(self, label_set: LabelSet, shape: PodShape | None) -> None:
        """Keep the shape of a pod that came with these labels, if it has one."""
        if shape is not None:
            self._arrivals += 1
            label_set.shape, label_set.shaped_at = shape, self._arrivals

    def newest_shape(self, vpa: VpaKey) -> PodShape | None:
        """Return the shape of the pod that came last; None: no pod that the VPA matches has one."""
        shaped = (each for each in self._matched[vpa] if each.shape is not None)
        newest = max(shaped, key=attrgetter("shaped_at"), default=None)
        return None if newest is None else newest.shape

    def drop_if_unused(self, label_set: LabelSet) -> None:
        """Drop a label set without pods and aggregates; rollouts leave many of them."""
        if label_set.pods or label_set.aggregates:
            return
        label_sets = self._label_sets.get(label_set.namespace, {})
        if label_sets.pop(label_set.text, None) is None:
            return
        for vpa in label_set.autoscalers:
            self._matched[vpa].discard(label_set)
        if not label_sets:
            del self._label_sets[label_set.namespace]

    def _join(self, vpa: VpaKey, label_set: LabelSet) -> None:
        label_set.autoscalers.add(vpa)
        self._matched[vpa].add(label_set)
