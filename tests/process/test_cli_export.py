"""``kubectl vpa export`` as a process, and what kubectl makes of its output."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from cli_cluster import SMALL, CliCluster, cli_cluster, fill
from cli_program import Printed, run_cli
from common.kube.endpoints import CHECKPOINTS, DEPLOYMENTS, VPAS
from kubectl_program import KUBECTL, needs_kubectl
from workloads import NAMESPACE

pytestmark = [pytest.mark.asyncio(loop_scope="module"), *needs_kubectl()]
CHECKPOINT: dict[str, Any] = {
    "metadata": {"name": "web-app", "annotations": {"vpa-recommender/memory-windows": "w"}},
    "spec": {"vpaObjectName": "web", "containerName": "app"},
    "status": {"version": "v3", "totalSamplesCount": 3},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        await made.client.create(CHECKPOINTS.as_dicts(), CHECKPOINT, namespace=NAMESPACE)
        yield made


async def export(cluster: CliCluster, *arguments: str) -> Printed:
    return await run_cli(cluster.kubeconfig, "export", "-n", NAMESPACE, *arguments)


async def test_objects_are_vpas_and_checkpoints_with_their_content(cluster: CliCluster) -> None:
    printed = await export(cluster)
    assert (printed.code, printed.err) == (0, "")
    documents = list(yaml.safe_load_all(printed.out))
    assert [each["kind"] for each in documents] == [
        *["VerticalPodAutoscaler"] * 12,
        "VerticalPodAutoscalerCheckpoint",
    ]
    assert documents[-1] == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        **CHECKPOINT,
        "metadata": {**CHECKPOINT["metadata"], "namespace": NAMESPACE},
    }


async def test_a_selector_selects_the_checkpoints_of_its_vpas(cluster: CliCluster) -> None:
    printed = await export(cluster, "-l", "team=none")
    assert printed.out == ""


async def test_kustomize_applies_the_component(cluster: CliCluster, tmp_path: Path) -> None:
    printed = await export(cluster, "--as", "kustomize")
    folder = tmp_path / "recommendations"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(printed.out)
    web = await cluster.client.get(DEPLOYMENTS.as_dicts(), "web", namespace=NAMESPACE)
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": web["spec"],
    }
    others = [
        {**manifest, "metadata": {"name": name}}
        for name in ("api", "batch", "cart", "guarded", "ledger", "quiet", "search", "young")
    ]
    (tmp_path / "apps.yaml").write_text(yaml.safe_dump_all([manifest, *others]))
    content = {
        "resources": ["apps.yaml"],
        "components": ["recommendations"],
        "namespace": NAMESPACE,
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(content))
    built = list(yaml.safe_load_all(await cluster.kubectl("kustomize", str(tmp_path))))
    requests = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["resources"][
            "requests"
        ]
        for each in built
    }
    assert requests["web"] == SMALL
    assert requests["search"] == {"cpu": "1200m", "memory": "2Gi"}
    assert requests["quiet"] == {"cpu": "500m", "memory": "1Gi"}, "it has no recommendation"


async def test_patches_change_the_deployments(cluster: CliCluster, tmp_path: Path) -> None:
    printed = await export(cluster, "--as", "patch")
    (patch,) = (
        each for each in yaml.safe_load_all(printed.out) if each["metadata"]["name"] == "ledger"
    )
    file = tmp_path / "patch.yaml"
    file.write_text(yaml.safe_dump(patch))
    words = ("patch", "deployment", "ledger", "-n", NAMESPACE, f"--patch-file={file}")
    await cluster.kubectl(*words)
    ledger = await cluster.client.get(DEPLOYMENTS.as_dicts(), "ledger", namespace=NAMESPACE)
    (container,) = ledger["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == SMALL
    assert container["image"], "the rest of the container stays"


async def test_helm_values_name_workload_and_container(cluster: CliCluster) -> None:
    printed = await export(cluster, "--as", "helm")
    values = yaml.safe_load(printed.out)
    assert values["web"] == {"app": {"resources": {"requests": SMALL}}}


async def test_vpas_that_are_left_out_are_named_with_the_reason(cluster: CliCluster) -> None:
    printed = await export(cluster, "--as", "patch")
    assert printed.code == 0
    assert printed.err.splitlines() == [
        "not exported: VPA shop/idle has no recommendation for the containers of Deployment idle",
        "not exported: VPA shop/orphan: Deployment orphan doesn't exist, or has no known template",
        "not exported: VPA shop/quiet has no recommendation for the containers of Deployment quiet",
        "not exported: VPA shop/web-copy: VPA web has the same target",
    ]


async def test_recommendations_as_csv(cluster: CliCluster) -> None:
    printed = await export(cluster, "--as", "recommendations", "-o", "csv")
    head, first, *_ = printed.out.splitlines()
    assert head.startswith("namespace,name,workloadKind,workloadName,container,target.cpu,")
    assert first.startswith("shop,api,Deployment,api,app,49m,250Mi,")


async def test_csv_of_objects_is_a_usage_error(cluster: CliCluster) -> None:
    printed = await export(cluster, "-o", "csv")
    assert (printed.code, printed.err) == (2, "error: -o csv needs --as recommendations\n")


async def test_kubectl_finds_the_plugin(cluster: CliCluster, tmp_path: Path) -> None:
    program = tmp_path / "kubectl-vpa"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kubectl_vpa "$@"\n')
    program.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        *(KUBECTL, "vpa", "status", "-n", NAMESPACE, "-o", "name"),
        env={**os.environ, "PATH": f"{tmp_path}:/bin", "KUBECONFIG": str(cluster.kubeconfig)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert len(out.splitlines()) == 12


async def test_objects_can_be_deleted_and_applied_again(
    cluster: CliCluster, tmp_path: Path
) -> None:
    printed = await export(cluster)
    saved = tmp_path / "saved.yaml"
    saved.write_text(printed.out)
    before = await stored(cluster)
    for endpoint in (VPAS, CHECKPOINTS):
        for each in (await cluster.client.list(endpoint.as_dicts())).items:
            await cluster.client.delete(endpoint, each["metadata"]["name"], namespace=NAMESPACE)
    await cluster.kubectl("apply", "--validate=false", "-f", str(saved))
    after = await stored(cluster)
    assert after == before
    assert after["web-app"]["status"] == CHECKPOINT["status"]


async def stored(cluster: CliCluster) -> dict[str, Any]:
    """Return the spec of each VPA, and spec and status of each checkpoint."""
    vpas = (await cluster.client.list(VPAS.as_dicts())).items
    checkpoints = (await cluster.client.list(CHECKPOINTS.as_dicts())).items
    return {each["metadata"]["name"]: {"spec": each["spec"]} for each in vpas} | {
        each["metadata"]["name"]: {"spec": each["spec"], "status": each["status"]}
        for each in checkpoints
    }
