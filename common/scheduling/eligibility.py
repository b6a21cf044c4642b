"""Node selectors, required node affinity, taints and tolerations, as the scheduler applies them.

Source: kubernetes.io/docs/concepts/scheduling-eviction, "Assigning Pods to Nodes" and "Taints and
Tolerations"; ``GetRequiredNodeAffinity`` and ``FindMatchingUntoleratedTaint``,
k8s.io/component-helpers/scheduling/corev1.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

from common.api.scheduling import (
    Affinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)

_NAME_FIELD = "metadata.name"
_REPELLING = ("NoSchedule", "NoExecute")
_TRANSIENT = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Prefixes of taints that describe the present state of a node, and not what it is for."""


class NodeOperator(enum.StrEnum):
    """The operator of a requirement on a node; the last two are Karpenter's."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"
    AT_LEAST = "Gte"
    AT_MOST = "Lte"


class Schedulable(Protocol):
    """The spec of a pod, or of a pod template, with its scheduling rules."""

    @property
    def node_selector(self) -> Mapping[str, str] | None: ...

    @property
    def affinity(self) -> Affinity | None: ...

    @property
    def tolerations(self) -> tuple[Toleration, ...] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRules:
    """The rules of a pod on the nodes that it may run on; equal for all replicas."""

    node_selector: tuple[tuple[str, str], ...] = ()  # sorted
    terms: tuple[NodeSelectorTerm, ...] | None = None  # of which one must match; None: any node
    tolerations: tuple[Toleration, ...] = ()
    own_node_only: bool = False  # the pod of a DaemonSet, which is made for its node


ANYWHERE = SchedulingRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraits:
    """The labels and taints of a node, or of nodes that an autoscaler could make.

    A node has ``labels`` alone. Of nodes to be made, some labels have several possible values
    (``choices``). With ``is_open`` they may have any other label with any value, too; otherwise
    those of ``open_keys``, and those of ``open_domains`` and their subdomains.
    """

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    choices: Mapping[str, Collection[str]] = field(default_factory=dict)
    is_open: bool = False
    open_keys: Collection[str] = ()
    open_domains: tuple[str, ...] = ()  # such as k8s.io

    def without_transient_taints(self) -> "NodeTraits":
        """Return the traits without taints that describe the node's present state."""
        kept = tuple(each for each in self.taints if not each.key.startswith(_TRANSIENT))
        return self if len(kept) == len(self.taints) else replace(self, taints=kept)

    def possible(self, key: str) -> Collection[str | None] | None:
        """Return the possible values of a label, None for its absence; None: any value."""
        if key in self.labels:
            return (self.labels[key],)
        if key in self.choices:
            return self.choices[key]
        return None if self.is_open or self._is_open_for(key) else (None,)

    def _is_open_for(self, key: str) -> bool:
        if key in self.open_keys:
            return True
        domain, slash, _ = key.partition("/")
        return bool(slash) and f".{domain}".endswith(
            tuple(f".{each}" for each in self.open_domains)
        )


def rules_of(spec: Schedulable) -> SchedulingRules:
    """Return the scheduling rules of a pod, or of a pod template."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = (
        None if affinity is None else affinity.required_during_scheduling_ignored_during_execution
    )
    terms = None if required is None else required.node_selector_terms or ()
    names_node = terms is not None and any(map(_names_node, terms))
    return SchedulingRules(
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        terms=tuple(map(_without_name, terms)) if terms is not None and names_node else terms,
        tolerations=spec.tolerations or (),
        own_node_only=names_node,
    )


def keys_of(rules: SchedulingRules) -> frozenset[str]:
    """Return the keys of the node labels that the rules name."""
    requirements = chain.from_iterable(each.match_expressions or () for each in rules.terms or ())
    return frozenset(chain((key for key, _ in rules.node_selector), (r.key for r in requirements)))


def may_come_from(pod: SchedulingRules, template: SchedulingRules) -> bool:
    """Return whether a pod may have been made from a template.

    Admission may add node selectors, tolerations and an affinity to a pod, or requirements to its
    affinity.
    """
    return (
        set(template.node_selector).issubset(pod.node_selector)
        and all(each in pod.tolerations for each in template.tolerations)
        and (template.terms is None or _are_extended(template.terms, pod.terms or ()))
    )


def _are_extended(
    terms: Collection[NodeSelectorTerm], extended: Collection[NodeSelectorTerm]
) -> bool:
    """Return whether terms differ only by requirements that ``extended`` has in addition."""
    return all(any(_extends(each, term) for each in extended) for term in terms) and all(
        any(_extends(each, term) for term in terms) for each in extended
    )


def _extends(extended: NodeSelectorTerm, term: NodeSelectorTerm) -> bool:
    """Return whether a term has all requirements of another one."""
    expressions, fields = extended.match_expressions or (), extended.match_fields or ()
    return all(each in expressions for each in term.match_expressions or ()) and all(
        each in fields for each in term.match_fields or ()
    )


def is_eligible(rules: SchedulingRules, node: NodeTraits) -> bool:
    """Return whether a pod with these rules may run on a node, apart from ``own_node_only``."""
    return (
        all(_may_have(node, key, value) for key, value in rules.node_selector)
        and (rules.terms is None or any(_matches(term, node) for term in rules.terms))
        and tolerates(rules.tolerations, node.taints)
    )


def tolerates(tolerations: Collection[Toleration], taints: Iterable[Taint]) -> bool:
    """Return whether the tolerations cover all taints that keep pods away."""
    return all(
        any(_covers(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _REPELLING
    )


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
    return False


def _names_node(term: NodeSelectorTerm) -> bool:
    """Return whether a term names one node, as in pods of DaemonSets."""
    return any(
        each.key == _NAME_FIELD and each.operator == NodeOperator.IN and len(each.values or ()) == 1
        for each in term.match_fields or ()
    )


def _without_name(term: NodeSelectorTerm) -> NodeSelectorTerm:
    """Return the term for any node, so that the pods of a DaemonSet have equal rules."""
    fields = tuple(each for each in term.match_fields or () if each.key != _NAME_FIELD)
    expressions = term.match_expressions
    if not fields and not expressions:
        # A term without requirements matches nothing, and this one matched its node.
        expressions = (NodeSelectorRequirement(key="", operator=NodeOperator.DOES_NOT_EXIST.value),)
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields or None)


def _matches(term: NodeSelectorTerm, node: NodeTraits) -> bool:
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    return all(_holds(each, node.possible(each.key)) for each in expressions) and all(
        each.key == _NAME_FIELD and _holds(each, (node.name,)) for each in fields
    )


def _may_have(node: NodeTraits, key: str, value: str) -> bool:
    possible = node.possible(key)
    return possible is None or value in possible


def _holds(requirement: NodeSelectorRequirement, possible: Collection[str | None] | None) -> bool:
    """Return whether a requirement may hold for one of the possible values."""
    if possible is None:
        return True
    values = requirement.values or ()
    return any(satisfies(each, requirement.operator, values) for each in possible)


def satisfies(value: str | None, operator: str, values: Collection[str]) -> bool:
    """Return whether the value of a label satisfies an operator; None: the label is absent.

    An unknown operator, and a comparison of something that is no integer, is never satisfied.
    """
    match operator:
        case NodeOperator.IN:
            return value in values
        case NodeOperator.NOT_IN:
            return value not in values
        case NodeOperator.EXISTS:
            return value is not None
        case NodeOperator.DOES_NOT_EXIST:
            return value is None
    return value is not None and _compares(value, operator, values)


def _compares(value: str, operator: str, values: Collection[str]) -> bool:
    try:
        (bound,) = map(int, values)
        number = int(value)
    except ValueError:
        return False
    match operator:
        case NodeOperator.GREATER:
            return number > bound
        case NodeOperator.LESS:
            return number < bound
        case NodeOperator.AT_LEAST:
            return number >= bound
        case NodeOperator.AT_MOST:
            return number <= bound
    return False
