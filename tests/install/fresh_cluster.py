"""A cluster with nothing of ours in it, and the commands that an operator types."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from common.version import version
from controlplane.cluster import running_control_plane
from deploy.images import image_names
from e2e import control_plane as e2e
from e2e.cluster import Case, Cluster, case_in_namespace
from e2e.installation import COMPONENTS, Installation
from e2e.kubectl import Kubectl
from e2e.shell import run_script
from install.pod_network import pod_network
from page_commands import blocks
from sandbox.scenario import parse_scenario

ROOT = Path(__file__).parents[2]
REGISTRY = "your.registry/your-team"  # as in the README
FIRST, NEXT = version(), "0.99.0"  # tags of images that were pushed
MISSING = "0.100.0"  # a tag that was not
WORKLOAD = "registry.example/app"  # the image of :meth:`Case.deploy`
SHOP = "shop"

_POD_PROCESS = Path(__file__).with_name("pod_process.py")
_DEPRECATED = ("endpoints", "componentstatuses")
_USAGE = "metrics.k8s.io"
_WARNING = re.compile(r"^\W*warning", re.IGNORECASE | re.MULTILINE)
_SCENARIO = """
nodes: [{count: 3, cpu: 16, memory: 64Gi}]
metrics: {window: 1s}
"""


def documented(page: str, command: str) -> str:
    """Return a command; fail unless the page shows it."""
    lines = [line for block in blocks(page) for line in block.text.splitlines()]
    shown = command in lines or f"$ {command}" in lines
    assert shown, f"{page} doesn't show this command: {command}"
    return command


@dataclass(frozen=True, slots=True)
class FreshCluster:
    """A strict cluster, and a folder with a copy of ``deploy`` in which commands run."""

    cluster: Cluster
    folder: Path
    system: str  # the namespace of the components

    async def run(self, command: str, *, seconds: float = 130) -> str:
        """Return what a command prints; fail with it if the command fails or warns."""
        code, printed = await self.attempt(command, seconds=seconds)
        assert code == 0, f"{command}\n{printed}"
        assert not _WARNING.search(printed), f"{command}\n{printed}"
        return printed

    async def attempt(self, command: str, *, seconds: float = 130) -> tuple[int, str]:
        """Return the exit code of a command and what it prints."""
        kubeconfig = self.cluster.kubectl.kubeconfig
        return await run_script(command, kubeconfig=kubeconfig, folder=self.folder, seconds=seconds)

    async def wait_for_rollouts(self) -> None:
        """Wait for the Deployments as the pages do."""
        for name in COMPONENTS:
            command = f"kubectl -n kube-system rollout status deployment/{name}"
            documented("docs/install.md", command)
            await self.run(command.replace("kube-system", self.system))

    async def images(self) -> set[str]:
        """Return the images of all pods of the components."""
        pods = f"kubectl -n {self.system} get pods --selector='app in ({','.join(COMPONENTS)})'"
        output = "jsonpath='{.items[*].spec.containers[*].image}'"
        return set((await self.run(f"{pods} --output={output}")).split())

    async def objects(self) -> set[str]:
        """Return all objects as ``Kind namespace/name``, but for Events and usage."""
        printed = await self.run("kubectl api-resources --verbs=list --output=name")
        wanted = [
            name
            for name in printed.split()
            if not name.startswith("events") and name not in _DEPRECATED and _USAGE not in name
        ]
        each = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}"
        command = f'get {",".join(wanted)} --all-namespaces --output=jsonpath="{each}"'
        return set((await self.run(f"kubectl {command}")).splitlines())


@asynccontextmanager
async def fresh_cluster(
    folder: Path, *, system: str = "kube-system"
) -> AsyncIterator[FreshCluster]:
    """Run a strict cluster whose API server enforces Pod Security ``restricted`` in ``system``."""
    names = (name for tag in (FIRST, NEXT) for name in image_names(REGISTRY, tag))
    async with (
        running_control_plane(
            parse_scenario(_SCENARIO),
            folder=folder / "cluster",
            images=_images(),
            pullable={*names, WORKLOAD},
            pod_network=pod_network(),
        ) as control_plane,
        control_plane.client("install") as client,
    ):
        shutil.copytree(ROOT / "deploy", folder / "operator" / "deploy", symlinks=True)
        kubectl = Kubectl(control_plane.files.kubeconfig("admin"))
        cluster = Cluster(control_plane, client, kubectl, Installation(kubectl))
        fresh = FreshCluster(cluster, folder / "operator", system)
        levels = " ".join(
            f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")
        )
        try:
            if system != "kube-system":
                await fresh.run(f"kubectl create namespace {system}")
            await fresh.run(f"kubectl label namespace {system} {levels}")
            yield fresh
        except BaseException:
            print(await _description(fresh))  # noqa: T201 - shown when a test fails
            raise


@asynccontextmanager
async def workload(fresh: FreshCluster) -> AsyncIterator[Case]:
    """Run a workload, in a namespace of its own, that requests less than it uses."""
    async with case_in_namespace(fresh.cluster, SHOP) as case:
        await case.deploy("web", requests={"cpu": "20m", "memory": "64Mi"})
        await case.wait_until_measured("web")
        yield case


def _images() -> dict[str, tuple[str, ...]]:
    """Return the programs of our images, each of which runs in a pod's network."""
    return {
        name.replace(e2e.REGISTRY, REGISTRY): ("{python}", "-P", str(_POD_PROCESS), "{ip}", *flags)
        for name, (_, _, _, *flags) in e2e.IMAGES.items()
    }


async def _description(fresh: FreshCluster) -> str:
    selector = f"--selector='app in ({','.join(COMPONENTS)})'"
    commands = (
        f"kubectl -n {SHOP} get vpa,pods -o yaml",
        f"kubectl -n {fresh.system} get pods,events",
        f"kubectl -n {fresh.system} logs {selector} --tail=60 --prefix",
        "kubectl get mutatingwebhookconfigurations -o yaml",
    )
    answers = [(command, await fresh.attempt(command, seconds=20)) for command in commands]
    return "\n".join(f"--- {command}\n{printed}" for command, (_, printed) in answers)
