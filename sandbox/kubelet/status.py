"""The status and the Events that a kubelet writes for a pod.

The status is a strategic merge patch of ``pods/status``. Source: kubernetes-resize.md 3.2 and 10.2;
``generateAPIPodStatus``, k8s.io/kubernetes pkg/kubelet/kubelet_pods.go.
"""

from datetime import datetime
from typing import Any

from sandbox.kubelet import conditions
from sandbox.kubelet.containers import Container, Kind
from sandbox.kubelet.pod_lifecycle import Notice, Phase, PodRun
from sandbox.kubelet.pod_resources import WHOLE_POD
from sandbox.kubelet.wire import resources_json
from sandbox.times import rfc3339

_GENERATIONS_FROM = 34  # the first minor with observedGeneration in statuses
_POD_LEVEL_FROM = 36  # the first minor with pod-level resources in statuses


def status_patch(pod: PodRun, *, host_ip: str, now: datetime) -> dict[str, Any]:
    """Return the patch of the API object's status.

    It has the UID, so that it can't change a later pod of the same name. Resize conditions that
    ended are removed by directive. Others are merged by type, so those of other components stay.
    """
    return {"metadata": {"uid": pod.uid}, "status": _status(pod, host_ip, now)}


def _status(pod: PodRun, host_ip: str, now: datetime) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": pod.phase.value, "qosClass": pod.qos}
    if pod.started is not None:
        status["startTime"] = rfc3339(pod.started)
    if pod.simulation.minor >= _GENERATIONS_FROM:
        status["observedGeneration"] = pod.generation
    if pod.refusal is not None:
        status["reason"] = pod.refusal.reason
        status["message"] = f"Pod was rejected: {pod.refusal.message}"
        status["conditions"] = [_condition(pod, "PodScheduled", now, "")]
        return status
    status["conditions"] = [*_readiness(pod, now), *_resize_conditions(pod)]
    status["hostIP"] = host_ip
    status["hostIPs"] = [{"ip": host_ip}]
    if pod.ip:
        status["podIP"] = pod.ip
        status["podIPs"] = [{"ip": pod.ip}]
    for kinds, name in (
        ((Kind.INIT, Kind.SIDECAR), "initContainerStatuses"),
        ((Kind.MAIN,), "containerStatuses"),
    ):
        statuses = [
            _container(pod, one, now) for one in pod.containers.values() if one.kind in kinds
        ]
        if statuses:
            status[name] = statuses
    if WHOLE_POD in pod.allocated and pod.simulation.minor >= _POD_LEVEL_FROM:
        granted = pod.allocated[WHOLE_POD]
        status["resources"] = resources_json(pod.actuated.get(WHOLE_POD, granted))
        status["allocatedResources"] = dict(granted.requests or {})
    return status


def _container(pod: PodRun, container: Container, now: datetime) -> dict[str, Any]:
    spec = container.spec
    image, _, _tag = spec.image.partition(":")
    status: dict[str, Any] = {
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
        status["containerID"] = container.container_id
        status["resources"] = resources_json(pod.resources_of(container))
        granted = pod.allocated.get(container.name)
        if granted is not None and granted.requests:
            status["allocatedResources"] = dict(granted.requests)
    return status


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
        _condition(pod, "PodReadyToStartContainers", now, "" if sandboxed else "NotYet", reason=""),
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
    reason: str | None = None,
) -> dict[str, Any]:
    """Return one condition. ``why_not`` is empty if it holds; ``reason`` replaces it as the reason.

    Null removes the reason and message of an earlier status.
    """
    status = "False" if why_not else "True"
    before = pod.conditions.get(name)
    since = before[1] if before is not None and before[0] == status else now
    pod.conditions[name] = (status, since)
    condition: dict[str, Any] = {
        "type": name,
        "status": status,
        "reason": (why_not if reason is None else reason) or None,
        "message": message or None,
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(since),
    }
    if pod.simulation.minor >= _GENERATIONS_FROM:
        condition["observedGeneration"] = pod.generation
    return condition


def _resize_conditions(pod: PodRun) -> list[dict[str, Any]]:
    """Return the present resize conditions, and a directive to remove those that ended.

    The directive is repeated, because the watch may be behind.
    """
    with_generation = pod.simulation.minor >= _GENERATIONS_FROM
    found = []
    for name, condition in (
        (conditions.PENDING, pod.pending),
        (conditions.IN_PROGRESS, pod.in_progress),
    ):
        if condition is not None:
            found.append(condition.json(with_generation=with_generation))
            pod.written_resizes.add(name)
        elif name in pod.written_resizes:
            found.append({"type": name, "$patch": "delete"})
    return found


def event(pod: PodRun, notice: Notice, *, node: str, number: int, now: datetime) -> dict[str, Any]:
    """Return a core/v1 Event about a pod; ``number`` makes names of one moment unique."""
    meta = pod.object.metadata
    involved: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    if notice.container:
        init = any(one.name == notice.container for one in pod.object.spec.init_containers or ())
        place = "initContainers" if init else "containers"
        involved["fieldPath"] = f"spec.{place}{{{notice.container}}}"
    suffix = f"{int(now.timestamp() * 1_000_000) * 1000 + number % 1000:x}"
    return {
        "metadata": {"name": f"{meta.name}.{suffix}", "namespace": meta.namespace},
        "involvedObject": involved,
        "reason": notice.reason,
        "message": notice.message,
        "type": "Warning" if notice.warning else "Normal",
        "count": 1,
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet",
        "reportingInstance": node,
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
    }
