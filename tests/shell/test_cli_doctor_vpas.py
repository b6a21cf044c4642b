"""``kubectl vpa doctor`` on installations whose VPAs or workloads are wrong in one way each.

tests/e2e/test_cli.py has those that need Services, roles or the real components.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from cli_cluster import SMALL, condition, recommended
from cli_installation import CliInstallation, cli_installation
from common.api.autoscaling import UpdateMode
from common.kube.endpoints import CHECKPOINTS, HPAS, LIMIT_RANGES, PODS, RESOURCE_QUOTAS
from doctor_cases import Case, error, skipped, verify, warning
from workloads import NAMESPACE

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[CliInstallation]:
    async with cli_installation(tmp_path_factory.mktemp("installation")) as made:
        yield made


async def second_vpa(installation: CliInstallation) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await installation.cluster.autoscale("web-copy", targetRef=target, status=recommended(SMALL))


async def hpa(installation: CliInstallation) -> None:
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    made = {"metadata": {"name": "web"}, "spec": spec}
    await installation.cluster.client.create(HPAS.as_dicts(), made, namespace=NAMESPACE)


async def no_target(installation: CliInstallation) -> None:
    message = "Cannot read targetRef. Reason: Deployment shop/gone does not exist"
    conditions = [condition("ConfigUnsupported", message=message), condition("NoPodsMatched")]
    await installation.cluster.autoscale("gone", status={"conditions": conditions})


async def unsupported_target(installation: CliInstallation) -> None:
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"}
    message = (
        "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should point to a "
        "topmost well-known or scalable controller: apps/v1.Deployment/web"
    )
    conditions = [condition("ConfigUnsupported", message=message)]
    await installation.cluster.autoscale(
        "inner", targetRef=target, status={"conditions": conditions}
    )


async def no_pods(installation: CliInstallation) -> None:
    await installation.cluster.deploy("idle", 0, SMALL)
    await installation.cluster.autoscale(
        "idle", status={"conditions": [condition("NoPodsMatched")]}
    )


async def not_processed(installation: CliInstallation) -> None:
    """Create a VPA ten minutes ago, whose recommender doesn't run."""
    clock = installation.cluster.sandbox.clock
    await installation.cluster.deploy("quiet", 1, SMALL)
    await installation.until_pods("quiet", count=1, ready=1)
    clock.jump(-timedelta(minutes=10))
    await installation.cluster.autoscale("quiet", recommenders=[{"name": "another"}])
    clock.jump(timedelta(minutes=10))


async def bare_pod(installation: CliInstallation) -> None:
    spec = {"containers": [{"name": "app", "image": "registry.example/app"}]}
    made = {"metadata": {"name": "tool"}, "spec": spec}
    await installation.cluster.client.create(PODS.as_dicts(), made, namespace=NAMESPACE)


async def low_maximum(installation: CliInstallation) -> None:
    spec = {"limits": [{"type": "Container", "max": {"memory": "100Mi"}}]}
    made = {"metadata": {"name": "limits"}, "spec": spec}
    await installation.cluster.client.create(LIMIT_RANGES.as_dicts(), made, namespace=NAMESPACE)


async def tight_quota(installation: CliInstallation) -> None:
    """Leave 100 MiB, and want 250 MiB more of each of two pods."""
    client = installation.cluster.client
    await installation.cluster.deploy("grows", 2, {"cpu": "49m", "memory": "10Mi"})
    await installation.until_pods("grows", count=2, ready=2)
    await installation.cluster.autoscale("grows", "Initial", status=recommended(SMALL))
    made = {"metadata": {"name": "quota"}, "spec": {"hard": {"requests.memory": "620Mi"}}}
    await client.create(RESOURCE_QUOTAS.as_dicts(), made, namespace=NAMESPACE)
    await installation.until_quota("quota")


async def orphan_checkpoint(installation: CliInstallation) -> None:
    made = {
        "metadata": {"name": "gone-app"},
        "spec": {"vpaObjectName": "gone", "containerName": "app"},
    }
    await installation.cluster.client.create(CHECKPOINTS.as_dicts(), made, namespace=NAMESPACE)


async def mode_without_gate(installation: CliInstallation) -> None:
    await installation.cluster.deploy("moves", 1, SMALL)
    await installation.until_pods("moves", count=1, ready=1)
    await installation.cluster.autoscale("moves", UpdateMode.IN_PLACE, status=recommended(SMALL))


async def boost_without_gate(installation: CliInstallation) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 10}}
    await installation.cluster.deploy("boosted", 1, SMALL)
    await installation.until_pods("boosted", count=1, ready=1)
    await installation.cluster.autoscale(
        "boosted", "Initial", startupBoost=boost, status=recommended(SMALL)
    )


LACKS_GATE = "it needs the feature gate {}, which vpa-admission-controller and vpa-updater lack"
CASES = [
    Case.of(
        "two VPAs with one target",
        second_vpa,
        warning(
            *("conflicts", "shop/web-copy"), "VPA web has the same target and controls its pods"
        ),
    ),
    Case.of(
        "an HPA on the same resource",
        hpa,
        warning("hpa", "shop/web", "HPA web scales on cpu utilization, too"),
    ),
    Case.of(
        "the target is missing",
        no_target,
        error(
            *("targets", "shop/gone"),
            "Cannot read targetRef. Reason: Deployment shop/gone does not exist",
        ),
    ),
    Case.of(
        "the target is owned",
        unsupported_target,
        error(
            *("targets", "shop/inner"),
            "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should "
            "point to a topmost well-known or scalable controller: apps/v1.Deployment/web",
        ),
    ),
    Case.of(
        "the target has no pods",
        no_pods,
        warning("targets", "shop/idle", "Deployment idle has no pods"),
    ),
    Case.of(
        "no recommender processes a VPA",
        not_processed,
        error("targets", "shop/quiet", "no recommender processes it"),
    ),
    Case.of(
        "a pod without a controller",
        bare_pod,
        warning("bare-pods", "shop", "1 without a controller, which no VPA can change: tool"),
    ),
    Case.of(
        "a LimitRange below the target",
        low_maximum,
        warning(
            *("limit-ranges", "shop/web"), "app: memory target 250Mi is above the maximum 100Mi"
        ),
        skipped("dry-run", "a pod of VPA shop/web was refused: *limit of 100Mi"),
    ),
    Case.of(
        "a quota without room",
        tight_quota,
        warning(
            *("quotas", "shop/quota"),
            "recommendations add 480Mi of memory requests, and 100Mi is left",
        ),
        skipped("dry-run", "a pod of VPA shop/grows was refused: *exceeded quota: *"),
    ),
    Case.of(
        "a checkpoint without a VPA",
        orphan_checkpoint,
        warning("checkpoints", "shop/gone-app", "its VPA gone doesn't exist"),
    ),
    Case.of(
        "a mode without its feature gate",
        mode_without_gate,
        error("features", "shop/moves", LACKS_GATE.format("InPlace")),
    ),
    Case.of(
        "a start-up boost without its feature gate",
        boost_without_gate,
        error("features", "shop/boosted", LACKS_GATE.format("CPUStartupBoost")),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_wrong_vpas_and_workloads_have_these_findings_only(
    case: Case, installation: CliInstallation
) -> None:
    async with installation.restored():
        await verify(case, installation)
