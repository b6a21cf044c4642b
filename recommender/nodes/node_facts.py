"""What is known at one moment about nodes, and about the pods that take room on each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.api.workloads import DaemonSet
from common.scheduling.room import Room
from recommender.nodes.autoscalers import Autoscalers
from recommender.nodes.cached_node import CachedNode


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Nodes, DaemonSets and autoscalers."""

    nodes: Mapping[str, CachedNode] | None  # by name; None: they can't be read
    static_pods: Mapping[str, Room] = field(default_factory=dict)  # what they take, by node
    daemon_sets: Sequence[DaemonSet] = ()
    autoscalers: Autoscalers = field(default_factory=Autoscalers)
