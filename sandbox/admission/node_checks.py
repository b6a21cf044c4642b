"""Check of a pod's node before the API server accepts a resize.

From Kubernetes 1.36 on: the capacity check of the plugin PodResizeValidator.

Source: k8s.io/kubernetes plugin/pkg/admission/podresize; kubernetes-resize.md section 2.
"""

from collections.abc import Callable, Mapping
from typing import Any

from common.errors import Cause
from common.resources import parse_quantities
from sandbox.errors import forbidden
from sandbox.objects.pod_resources import pod_requests
from sandbox.objects.resources import PODS

Json = Mapping[str, Any]
FindNode = Callable[[str], Json | None]


def check_node(old: Json, new: Json, find_node: FindNode) -> None:
    """Refuse a resize that exceeds the pod's node.

    A pod without a node and a resize that changes nothing (same generation) pass. Only requests of
    this pod count; the kubelet checks the sum of all pods.

    Raises:
        ApiError: 403; its cause is NodeCapacity.
    """
    name, node_name = new["metadata"]["name"], new["spec"].get("nodeName")
    generations = (old["metadata"].get("generation"), new["metadata"].get("generation"))
    if not node_name or generations[0] == generations[1]:
        return
    node = find_node(node_name)
    if node is None:
        raise forbidden(PODS, name, f'node "{node_name}" not found')
    problem = _capacity_problem(new, node)
    if problem:
        raise forbidden(PODS, name, problem, causes=(Cause(reason="NodeCapacity"),))


def _capacity_problem(pod: Json, node: Json) -> str:
    requests = pod_requests(pod)
    allocatable = parse_quantities((node.get("status") or {}).get("allocatable"))
    problems = []
    if "cpu" in requests and "cpu" in allocatable and requests["cpu"] > allocatable["cpu"]:
        problems.append(
            f"cpu, requested: {requests['cpu'].milli}, allocatable: {allocatable['cpu'].milli}"
        )
    if (
        "memory" in requests
        and "memory" in allocatable
        and requests["memory"] > allocatable["memory"]
    ):
        asked, there = requests["memory"].value, allocatable["memory"].value
        problems.append(f"memory, requested: {asked}, allocatable: {there}")
    if not problems:
        return ""
    return f"node didn't have enough allocatable resources: {'; '.join(problems)}"
