"""The commands and manifests of the pages, in a sandbox with the three components.

Skipped if kubectl, curl or jq is missing.
"""

import asyncio
import os
import re
import shlex
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
from component import LOOPBACK, free_port, webhook_flags
from demo.processes import Processes
from e2e.kubectl import Kubectl
from histogram_picture import history
from kubectl_program import needs_kubectl
from page_commands import commands, manifests, objects, pages
from recommender.checkpoints import codec
from recommender.model.keys import VpaKey
from role_rules import bound_roles
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
NAMESPACES = {"how-a-number-is-made.md": "shop"}
KINDS = ("Deployment", "LimitRange", "VerticalPodAutoscaler")  # that the sandbox serves
SCENARIO = """
kubernetes-version: "1.36"
nodes: [{name: node, count: 3, cpu: 4, memory: 8Gi}]
timing: {start-delay: 500ms, stop-delay: 500ms, resize-delay: 500ms}
metrics: {window: 5s}
usage:
  # In the buckets of the history's percentiles, so that new samples change nothing.
  - {match: {namespace: shop}, cpu: 300m, memory: 380Mi}
  - {match: {labels: {app: web}}, cpu: 600m, memory: 60Mi}
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
WITHIN = 90  # seconds, for a command that waits


def namespace_of(page: str) -> str:
    return NAMESPACES.get(page, Path(page).stem)


@asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[dict[str, str]]:
    """Run a cluster with the components, and yield the variables of the pages' commands."""
    await Directory(folder).save(new_bundle())
    scenario = parse_scenario(SCENARIO + f"namespaces: [{', '.join(map(namespace_of, pages()))}]\n")
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
    key = VpaKey(NAMESPACES["how-a-number-is-made.md"], "web")
    checkpoint = codec.new_object(key, "app", codec.encode(history(now), now))
    made: dict[str, Any] = msgspec.to_builtins(checkpoint)
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint"}
    file = folder / "checkpoint.yaml"
    file.write_text(yaml.safe_dump(made | kind))
    await kubectl("create", "-f", str(file))


async def run(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Run a command in the folder with the manifests of its page, and return what it prints."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"set -o pipefail; {command}"),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(WITHIN):
        out, _ = await process.communicate()
    return out.decode()


async def run_page(page: str, folder: Path, variables: Mapping[str, str]) -> None:
    """Run the commands of a page in their order, and then apply all of its manifests.

    Raises:
        AssertionError: a command prints something else, or a manifest is refused.
    """
    for name, text in manifests(page).items():
        (folder / name).write_text(text)
    for command in commands(page):
        printed = await run(command.command, folder, variables)
        shown = f"{page}: $ {command.command}\nshows\n{command.output}\nbut it is\n{printed}"
        assert command.matches(printed), shown
    for name, text in manifests(page).items():
        if all(one["kind"] in KINDS for one in yaml.safe_load_all(text)):
            printed = await run(f"kubectl apply -f {name}", folder, variables)
            applied = re.fullmatch(r"(\S+ (created|configured|unchanged)\n)+", printed)
            assert applied, f"{page}: {name}: {printed}"  # without a warning
    for command_of_job in cron_job_commands(page):
        printed = await run(shlex.join(command_of_job), folder, variables)
        assert printed.startswith("verticalpodautoscaler.autoscaling.k8s.io/web patched"), printed


def cron_job_commands(page: str) -> list[list[str]]:
    """Return the commands of all CronJobs of a page."""
    specs = [each["spec"]["jobTemplate"]["spec"] for each in cron_jobs(page)]
    return [one["command"] for spec in specs for one in spec["template"]["spec"]["containers"]]


def cron_jobs(page: str) -> list[dict[str, Any]]:
    return [each for each in objects(page) if each["kind"] == "CronJob"]


def test_the_account_of_the_schedule_may_patch_its_vpa(tmp_path: Path) -> None:
    page = "eviction-requirements.md"
    (tmp_path / "schedule.yaml").write_text(manifests(page)["schedule.yaml"])
    schedules = cron_jobs(page)
    assert len(schedules) == 2
    for each in schedules:
        account = each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["serviceAccountName"]
        (role,) = bound_roles(account, folder=tmp_path)
        (rule,) = role["rules"]
        assert rule["resources"] == ["verticalpodautoscalers"]
        assert "patch" in rule["verbs"]
        assert set(rule["resourceNames"]) <= set(*cron_job_commands(page)[:1])


async def test_the_pages_show_what_the_commands_print(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as variables, asyncio.TaskGroup() as group:
        for page in pages():
            folder = tmp_path / Path(page).stem
            folder.mkdir()
            config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
            config["contexts"][0]["context"]["namespace"] = namespace_of(page)
            (folder / "kubeconfig").write_text(yaml.safe_dump(config))
            own = {"KUBECONFIG": str(folder / "kubeconfig")}
            group.create_task(run_page(page, folder, variables | own))
