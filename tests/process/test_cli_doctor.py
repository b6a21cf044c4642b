"""``kubectl vpa doctor`` as a process. tests/shell/test_cli_doctor_*.py have its findings."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cli_checkpoints import add_checkpoint
from cli_cluster import CliCluster, cli_cluster, fill
from cli_installation import CliInstallation, cli_installation
from cli_program import run_cli
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS
from kubectl_vpa.judge.findings import COMPONENTS
from webhook_simulation import POD_RULE
from workloads import NAMESPACE

SCREEN = Path(__file__).parent / "screens" / "doctor-100.txt"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        await made.until_measured()
        yield made


async def test_the_screen_is_as_reviewed(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "doctor", width=100)
    if os.environ.get("WRITE_SCREENS"):
        SCREEN.write_text(printed.out, encoding="utf-8")
    assert printed.out == SCREEN.read_text(encoding="utf-8")
    assert max(map(len, printed.out.splitlines())) <= 100
    assert printed.code == 1


async def test_the_dry_run_stores_nothing(cluster: CliCluster) -> None:
    before = {pod.metadata.name for pod in (await cluster.client.list(PODS)).items}
    printed = await run_cli(cluster.kubeconfig, "doctor", "-n", NAMESPACE, "-o", "json")
    (tried,) = (each for each in printed.items if each["check"] == "dry-run")
    assert (tried["severity"], tried["about"]) == ("error", "VPA shop/api")
    assert {pod.metadata.name for pod in (await cluster.client.list(PODS)).items} == before


async def test_without_a_dry_run_no_pod_is_created(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "doctor", "--no-dry-run", "-o", "json")
    (tried,) = (each for each in printed.items if each["check"] == "dry-run")
    assert tried["severity"] == "skipped"


async def test_an_empty_namespace_has_findings_about_the_installation_only(
    cluster: CliCluster,
) -> None:
    printed = await run_cli(cluster.kubeconfig, "doctor", "-n", "empty", "-o", "json")
    errors = {each["check"] for each in printed.items if each["severity"] == "error"}
    assert errors <= {"components", "webhook"}
    assert printed.code == 1


async def test_the_exit_code_says_the_worst_finding(tmp_path: Path) -> None:
    async with cli_installation(tmp_path) as installation:
        config = installation.cluster.kubeconfig
        healthy = await run_cli(config, "doctor")
        await add_checkpoint(installation.cluster, "gone")
        warned = await run_cli(config, "doctor")
    assert (healthy.code, healthy.err) == (0, "")
    assert warned.code == 3


async def test_an_installation_of_the_reference_is_understood(cluster: CliCluster) -> None:
    """Its webhook doesn't answer and fails open, so new pods are not patched."""
    await CliInstallation(cluster).install()
    hook: dict[str, Any] = {
        "name": "vpa.k8s.io",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [POD_RULE],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {"metadata": {"name": "vpa-webhook-config"}, "webhooks": [hook]}
    await cluster.client.create(MUTATING_WEBHOOKS, configuration)
    await cluster.until_running(17 + len(COMPONENTS))
    printed = await run_cli(cluster.kubeconfig, "doctor", "-o", "json")
    found = {(each["check"], each["severity"]): each["message"] for each in printed.items}
    assert found["components", "ok"] == f"{', '.join(COMPONENTS)} are ready"
    assert found["leases", "ok"] == (
        "vpa-recommender: vpa-recommender-lease-holder; vpa-updater: vpa-updater-holder; "
        "vpa-admission-controller: vpa-admission-controller-holder"
    )
    assert found["webhook", "ok"] == "vpa-webhook-config calls https://127.0.0.1:9/"
    assert found["dry-run", "error"] == "a new pod would not be patched"
    assert printed.code == 1
