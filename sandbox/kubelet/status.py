"""The status that a kubelet writes for a pod, as a strategic merge patch of ``pods/status``.

Source: kubernetes-resize.md 3.2 and 10.2; ``generateAPIPodStatus``, k8s.io/kubernetes
pkg/kubelet/kubelet_pods.go.
"""

from datetime import datetime
from typing import Any

from sandbox.kubelet import conditions
from sandbox.kubelet.containers import Container, Kind
from sandbox.kubelet.pod_lifecycle import Phase, PodRun
from sandbox.kubelet.pod_resources import WHOLE_POD
from sandbox.kubelet.wire import resources_json
from sandbox.times import rfc3339

_GENERATIONS_FROM = 34  # the minor from which on statuses carry observedGeneration
_POD_LEVEL_FROM = 36  # and pod-level resources


def status_patch(pod: PodRun, *, host_ip: str, now: datetime) -> dict[str, Any]:
    """The patch that makes the API object say what the kubelet knows.

    It carries the UID, so that it can't hit a later pod of the same name. Conditions that are
    over are removed by directive; all others are merged by type, so what other components
    wrote stays.
    """
    return {"metadata": {"uid": pod.uid}, "status": _status(pod, host_ip, now)}


def _status(pod: PodRun, host_ip: str, now: datetime) -> dict[str, Any]:
    told: dict[str, Any] = {"phase": pod.phase.value, "qosClass": pod.qos}
    if pod.started is not None:
        told["startTime"] = rfc3339(pod.started)
    if pod.simulation.minor >= _GENERATIONS_FROM:
        told["observedGeneration"] = pod.generation
    if pod.refusal is not None:
        told["reason"] = pod.refusal.reason
        told["message"] = f"Pod was rejected: {pod.refusal.message}"
        told["conditions"] = [_condition(pod, "PodScheduled", now, "")]
        return told
    told["conditions"] = [*_readiness(pod, now), *_resize_conditions(pod)]
    told["hostIP"] = host_ip
    told["hostIPs"] = [{"ip": host_ip}]
    if pod.ip:
        told["podIP"] = pod.ip
        told["podIPs"] = [{"ip": pod.ip}]
    for kinds, name in (
        ((Kind.INIT, Kind.SIDECAR), "initContainerStatuses"),
        ((Kind.MAIN,), "containerStatuses"),
    ):
        statuses = [
            _container(pod, one, now) for one in pod.containers.values() if one.kind in kinds
        ]
        if statuses:
            told[name] = statuses
    if WHOLE_POD in pod.allocated and pod.simulation.minor >= _POD_LEVEL_FROM:
        granted = pod.allocated[WHOLE_POD]
        told["resources"] = resources_json(pod.actuated.get(WHOLE_POD, granted))
        told["allocatedResources"] = dict(granted.requests or {})
    return told


def _container(pod: PodRun, container: Container, now: datetime) -> dict[str, Any]:
    spec = container.spec
    image, _, _tag = spec.image.partition(":")
    told: dict[str, Any] = {
        "name": container.name,
        "image": spec.image,
        "imageID": f"{image}@sha256:{'0' * 64}" if container.container_id else "",
        "state": container.state,
        "lastState": {"terminated": container.last.json} if container.last else {},
        "restartCount": container.restarts,
        "ready": container.is_ready(now),
        "started": container.running and container.started_up,
    }
    if container.container_id:
        told["containerID"] = container.container_id
        if pod.faults.report_resources is not False:
            told["resources"] = resources_json(pod.resources_of(container))
            granted = pod.allocated.get(container.name)
            if granted is not None and granted.requests:
                told["allocatedResources"] = dict(granted.requests)
    return told


def _readiness(pod: PodRun, now: datetime) -> list[dict[str, Any]]:
    waiting = [one.name for one in pod.mains if not one.is_ready(now)]
    before = [one for one in pod.containers.values() if one.kind is not Kind.MAIN]
    starting = [one.name for one in before if not (one.ended or one.running)]
    starting += [one.name for one in before if one.kind is Kind.INIT and one.running]
    why, message = "", ""
    if pod.phase is Phase.SUCCEEDED:
        why = "PodCompleted"
    elif waiting or pod.phase is not Phase.RUNNING:
        why = "ContainersNotReady"
        message = f"containers with unready status: [{' '.join(waiting)}]"
    not_initialized = "ContainersNotInitialized" if starting else ""
    incomplete = f"containers with incomplete status: [{' '.join(starting)}]" if starting else ""
    sandboxed = bool(pod.ip) and pod.starts_at is None and not pod.phase.is_terminal
    return [
        _condition(pod, "PodReadyToStartContainers", now, "" if sandboxed else "NotYet", told=""),
        _condition(pod, "Initialized", now, not_initialized, message=incomplete),
        _condition(pod, "Ready", now, why, message=message),
        _condition(pod, "ContainersReady", now, why, message=message),
        _condition(pod, "PodScheduled", now, ""),
    ]


def _condition(
    pod: PodRun,
    name: str,
    now: datetime,
    why_not: str,
    *,
    message: str = "",
    told: str | None = None,
) -> dict[str, Any]:
    """One condition; ``why_not`` is empty where it holds. ``told`` replaces it as the reason.

    Null removes the reason and message of an earlier status.
    """
    status = "False" if why_not else "True"
    before = pod.conditions.get(name)
    since = before[1] if before is not None and before[0] == status else now
    pod.conditions[name] = (status, since)
    condition: dict[str, Any] = {
        "type": name,
        "status": status,
        "reason": (why_not if told is None else told) or None,
        "message": message or None,
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(since),
    }
    if pod.simulation.minor >= _GENERATIONS_FROM:
        condition["observedGeneration"] = pod.generation
    return condition


def _resize_conditions(pod: PodRun) -> list[dict[str, Any]]:
    """What there is, and a directive to remove what there ever was.

    Whether the API object still shows it can't be known: the watch may be behind.
    """
    with_generation = pod.simulation.minor >= _GENERATIONS_FROM
    found = []
    for name, condition in (
        (conditions.PENDING, pod.pending),
        (conditions.IN_PROGRESS, pod.in_progress),
    ):
        if condition is not None:
            found.append(condition.json(with_generation=with_generation))
            pod.resize_told.add(name)
        elif name in pod.resize_told:
            found.append({"type": name, "$patch": "delete"})
    return found
