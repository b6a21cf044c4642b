"""kubectl with the sandbox: the commands of the demo.

Tests are skipped if kubectl is missing or older than 1.30.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.runtime.clock import SystemClock
from fake_api import TIMEOUT
from kubectl_program import KUBECTL, needs_kubectl
from sandbox.apiserver.server import ApiServer, serve
from sandbox.objects.store import Store
from sandbox.version import KubernetesVersion
from sandbox_client import CRDS

pytestmark = needs_kubectl()


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """kubectl as the administrator of a sandbox."""

    folder: Path
    server: ApiServer

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "HOME": str(self.folder),  # its cache
            "PATH": os.environ["PATH"],
        }

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Return the exit code, and standard output and error together."""
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await process.communicate(stdin.encode())
        return process.returncode or 0, output.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Return the output of a successful command."""
        code, output = await self.run(*arguments, stdin=stdin)
        assert code == 0, output
        return output

    async def rows(self, *arguments: str) -> list[list[str]]:
        """Return the rows of ``kubectl get``, split into columns."""
        lines = (await self("get", *arguments)).splitlines()
        return [line.split() for line in lines]


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    api = ApiServer(Store(), KubernetesVersion(), SystemClock())
    async with serve(api) as serving:
        (tmp_path / "kubeconfig").write_text(serving.kubeconfig)
        yield Kubectl(folder=tmp_path, server=api)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: app, image: "registry.example/web:1", resources: {requests: {cpu: 100m}}}
"""
VPA = """
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  updatePolicy: {updateMode: InPlace, minReplicas: 1}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 0
  containers:
    - {name: app, image: "registry.example/web:1", resources: {requests: {cpu: 100m}}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/os: linux}}
status: {capacity: {cpu: 4, memory: 8Gi}}
"""
STATUS = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "app",
                "ready": True,
                "restartCount": 0,
                "image": "registry.example/web:1",
                "imageID": "",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "resources": {"requests": {"cpu": "100m"}},
            }
        ],
    }
}


async def test_apply_creates_changes_and_keeps(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    larger = DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    assert await kubectl("apply", "-f", "-", stdin=larger) == "deployment.apps/web configured\n"
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "3"


async def test_get_shows_the_columns_of_a_vpa(kubectl: Kubectl) -> None:
    await kubectl("apply", "-k", str(CRDS))
    await kubectl("apply", "-f", "-", stdin=VPA)
    status: dict[str, Any] = {
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "recommendation": {
            "containerRecommendations": [
                {"containerName": "app", "target": {"cpu": "25m", "memory": "262144k"}}
            ]
        },
    }
    patch = json.dumps({"status": status})
    await kubectl("patch", "vpa", "web", "--subresource=status", "--type=merge", "-p", patch)
    header, row = await kubectl.rows("vpa")
    assert header == ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE"]
    assert row[:5] == ["web", "InPlace", "25m", "262144k", "True"]
    wide, _ = await kubectl.rows("vpa", "-o", "wide")
    assert wide[-2:] == ["MINREPLICAS", "OOMSECONDS"]


async def test_get_watch_shows_changes(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    watching = await asyncio.create_subprocess_exec(
        KUBECTL, "get", "pod", "web-1", "-w", env=kubectl.environment, stdout=subprocess.PIPE
    )
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(TIMEOUT):
            assert (await watching.stdout.readline()).split()[0] == b"NAME"
            assert (await watching.stdout.readline()).split()[:3] == [b"web-1", b"0/1", b"Pending"]
            await kubectl("patch", "pod", "web-1", "--subresource=status", "-p", json.dumps(STATUS))
            assert (await watching.stdout.readline()).split()[:3] == [b"web-1", b"1/1", b"Running"]
    finally:
        watching.terminate()
        await watching.wait()


async def test_wait_sees_a_condition_and_a_deletion(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    ready = asyncio.create_task(
        kubectl("wait", "--for=condition=Ready", "pod/web-1", "--timeout=20s")
    )
    await kubectl("patch", "pod", "web-1", "--subresource=status", "-p", json.dumps(STATUS))
    assert await ready == "pod/web-1 condition met\n"
    gone = asyncio.create_task(kubectl("wait", "--for=delete", "pod/web-1", "--timeout=20s"))
    # Newer versions of kubectl add the namespace.
    assert (await kubectl("delete", "pod", "web-1")).startswith('pod "web-1" deleted')
    await gone


async def test_describe_shows_the_events_of_an_object(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    uid = await kubectl("get", "pod", "web-1", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web-1.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web-1",
            "namespace": "default",
            "uid": uid,
        },
        "reason": "EvictedByVPA",
        "message": "Pod was evicted by VPA Updater to apply resource recommendation.",
        "type": "Normal",
        "source": {"component": "vpa-updater"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    await kubectl("create", "-f", "-", stdin=json.dumps(event))
    described = await kubectl("describe", "pod", "web-1")
    assert "QoS Class:        Burstable" in described
    assert "EvictedByVPA" in described
    assert "EvictedByVPA" in await kubectl("events")
    rows = await kubectl.rows("events")
    assert rows[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert rows[1][1:4] == ["Normal", "EvictedByVPA", "pod/web-1"]


async def test_patch_refuses_resources_and_allows_resizes(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    await kubectl("patch", "pod", "web-1", "--subresource=status", "-p", json.dumps(STATUS))
    containers = [{"name": "app", "resources": {"requests": {"cpu": "200m"}}}]
    patch = json.dumps({"spec": {"containers": containers}})
    code, said = await kubectl.run("patch", "pod", "web-1", "-p", patch)
    assert code == 1
    assert "pod updates may not change fields other than" in said
    await kubectl("create", "-f", "-", stdin=NODE)
    resized = await kubectl("patch", "pod", "web-1", "--subresource=resize", "-p", patch)
    assert resized == "pod/web-1 patched\n"
    path = "jsonpath={.spec.containers[0].resources.requests.cpu}"
    assert await kubectl("get", "pod", "web-1", "-o", path) == "200m"
