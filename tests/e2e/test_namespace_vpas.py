"""VPAs for many workloads: by the label of a namespace, and by ``kubectl vpa create``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cli_program import run_cli
from common.kube.client import PatchType
from common.kube.endpoints import HPAS, NAMESPACES, STATEFUL_SETS, VPAS
from e2e.cluster import Case
from e2e.installation import RECOMMENDER
from e2e.pods import Object, hpa
from role_rules import NAMESPACE_VPAS

_RBAC = NAMESPACE_VPAS / "rbac.yaml"
_ENABLE = "vpa.autoscaling/enable"


@asynccontextmanager
async def _permitted(case: Case) -> AsyncIterator[None]:
    """Run a block with the permissions of the component."""
    await case.cluster.kubectl("apply", "-f", str(_RBAC))
    try:
        yield
    finally:
        await case.cluster.kubectl("delete", "-f", str(_RBAC))


async def _annotate(case: Case, **metadata: Any) -> None:
    await case.cluster.client.patch(
        NAMESPACES.as_dicts(),
        case.namespace,
        {"metadata": metadata},
        patch_type=PatchType.MERGE,
    )


async def _specs(case: Case) -> dict[str, Object]:
    found = await case.cluster.client.list(VPAS.as_dicts(), namespace=case.namespace)
    return {each["metadata"]["name"]: each["spec"] for each in found.items}


async def test_the_label_of_a_namespace_gives_vpas_to_its_workloads(case: Case) -> None:
    cluster = case.cluster
    await case.deploy("web")
    await case.deploy("api")
    await case.create(HPAS, hpa("api"))
    async with (
        _permitted(case),
        cluster.installation.with_arguments(RECOMMENDER, "--namespace-vpas=true"),
    ):
        await _annotate(
            case,
            labels={_ENABLE: "true"},
            annotations={"vpa.autoscaling/mode": "Initial"},
        )

        async def both() -> dict[str, Object]:
            found = await _specs(case)
            return found if set(found) == {"api", "web"} else {}

        found = await cluster.wait_for(both, "a VPA for each workload")
        assert [spec["updatePolicy"]["updateMode"] for spec in found.values()] == ["Initial"] * 2
        assert "resourcePolicy" not in found["web"]
        (policy,) = found["api"]["resourcePolicy"]["containerPolicies"]
        assert policy == {"containerName": "*", "controlledResources": ["memory"]}, "beside an HPA"

        async def recommended() -> dict[str, str]:
            return await case.target("web")

        await cluster.wait_for(recommended, "a recommendation for the new VPA")

        await _annotate(case, annotations={"vpa.autoscaling/min-allowed": "cpu=50m"})

        async def bounded() -> bool:
            policies = (await _specs(case))["web"].get("resourcePolicy")
            return policies is not None

        await cluster.wait_for(bounded, "the new minimum")
        keep = {"metadata": {"labels": {"vpa.autoscaling/created-by": None}}}
        await cluster.client.patch(
            VPAS.as_dicts(), "web", keep, patch_type=PatchType.MERGE, namespace=case.namespace
        )
        await _annotate(case, labels={_ENABLE: None})

        async def only_kept() -> bool:
            return set(await _specs(case)) == {"web"}

        await cluster.wait_for(only_kept, "the VPA with the label is deleted, the other stays")


@pytest.mark.concurrent
async def test_the_command_creates_vpas_that_the_webhook_admits(case: Case) -> None:
    await case.deploy("web")
    await case.deploy("api")
    await case.deploy("web", controller=STATEFUL_SETS)
    await case.create(HPAS, hpa("api"))
    words = ("create", "-n", case.namespace, "--mode", "Recreate", "--max-allowed", "cpu=2")
    kubeconfig, namespace = case.cluster.kubectl.kubeconfig, case.namespace
    dry = await run_cli(kubeconfig, *words, "--dry-run", "server")
    assert (dry.code, await _specs(case)) == (0, {})
    printed = await run_cli(kubeconfig, *words, "--apply")
    assert printed.code == 0
    assert printed.out.splitlines() == [
        f"VPA {namespace}/api created for Deployment {namespace}/api",
        f"VPA {namespace}/web created for Deployment {namespace}/web",
        f"VPA {namespace}/web-statefulset created for StatefulSet {namespace}/web",
    ]
    assert printed.err == (
        f"warning: Deployment {namespace}/api: HPA api scales on the use of cpu: the VPA controls "
        "memory only\n"
    )
    again = await run_cli(kubeconfig, *words, "--apply")
    assert (again.code, again.out) == (0, "")
