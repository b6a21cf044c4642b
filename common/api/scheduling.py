"""The parts of ``core/v1`` that decide on which nodes a pod may run."""

from collections.abc import Mapping
from typing import ClassVar

from common.api.base import Wire
from common.api.core import PodSpec


class Toleration(Wire, frozen=True, kw_only=True):
    """A taint that a pod tolerates; an empty key or effect stands for all of them."""

    key: str = ""
    operator: str = ""  # Equal or Exists; absent: Equal
    value: str = ""
    effect: str = ""


class Taint(Wire, frozen=True, kw_only=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    """A requirement on one label or field of a node."""

    key: str = ""
    operator: str = ""  # In, NotIn, Exists, DoesNotExist, Gt, Lt
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """The affinity of a pod to nodes, without its preferences."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Wire, frozen=True, kw_only=True):
    """The affinity of a pod, without that to other pods."""

    node_affinity: NodeAffinity | None = None


class SchedulablePodSpec(PodSpec, frozen=True, kw_only=True):
    """``spec`` of a pod with its scheduling rules, which most readers of pods don't need."""

    node_selector: Mapping[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    priority_class_name: str = ""  # scopes of quotas depend on it, and on the next one
    active_deadline_seconds: int | None = None


class SchedulablePodSpecWithSidecars(SchedulablePodSpec, frozen=True, kw_only=True):
    """The same if native sidecars are scaled, too (gate NativeSidecar)."""

    scales_sidecars: ClassVar[bool] = True
