"""Pods for processes on loopback, which clients find like those of an installation."""

from collections.abc import Sequence

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import PODS
from component import LOOPBACK

SYSTEM = "kube-system"


async def add_component_pod(
    client: KubeClient, component: str, port: int, *flags: str, name: str = ""
) -> None:
    """Create a ready pod whose address is that of a process with this ops port.

    ``component`` is the value of the label ``app``. No kubelet handles the pod.
    """
    name = name or f"{component}-1"
    pods = PODS.as_dicts()
    arguments: Sequence[str] = [f"--address=:{port}", *flags]
    container = {"name": component, "image": "registry.example/vpa", "args": arguments}
    pod = {
        "metadata": {"name": name, "labels": {"app": component}},
        "spec": {"schedulerName": "none", "containers": [container]},
    }
    await client.create(pods, pod, namespace=SYSTEM)
    ready = {"type": "Ready", "status": "True"}
    await client.patch(
        pods,
        name,
        {"status": {"phase": "Running", "podIP": LOOPBACK, "conditions": [ready]}},
        patch_type=PatchType.MERGE,
        namespace=SYSTEM,
        subresource="status",
    )
