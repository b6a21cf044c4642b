"""The commands and manifests of the pages for application owners, in a sandbox.

The three components run in it as processes. Skipped if kubectl, curl or jq is missing.
"""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from certificates import new_bundle
from certs.certificate_stores import Directory
from common.kube.client import KubeClient
from common.runtime.clock import SystemClock
from component import LOOPBACK, webhook_flags
from demo.processes import Processes, free_port
from e2e.kubectl import Kubectl
from histogram_picture import history
from kubectl_program import needs_kubectl
from page_commands import SANDBOX, commands, manifests
from page_runner import WITHIN, run, run_commands, write_manifests
from recommender.checkpoints import codec
from recommender.model.keys import VpaKey
from sandbox.cluster import running_cluster
from sandbox.scenario import parse_scenario
from sandbox_client import CRDS
from three_components import registered

pytestmark = [
    *needs_kubectl(),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("bash", "curl", "jq")),
        reason="the commands on the pages need bash, curl and jq",
    ),
    pytest.mark.timeout(300),  # real time, with three processes
]

# The default is the name of the page. This page names its namespace in a path.
NAMESPACES = {"docs/how-a-number-is-made.md": "shop"}
REFUSED = ("invalid.yaml",)  # manifests that show a message
KINDS = ("Deployment", "LimitRange", "VerticalPodAutoscaler")  # that the sandbox serves
SCENARIO = """
kubernetes-version: "1.36"
nodes: [{name: node, count: 3, cpu: 4, memory: 8Gi}]
timing: {start-delay: 500ms, stop-delay: 500ms, resize-delay: 500ms}
metrics: {window: 5s}
usage:
  # In the buckets of the history's percentiles, so that new samples change nothing.
  - {match: {namespace: shop}, cpu: 300m, memory: 380Mi}
"""
GATES = "CPUStartupBoost=true"
# The defaults, and the flags of deploy/, with shorter intervals.
FLAGS = {
    "recommender": ("--debug-endpoints", "--recommender-interval=3s"),
    "updater": (
        "--debug-endpoints",
        "--updater-interval=3s",
        "--in-place-skip-disruption-budget=true",
        f"--feature-gates={GATES}",
    ),
    "admission": ("--status-lease-update-interval=2s", f"--feature-gates={GATES}"),
}


def namespace_of(page: str) -> str:
    return NAMESPACES.get(page, Path(page).stem)


@asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[dict[str, str]]:
    """Run a cluster with the components, and yield the variables of the pages' commands."""
    await Directory(folder).save(new_bundle())
    scenario = parse_scenario(SCENARIO + f"namespaces: [{', '.join(map(namespace_of, SANDBOX))}]\n")
    kubeconfig, port, processes = folder / "kubeconfig", free_port(), Processes(folder)
    async with running_cluster(scenario) as cluster, cluster.client("test/1") as client:
        kubeconfig.write_text(cluster.kubeconfig)
        kubectl = Kubectl(kubeconfig)
        await kubectl("apply", "-k", str(CRDS))
        await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        await put_history(kubectl, folder)
        ops = {name: free_port() for name in FLAGS}
        flags = FLAGS | {"admission": (*FLAGS["admission"], *webhook_flags(folder, port))}
        try:
            for name, own in flags.items():
                common = (f"--kubeconfig={kubeconfig}", f"--address={LOOPBACK}:{ops[name]}")
                await processes.start(name, [name, *common, *own])
            await started(client, processes)
            yield {
                "RECOMMENDER": f"http://{LOOPBACK}:{ops['recommender']}",
                "UPDATER": f"http://{LOOPBACK}:{ops['updater']}",
            }
            processes.check()
        finally:
            await processes.stop()


async def started(client: KubeClient, processes: Processes) -> None:
    async with asyncio.timeout(WITHIN):
        await registered(client)
    processes.check()


async def put_history(kubectl: Kubectl, folder: Path) -> None:
    """Create the checkpoint of the week that docs/histogram.svg shows, which ends now."""
    now = SystemClock().now().replace(microsecond=0) - timedelta(minutes=1)
    key = VpaKey(NAMESPACES["docs/how-a-number-is-made.md"], "web")
    checkpoint = codec.new_object(key, "app", codec.encode(history(now), now))
    made: dict[str, Any] = msgspec.to_builtins(checkpoint)
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint"}
    file = folder / "checkpoint.yaml"
    file.write_text(yaml.safe_dump(made | kind))
    await kubectl("create", "-f", str(file))


async def run_page(page: str, folder: Path, variables: Mapping[str, str]) -> None:
    """Run the commands of a page in their order, and then apply all of its manifests.

    Raises:
        AssertionError: a command prints something else, or a manifest is refused.
    """
    write_manifests(page, folder)
    await run_commands(commands(page), folder, variables)
    for name, text in manifests(page).items():
        if name not in REFUSED and all(one["kind"] in KINDS for one in yaml.safe_load_all(text)):
            _, printed = await run(f"kubectl apply -f {name}", folder, variables)
            applied = re.fullmatch(r"(\S+ (created|configured|unchanged)\n)+", printed)
            assert applied, f"{page}: {name}: {printed}"  # without a warning


async def test_the_pages_show_what_the_commands_print(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as variables, asyncio.TaskGroup() as group:
        for page in SANDBOX:
            folder = tmp_path / Path(page).stem
            folder.mkdir()
            config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
            config["contexts"][0]["context"]["namespace"] = namespace_of(page)
            (folder / "kubeconfig").write_text(yaml.safe_dump(config))
            own = {"KUBECONFIG": str(folder / "kubeconfig")}
            group.create_task(run_page(page, folder, variables | own))
