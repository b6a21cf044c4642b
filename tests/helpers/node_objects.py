"""Nodes, NodePools and DaemonSets for tests of caps by nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from common.api.scheduling import SchedulablePodSpec
from common.api.workloads import DaemonSet
from common.scheduling.eligibility import SchedulingRules, rules_of
from recommender.nodes.cached_node import CachedNode
from recommender.nodes.node_pools import NodePool

MIB = 1 << 20
GIB = 1 << 30


def node(
    name: str = "n1",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    **status: Any,
) -> CachedNode:
    given = {
        "metadata": {
            "name": name,
            "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}, **status},
    }
    return msgspec.convert(given, CachedNode)


def by_name(*nodes: CachedNode) -> dict[str, CachedNode]:
    return {each.metadata.name: each for each in nodes}


def node_pool(
    *requirements: tuple[str, str, Sequence[str]],
    name: str = "general",
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> NodePool:
    named = [
        {"key": key, "operator": operator, "values": list(values)}
        for key, operator, values in requirements
    ]
    template = {"metadata": {"labels": labels}, "spec": {"requirements": named, "taints": taints}}
    given = {"metadata": {"name": name}, "spec": {"template": template, "limits": limits}}
    return msgspec.convert(given, NodePool)


def daemon_set(
    name: str = "agent", *, cpu: str = "500m", memory: str = "1Gi", **spec: Any
) -> DaemonSet:
    container = {"name": "agent", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    given = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [container], **spec}}},
    }
    return msgspec.convert(given, DaemonSet)


def rules(**spec: Any) -> SchedulingRules:
    return rules_of(msgspec.convert({"containers": [], **spec}, SchedulablePodSpec))
