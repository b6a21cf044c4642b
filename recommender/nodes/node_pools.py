"""Karpenter's NodePools, and the largest node that each of them could make.

Source: karpenter.sh/docs, "NodePools" and "Well-Known Labels"; cloud.google.com/kubernetes-engine,
"Plan GKE Standard node sizes"; Karpenter's setting ``vmMemoryOverheadPercent``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from common.api.base import QuantityJson, Wire
from common.api.meta import ObjectMeta
from common.api.scheduling import NodeSelectorRequirement, Taint
from common.quantity import MAX_INT64, QuantityError
from common.resources import CPU, MEMORY, parse_quantities
from common.scheduling.eligibility import NodeOperator, NodeTraits
from common.scheduling.pod_claims import number
from common.scheduling.room import Room
from recommender.nodes.node_shapes import NodeShape

NODE_POOL_LABEL = "karpenter.sh/nodepool"

_MIB = 1 << 20
_GIB = 1 << 30
_SIZE_KEYS = {
    CPU: re.compile(r".+/(instance|sku)-cpu"),  # cores
    MEMORY: re.compile(r".+/(instance|sku)-memory"),  # MiB
}
_OPEN_DOMAINS = (
    *("kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "eks.amazonaws.com"),
    *("azure.com", "cloud.google.com", "gke.io"),
)
"""Domains of labels that Karpenter or the kubelet sets, so that a NodePool need not name them."""
_VM_OVERHEAD = 750  # of the memory, which instances keep for themselves
_EVICTION_THRESHOLD = 100 * _MIB
_WHOLE = 10_000  # the parts below are of so many; integers, because amounts may be very large
_RESERVED_MEMORY = ((4 * _GIB, 2500), (4 * _GIB, 2000), (8 * _GIB, 1000), (112 * _GIB, 600))
_RESERVED_MEMORY_BEYOND = 200
_RESERVED_CPU = ((1000, 600), (1000, 100), (2000, 50))
_RESERVED_CPU_BEYOND = 25

_Steps: TypeAlias = Iterable[tuple[int, int]]


class PoolTemplateMeta(Wire, frozen=True, kw_only=True):
    """``spec.template.metadata`` of a NodePool."""

    labels: Mapping[str, str] | None = None


class PoolTemplateSpec(Wire, frozen=True, kw_only=True):
    """``spec.template.spec`` of a NodePool."""

    requirements: tuple[NodeSelectorRequirement, ...] | None = None
    taints: tuple[Taint, ...] | None = None


class PoolTemplate(Wire, frozen=True, kw_only=True):
    """``spec.template`` of a NodePool."""

    metadata: PoolTemplateMeta = PoolTemplateMeta()
    spec: PoolTemplateSpec = PoolTemplateSpec()


class NodePoolSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a NodePool; ``limits`` bound all its nodes together."""

    template: PoolTemplate = PoolTemplate()
    limits: Mapping[str, QuantityJson] | None = None


class NodePool(Wire, frozen=True, kw_only=True):
    """A ``karpenter.sh/v1`` NodePool."""

    metadata: ObjectMeta
    spec: NodePoolSpec = NodePoolSpec()


@dataclass(frozen=True, slots=True)
class UnreadPool:
    """A NodePool that can't be decoded."""

    name: str


def shape_of_pool(pool: NodePool) -> NodeShape:
    """Return the shape of the largest node that a NodePool could make.

    CPU and memory are bounded by the requirements on the provider's labels of size, and by the
    limits of the pool. Of a size that only limits bound, or nothing, larger nodes are a guess.
    """
    name, requirements = pool.metadata.name, pool.spec.template.spec.requirements or ()
    sizes = {resource: _most(requirements, key) for resource, key in _SIZE_KEYS.items()}
    unknown = [resource for resource, size in sizes.items() if size is None]
    cpu, memory = sizes[CPU], sizes[MEMORY]
    try:
        limits = parse_quantities(pool.spec.limits)
    except QuantityError:
        limits = {}
    room = Room(
        cpu=MAX_INT64 if cpu is None else min(cpu * 1000, MAX_INT64),
        memory=MAX_INT64 if memory is None else min(_left_by_vm(memory * _MIB), MAX_INT64),
        pods=MAX_INT64,
    )
    if CPU in limits:
        room = Room(min(room.cpu, number(CPU, limits[CPU])), room.memory, room.pods)
    if MEMORY in limits:
        room = Room(room.cpu, min(room.memory, number(MEMORY, limits[MEMORY])), room.pods)
    guess = f"NodePool {name} does not bound the {' and the '.join(unknown)} of its nodes"
    return NodeShape(
        traits=_traits(pool),
        room=allocatable(room),
        title=f"NodePool {name}",
        about=f"which NodePool {name} could make",
        guess=guess if unknown else "",
    )


def allocatable(capacity: Room) -> Room:
    """Return what a node of this capacity leaves to pods, after what its kubelet reserves.

    Source: cloud.google.com/kubernetes-engine, "Plan GKE Standard node sizes". Other providers
    reserve about as much or less.
    """
    memory, cpu = capacity.memory, capacity.cpu
    if memory < MAX_INT64:
        memory -= _reserved(memory, _RESERVED_MEMORY, _RESERVED_MEMORY_BEYOND) + _EVICTION_THRESHOLD
    if cpu < MAX_INT64:
        cpu -= _reserved(cpu, _RESERVED_CPU, _RESERVED_CPU_BEYOND)
    return Room(max(0, cpu), max(0, memory), capacity.pods)


def _reserved(amount: int, steps: _Steps, beyond: int) -> int:
    reserved = 0
    for size, part in steps:
        reserved += min(amount, size) * part
        amount -= min(amount, size)
    return (reserved + amount * beyond) // _WHOLE


def _left_by_vm(memory: int) -> int:
    return memory * (_WHOLE - _VM_OVERHEAD) // _WHOLE


def _most(requirements: Iterable[NodeSelectorRequirement], key: re.Pattern[str]) -> int | None:
    """Return the upper bound of a number in a label; None: there is none."""
    bounds = (_bound(each) for each in requirements if key.fullmatch(each.key))
    return min((each for each in bounds if each is not None), default=None)


def _bound(requirement: NodeSelectorRequirement) -> int | None:
    try:
        values = [int(each) for each in requirement.values or ()]
    except ValueError:
        return None
    if not values:
        return None
    match requirement.operator:
        case NodeOperator.IN:
            return max(values)
        case NodeOperator.LESS:
            return values[0] - 1
        case NodeOperator.AT_MOST:
            return values[0]
    return None


def _traits(pool: NodePool) -> NodeTraits:
    """Return labels and taints: single values are labels, several are choices."""
    template = pool.spec.template
    labels = {**(template.metadata.labels or {}), NODE_POOL_LABEL: pool.metadata.name}
    choices: dict[str, tuple[Any, ...]] = {}
    open_keys = set[str]()
    for each in template.spec.requirements or ():
        values = each.values or ()
        match each.operator:
            case NodeOperator.IN if len(values) == 1:
                labels[each.key] = values[0]
            case NodeOperator.IN:
                choices[each.key] = values
            case NodeOperator.DOES_NOT_EXIST:
                choices[each.key] = (None,)
            case _:
                open_keys.add(each.key)
    return NodeTraits(
        labels=labels,
        taints=template.spec.taints or (),
        choices=choices,
        open_keys=frozenset(open_keys),
        open_domains=_OPEN_DOMAINS,
    ).without_transient_taints()
