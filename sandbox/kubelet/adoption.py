"""A kubelet takes over a pod that an earlier one ran: by what that one wrote into its status."""

from datetime import datetime

from common.api.core import ResourceRequirements
from sandbox.kubelet.conditions import IN_PROGRESS, PENDING, adopted
from sandbox.kubelet.containers import Kind
from sandbox.kubelet.pod_lifecycle import Phase, PodRun
from sandbox.kubelet.pod_resources import WHOLE_POD, qos_class


def adopt(pod: PodRun, now: datetime) -> bool:
    """Go on where an earlier kubelet left off; False if it hadn't begun."""
    status = pod.object.status
    if status.phase not in (Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED):
        return False
    pod.phase = Phase(status.phase)
    pod.started = status.start_time or now
    pod.ip = status.pod_ip
    pod.qos = qos_class(pod.object.spec)
    _take_containers(pod, now)
    for condition in status.conditions or ():
        since = condition.last_transition_time or now
        pod.conditions[condition.type] = (condition.status, since)
        if condition.type in (PENDING, IN_PROGRESS):
            pod.resize_told.add(condition.type)
        if condition.type == PENDING:
            pod.pending = adopted(condition, now)
        if condition.type == IN_PROGRESS:
            pod.in_progress = adopted(condition, now)
            pod.actuate_at = now
    return True


def _take_containers(pod: PodRun, now: datetime) -> None:
    """Their runs, and what was granted to them; who waited for another run gets it now."""
    status = pod.object.status
    allocated = {name: one.spec.wanted for name, one in pod.containers.items()}
    for told in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        container = pod.containers.get(told.name)
        if container is None:
            continue
        container.adopt(told)
        actual = told.resources or container.spec.wanted
        pod.actuated[told.name] = actual
        requests = told.allocated_resources or actual.requests
        allocated[told.name] = ResourceRequirements(requests=requests, limits=actual.limits)
        if container.running or pod.phase is not Phase.RUNNING or container.kind is Kind.INIT:
            continue
        if container.ended is None or pod.runs_again(container, container.ended.exit_code):
            container.restart_at = now
    block = pod.object.spec.resources
    if block is not None:
        actual = status.resources or block
        pod.actuated[WHOLE_POD] = actual
        requests = status.allocated_resources or actual.requests
        allocated[WHOLE_POD] = ResourceRequirements(requests=requests, limits=actual.limits)
    pod.allocate(allocated)
