"""Events as a kubelet writes them."""

from datetime import datetime
from typing import Any

from sandbox.kubelet.pod_lifecycle import Notice, PodRun
from sandbox.times import rfc3339


def event(pod: PodRun, notice: Notice, *, node: str, number: int, now: datetime) -> dict[str, Any]:
    """A core/v1 Event about a pod; ``number`` keeps names apart that arise at the same time."""
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
