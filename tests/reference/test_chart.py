"""From the reference's Helm chart to ours and back, with the commands of docs/migration.md."""

import pytest

from helm_program import NEEDS_HELM
from reference import history, swaps
from reference.cluster import Cluster
from reference.installation import Installation
from reference.programs import CHART, OUR_REGISTRY, THEIR_REGISTRY

pytestmark = NEEDS_HELM

NAMESPACE = "vpa"
RELEASE = "right-size"


@pytest.fixture(scope="module")
def installation() -> Installation:
    """Return how a release of the chart is installed, with the chart's own values."""
    return Installation(NAMESPACE, _install)


async def _install(cluster: Cluster) -> None:
    await cluster.operator.shell(
        f"helm install {RELEASE} {CHART} --namespace {NAMESPACE} --create-namespace --wait"
    )


async def follow(cluster: Cluster, start: str) -> str:
    """Run a block of the page with the words of this release."""
    words = {"RELEASE": RELEASE, "NAMESPACE": NAMESPACE, "CHART": str(CHART)}
    return await cluster.operator.follow(start, **words)


async def test_images_under_the_references_chart(cluster: Cluster) -> None:
    async with swaps.swap_to(OUR_REGISTRY, cluster, denied=swaps.OLDER_ROLES):
        await follow(cluster, "helm upgrade RELEASE CHART")

    async with swaps.swap_to(THEIR_REGISTRY, cluster, denied=swaps.OLDER_ROLES, registers=False):
        await follow(cluster, "helm rollback RELEASE")


async def test_leaving_the_chart_keeps_vpas_and_checkpoints(cluster: Cluster) -> None:
    before = await cluster.history()
    printed = await follow(cluster, "kubectl get crd verticalpodautoscalers")
    assert [line.split() for line in printed.splitlines()[1:3]] == [
        [f"verticalpodautoscaler{kind}s.autoscaling.k8s.io", "keep"] for kind in ("", "checkpoint")
    ]
    async with swaps.creating_pods(cluster) as creations:
        await swaps.wait_until_patched(cluster, creations)
    after = await cluster.wait_for_more_history()
    assert after.vpas == before.vpas
    assert history.lost(before, after) == []
