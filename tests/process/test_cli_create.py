"""``kubectl vpa create`` as a process: what it prints, creates and leaves out."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from cli_cluster import SMALL, CliCluster, cli_cluster
from cli_program import Printed, run_cli
from common.kube.endpoints import DEPLOYMENTS, NAMESPACES, STATEFUL_SETS, VPAS, Endpoint
from kubectl_program import needs_kubectl
from workloads import NAMESPACE

pytestmark = needs_kubectl()

CONTAINER = {"name": "app", "image": "registry.example/app"}
SCREEN = Path(__file__).parent / "screens" / "create-80.txt"
NO_HPAS = "not seen: horizontalpodautoscalers in shop: the cluster doesn't serve them\n"


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[CliCluster]:
    """Run a cluster with workloads that have a VPA, none, or are left out."""
    async with cli_cluster(tmp_path) as made:
        await made.deploy("api", 1, SMALL)
        await made.autoscale("api", "Off")
        await made.deploy("web", 1, SMALL)
        await create(made, STATEFUL_SETS, "web")
        await create(made, DEPLOYMENTS, "batch", labels={"vpa.autoscaling/enable": "false"})
        owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "main", "uid": "1"}
        await create(made, DEPLOYMENTS, "cart", ownerReferences=[{**owner, "controller": True}])
        await made.client.create(NAMESPACES.as_dicts(), {"metadata": {"name": "vpa"}})
        await create(made, DEPLOYMENTS, "dns", namespace="kube-system")
        labels = {"app": "vpa-recommender"}
        await create(made, DEPLOYMENTS, "vpa-recommender", namespace="vpa", labels=labels)
        yield made


async def create(
    cluster: CliCluster,
    endpoint: Endpoint[Any],
    name: str,
    *,
    namespace: str = NAMESPACE,
    **metadata: Any,
) -> None:
    """Create a workload without pods."""
    labels = {"app": name}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}},
    }
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    await cluster.client.create(endpoint.as_dicts(), body, namespace=namespace)


async def run(cluster: CliCluster, *arguments: str) -> Printed:
    return await run_cli(cluster.kubeconfig, "create", *arguments)


async def stored(cluster: CliCluster, namespace: str = "") -> dict[str, Any]:
    found = (await cluster.client.list(VPAS.as_dicts(), namespace=namespace)).items
    return {each["metadata"]["name"]: each for each in found}


async def test_it_prints_vpas_and_says_which_workloads_get_none(cluster: CliCluster) -> None:
    printed = await run(cluster, "-n", NAMESPACE)
    assert printed.code == 0
    assert [
        (each["metadata"]["name"], each["spec"]["targetRef"]["kind"], each["spec"]["updatePolicy"])
        for each in yaml.safe_load_all(printed.out)
    ] == [
        ("web", "Deployment", {"updateMode": "Off"}),
        ("web-statefulset", "StatefulSet", {"updateMode": "Off"}),
    ]
    assert printed.err.splitlines() == [
        "skipped: Deployment shop/api: VPA api targets it already",
        "skipped: Deployment shop/batch: it has the label vpa.autoscaling/enable=false",
        "skipped: workloads of Shop main in shop: create a VPA by hand",
        NO_HPAS.rstrip(),
    ]
    assert list(await stored(cluster)) == ["api"], "nothing was created"


async def test_kubectl_applies_what_it_prints_and_deletes_it_by_the_label(
    cluster: CliCluster, tmp_path: Path
) -> None:
    arguments = ("--mode", "Initial", "--max-allowed", "cpu=2", "--min-replicas", "1")
    printed = await run(cluster, "-n", NAMESPACE, *arguments)
    (tmp_path / "vpas.yaml").write_text(printed.out)
    await cluster.kubectl("apply", "-f", str(tmp_path / "vpas.yaml"))
    vpa = (await stored(cluster))["web"]
    assert vpa["spec"] == {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Initial", "minReplicas": 1},
        "resourcePolicy": {
            "containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "2"}}]
        },
    }
    first = printed.out.splitlines()[0]
    assert first.startswith("# Undo: kubectl ")
    await cluster.kubectl(*first.removeprefix("# Undo: kubectl ").split())
    assert list(await stored(cluster)) == ["api"]


async def test_it_creates_them_and_changes_nothing_the_second_time(cluster: CliCluster) -> None:
    printed = await run(cluster, "-n", NAMESPACE, "--apply")
    assert (printed.code, printed.out.splitlines()) == (
        0,
        [
            "VPA shop/web created for Deployment shop/web",
            "VPA shop/web-statefulset created for StatefulSet shop/web",
        ],
    )
    before = await stored(cluster)
    again = await run(cluster, "-n", NAMESPACE, "--apply", "--mode", "Recreate")
    assert (again.code, again.out) == (0, "")
    assert "nothing to create: no workload without a VPA was found\n" in again.err
    assert await stored(cluster) == before


async def test_a_dry_run_stores_nothing(cluster: CliCluster) -> None:
    printed = await run(cluster, "-n", NAMESPACE, "--dry-run", "server", "-l", "app", "-o", "yaml")
    assert (printed.code, printed.out) == (0, ""), "no workload has the label itself"
    printed = await run(
        cluster, "-n", NAMESPACE, "--dry-run", "server", "--exclude", "statefulset/*"
    )
    assert printed.out == "VPA shop/web created for Deployment shop/web (server dry run)\n"
    assert list(await stored(cluster)) == ["api"]


async def test_all_namespaces_are_those_of_users(cluster: CliCluster) -> None:
    printed = await run(cluster, "-A", "-o", "json")
    assert {each["metadata"]["namespace"] for each in printed.items} == {NAMESPACE}
    left_out = [line for line in printed.err.splitlines() if "namespace" in line]
    assert left_out == [
        "skipped: namespace kube-system: choose it with -n",
        "skipped: namespace vpa: choose it with -n",
    ]


async def test_a_namespace_that_is_named_is_used(cluster: CliCluster) -> None:
    printed = await run(cluster, "-n", "kube-system")
    assert yaml.safe_load(printed.out)["metadata"]["name"] == "dns"


async def test_a_vpa_that_is_refused_is_named_and_the_others_are_created(
    cluster: CliCluster, tmp_path: Path
) -> None:
    definition = "customresourcedefinition/verticalpodautoscalers.autoscaling.k8s.io"
    patch = [
        {
            "op": "add",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/targetRef"
            "/properties/kind/enum",
            "value": ["Deployment"],
        }
    ]
    file = tmp_path / "patch.json"
    file.write_text(json.dumps(patch))
    await cluster.kubectl("patch", definition, "--type=json", f"--patch-file={file}")
    printed = await run(cluster, "-n", NAMESPACE, "--apply")
    assert (printed.code, printed.out) == (1, "VPA shop/web created for Deployment shop/web\n")
    (failed,) = (line for line in printed.err.splitlines() if line.startswith("not created"))
    assert failed.startswith("not created: VPA shop/web-statefulset: ")
    assert "spec.targetRef.kind" in failed


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            ("--min-allowed", "gpu=1"),
            "error: --min-allowed: 'gpu=1' doesn't have the form cpu=50m,memory=100Mi\n",
            id="amounts",
        ),
        pytest.param(
            ("--apply", "-o", "json"),
            "error: -o json can't be combined with --apply and --dry-run\n",
            id="a format and creation",
        ),
    ],
)
async def test_usage_errors_name_the_argument(
    arguments: tuple[str, ...], error: str, tmp_path: Path
) -> None:
    printed = await run_cli(tmp_path / "none", "create", *arguments)
    assert (printed.code, printed.err) == (2, error)


async def test_the_screen_is_as_reviewed(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "create", "-n", NAMESPACE, width=80)
    shown = printed.err + printed.out
    if os.environ.get("WRITE_SCREENS"):
        SCREEN.write_text(shown, encoding="utf-8")
    assert shown == SCREEN.read_text(encoding="utf-8")
