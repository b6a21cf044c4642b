"""kubectl against the sandbox: what the demo's user types.

A test is skipped with one line where kubectl is missing or older than 1.30.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.runtime.clock import SystemClock
from sandbox.apiserver.server import ApiServer, serve
from sandbox.cluster import running_cluster
from sandbox.objects.store import Store
from sandbox.scenario import parse_scenario
from sandbox.version import KubernetesVersion
from sandbox_client import CRDS

OLDEST_MINOR = 30
KUBECTL = shutil.which("kubectl")


def problem() -> str:
    """Why kubectl can't be used; empty when it can."""
    if KUBECTL is None:
        return "kubectl is not on the PATH"
    found = subprocess.run(
        [KUBECTL, "version", "--client", "--output=json"], check=False, capture_output=True
    )
    if found.returncode != 0:
        return "kubectl can't tell its version"
    minor = int(json.loads(found.stdout)["clientVersion"]["minor"].rstrip("+"))
    return "" if minor >= OLDEST_MINOR else f"kubectl 1.{minor} is older than 1.{OLDEST_MINOR}"


PROBLEM = problem()
pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)]


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """Runs kubectl as the administrator of a sandbox."""

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
        """Exit code, and standard output and error together."""
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            *arguments,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await process.communicate(stdin.encode())
        return process.returncode or 0, output.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """The output of a command that must end well."""
        code, output = await self.run(*arguments, stdin=stdin)
        assert code == 0, output
        return output

    async def rows(self, *arguments: str) -> list[list[str]]:
        """The lines of ``kubectl get`` in columns."""
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
QUICK_CLUSTER = """
metrics: {window: 1s}
timing: {start-delay: 100ms}
usage: [{cpu: 30m, memory: 60Mi}]
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


async def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    larger = DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    assert await kubectl("apply", "-f", "-", stdin=larger) == "deployment.apps/web configured\n"
    assert (await kubectl.rows("deploy"))[1][:2] == ["web", "0/3"]


async def test_apply_validates_custom_resources(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", str(CRDS))
    await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=5s")
    await kubectl("apply", "-f", "-", stdin=VPA)
    code, said = await kubectl.run(
        "apply", "-f", "-", stdin=VPA.replace("minReplicas", "minReplica")
    )
    assert code == 1
    assert 'unknown field "spec.updatePolicy.minReplica"' in said
    code, said = await kubectl.run("apply", "-f", "-", stdin=VPA.replace("InPlace", "Sometimes"))
    assert code == 1
    assert 'Unsupported value: "Sometimes"' in said


async def test_get_shows_the_columns_of_a_vpa(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", str(CRDS))
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


async def test_get_watch_shows_changes_as_they_come(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    watching = await asyncio.create_subprocess_exec(
        str(KUBECTL), "get", "pod", "web-1", "-w", env=kubectl.environment, stdout=subprocess.PIPE
    )
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(20):
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


async def test_patch_refuses_resources_and_resizes_beside(kubectl: Kubectl) -> None:
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


async def test_scale_label_and_delete(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("scale", "deploy", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert await kubectl("label", "deploy", "web", "a=b") == "deployment.apps/web labeled\n"
    assert len(await kubectl.rows("deploy", "-l", "a=b")) == 2
    assert (await kubectl.rows("deploy", "--no-headers"))[0][1] == "0/5"
    deleted = await kubectl("delete", "-f", "-", stdin=DEPLOYMENT)
    assert deleted.startswith('deployment.apps "web" deleted')
    assert (await kubectl("get", "deploy")).strip() == "No resources found in default namespace."


async def test_our_own_manifests_apply_and_change_nothing_the_second_time(
    kubectl: Kubectl,
) -> None:
    deploy = CRDS.parent
    for folder in (deploy / "crd", deploy / "rbac"):
        await kubectl("apply", "-f", str(folder))
        again = (await kubectl("apply", "-f", str(folder))).splitlines()
        assert again
        assert all(line.endswith(" unchanged") for line in again), again


async def test_every_resource_is_known_to_kubectl(kubectl: Kubectl) -> None:
    listed = (await kubectl("api-resources", "--no-headers", "-o", "name")).split()
    served = {
        resource.group_resource for resource in kubectl.server.registry if not resource.stored_as
    }
    assert served <= set(listed)
    assert (await kubectl.rows("ns", "--no-headers"))[0][:2] == ["default", "Active"]


async def test_top_shows_what_a_whole_cluster_uses(tmp_path: Path) -> None:
    async with running_cluster(parse_scenario(QUICK_CLUSTER)) as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig)
        kubectl = Kubectl(folder=tmp_path, server=cluster.api)
        await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
        await kubectl("rollout", "status", "deploy/web", "--timeout=20s")
        used: list[list[str]] = []
        # The first window in which a pod ran shows a part of its usage, or none.
        async with asyncio.timeout(30):
            while used != [["30m", "60Mi"]] * 2:
                code, said = await kubectl.run("top", "pods", "--no-headers")
                used = [] if code else [line.split()[1:] for line in said.splitlines()]
        assert "node" in await kubectl("top", "nodes")


async def test_dry_runs_and_diffs_tell_what_would_change(kubectl: Kubectl) -> None:
    dry = ("apply", "--dry-run=server", "-f", "-")
    assert await kubectl(*dry, stdin=DEPLOYMENT) == "deployment.apps/web created (server dry run)\n"
    code, said = await kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT)
    assert (code, "+  progressDeadlineSeconds: 600\n" in said) == (1, True)
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT) == (0, "")
    newer = DEPLOYMENT.replace("web:1", "web:2")
    code, said = await kubectl.run("diff", "-f", "-", stdin=newer)
    changed = [line for line in said.splitlines() if line[:2] in ("+ ", "- ")]
    assert [line.split() for line in changed] == [
        ["-", "generation:", "1"],
        ["+", "generation:", "2"],
        ["-", "-", "image:", "registry.example/web:1"],
        ["+", "-", "image:", "registry.example/web:2"],
    ]
    assert "configured (server dry run)" in await kubectl(*dry, stdin=newer)


async def test_apply_refuses_misspelled_fields_of_built_in_kinds(kubectl: Kubectl) -> None:
    misspelled = DEPLOYMENT.replace("image:", "imag: x, image:")
    problem = 'unknown field "spec.template.spec.containers[0].imag"'
    code, said = await kubectl.run("apply", "-f", "-", stdin=misspelled)
    assert code == 1
    assert f"strict decoding error: {problem}" in said
    said = await kubectl("apply", "--validate=warn", "-f", "-", stdin=misspelled)
    assert said == f"Warning: {problem}\ndeployment.apps/web created\n"


async def test_server_side_apply_is_told_to_be_missing(kubectl: Kubectl) -> None:
    code, said = await kubectl.run("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT)
    assert code == 1
    assert said.startswith("error: Server-side apply not available on the server: ")


async def test_rollouts_are_followed_restarted_and_undone(tmp_path: Path) -> None:
    async with running_cluster(parse_scenario(QUICK_CLUSTER)) as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig)
        kubectl = Kubectl(folder=tmp_path, server=cluster.api)
        await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
        follow = ("rollout", "status", "deploy/web", "--timeout=20s")
        done = 'deployment "web" successfully rolled out'
        assert (await kubectl(*follow)).splitlines()[-1] == done
        assert (
            await kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
        )
        assert (await kubectl(*follow)).splitlines()[-1] == done
        history = (await kubectl("rollout", "history", "deploy/web")).split()
        assert history[-4:] == ["1", "<none>", "2", "<none>"]
        assert await kubectl("rollout", "undo", "deploy/web") == (
            "deployment.apps/web rolled back\n"
        )
        history = (await kubectl("rollout", "history", "deploy/web")).split()
        assert history[-4:] == ["2", "<none>", "3", "<none>"]
