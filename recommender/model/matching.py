"""Which VPAs look at which pods: by namespace and labels, and by nothing else.

Pods with equal labels are one :class:`LabelSet`, so a selector is evaluated once per label set
and not once per pod.

Source: recommender.md 5.1, 6.2; ``clusterState`` in
vertical-pod-autoscaler/pkg/recommender/model/cluster.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from common.labels import Selector, canonical_labels
from recommender.model.keys import VpaKey


@dataclass(slots=True, kw_only=True, eq=False)
class LabelSet:
    """Equal labels in one namespace."""

    namespace: str
    text: str  # canonical
    labels: Mapping[str, str]
    autoscalers: set[VpaKey] = field(default_factory=set)  # those whose selector matches
    aggregates: dict[str, int] = field(default_factory=dict)  # container name -> row
    pods: int = 0  # tracked pods with these labels


class Matching:
    """Label sets and selectors by namespace."""

    def __init__(self) -> None:
        self._label_sets: dict[str, dict[str, LabelSet]] = {}
        self._selectors: dict[str, dict[str, Selector]] = {}
        self._matched: dict[VpaKey, set[LabelSet]] = {}

    def __iter__(self) -> Iterator[LabelSet]:
        for label_sets in self._label_sets.values():
            yield from label_sets.values()

    def label_set(self, namespace: str, labels: Mapping[str, str]) -> LabelSet:
        """The label set of these labels; a new one is matched with the VPAs first."""
        text = canonical_labels(labels)
        label_sets = self._label_sets.setdefault(namespace, {})
        found = label_sets.get(text)
        if found is None:
            found = LabelSet(namespace=namespace, text=text, labels=dict(labels))
            label_sets[text] = found
            for name, selector in self._selectors.get(namespace, {}).items():
                if selector.matches(labels):
                    self._join(VpaKey(namespace, name), found)
        return found

    def known(self, namespace: str, text: str) -> LabelSet:
        """The label set of a canonical text that is in use."""
        return self._label_sets[namespace][text]

    def is_matched(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether any VPA's selector matches, without remembering the labels."""
        selectors = self._selectors.get(namespace, {})
        return any(selector.matches(labels) for selector in selectors.values())

    def select(self, vpa: VpaKey, selector: Selector) -> set[LabelSet]:
        """Give a VPA its selector; returns the label sets whose matches changed."""
        before = self._matched.get(vpa, set())
        for label_set in before:
            label_set.autoscalers.discard(vpa)
        self._matched[vpa] = set()
        self._selectors.setdefault(vpa.namespace, {})[vpa.name] = selector
        for label_set in self._label_sets.get(vpa.namespace, {}).values():
            if selector.matches(label_set.labels):
                self._join(vpa, label_set)
        return before ^ self._matched[vpa]

    def remove(self, vpa: VpaKey) -> set[LabelSet]:
        """Forget a VPA; returns the label sets that it matched."""
        selectors = self._selectors[vpa.namespace]
        del selectors[vpa.name]
        if not selectors:
            del self._selectors[vpa.namespace]
        matched = self._matched.pop(vpa)
        for label_set in matched:
            label_set.autoscalers.discard(vpa)
        return matched

    def matched(self, vpa: VpaKey) -> set[LabelSet]:
        """The label sets that a VPA matches."""
        return self._matched[vpa]

    def drop_if_unused(self, label_set: LabelSet) -> None:
        """Forget labels that no pod and no aggregate has any more; rollouts make many."""
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
