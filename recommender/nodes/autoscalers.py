"""What is known about autoscalers of nodes, and the shapes of nodes that they could make."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from common.quantity import MAX_INT64
from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room
from recommender.nodes.node_pools import NodePool, UnreadPool, shape_of_pool
from recommender.nodes.node_shapes import NodeShape
from recommender.nodes.shape_flag import ShapeFlag

Boundary = Callable[[str], AbstractContextManager[object]]
"""Returns a context manager that suppresses and reports errors of the NodePool of this name."""

_UNBOUNDED = Room(MAX_INT64, MAX_INT64, MAX_INT64)
_CLUSTER_AUTOSCALER = (
    "A cluster autoscaler reports in the ConfigMap kube-system/cluster-autoscaler-status, and it "
    "may make a larger node"
)
_UNREAD_STATUS = (
    "A cluster autoscaler may make a larger node, because the ConfigMap "
    "kube-system/cluster-autoscaler-status can't be read"
)
_UNREAD_POOLS = (
    "Karpenter may make a larger node, because its NodePools can't be read in version v1"
)
_UNREAD_POOL = "NodePool {name} may make a larger node, because it can't be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscalers:
    """The autoscalers of nodes that are visible; None: that can't be read."""

    reports: bool | None = None  # a cluster autoscaler has written its status
    node_pools: tuple[NodePool | UnreadPool, ...] | None = None


def makeable_shapes(
    known: Autoscalers, flags: Sequence[ShapeFlag], boundary: Boundary
) -> tuple[NodeShape, ...]:
    """Return the shapes of nodes that an autoscaler could make.

    Shapes with ``guess`` stand for larger nodes that aren't known. The flag ``--node-shape`` lists
    all nodes that could be made besides those of NodePools with bounds, so there are no guesses.
    A NodePool that causes an error counts as one that can't be read.
    """
    pools = tuple(_of_pool(each, boundary) for each in known.node_pools or ())
    if flags:
        of_flags = (each.shape for each in flags)
        return (*(each for each in pools if not each.guess), *of_flags)
    guesses = (
        *((_CLUSTER_AUTOSCALER,) if known.reports else ()),
        *((_UNREAD_STATUS,) if known.reports is None else ()),
        *((_UNREAD_POOLS,) if known.node_pools is None else ()),
    )
    return (*pools, *map(_anything, guesses))


def _of_pool(pool: NodePool | UnreadPool, boundary: Boundary) -> NodeShape:
    name = pool.name if isinstance(pool, UnreadPool) else pool.metadata.name
    shape = _anything(_UNREAD_POOL.format(name=name))
    if isinstance(pool, NodePool):
        with boundary(name):
            shape = shape_of_pool(pool)
    return shape


def _anything(guess: str) -> NodeShape:
    return NodeShape(
        traits=NodeTraits(is_open=True),
        room=_UNBOUNDED,
        title=guess,
        about="which an autoscaler could make",
        guess=guess,
    )
