"""``kubectl vpa doctor`` on installations that are broken in one way each.

tests/e2e/test_cli.py has those that need Services, roles or the real components.
"""

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from certs.authority import create, rsa_key
from cli_installation import (
    CONFIGURATION,
    SYSTEM,
    CliInstallation,
    Metrics,
    cli_installation,
)
from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS
from doctor_cases import NOT_PATCHED, Break, Case, diagnosed, error, skipped, verify, warning
from kubectl_vpa.judge.findings import ADMISSION, COMPONENTS, RECOMMENDER, UPDATER
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from workloads import DEFINITIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[CliInstallation]:
    async with cli_installation(tmp_path_factory.mktemp("installation")) as made:
        yield made


async def test_a_healthy_installation_has_no_finding(installation: CliInstallation) -> None:
    printed, found = await diagnosed(installation)
    assert found == []
    assert (printed.code, printed.err) == (0, "")


async def no_definitions(installation: CliInstallation) -> None:
    for kind in ("verticalpodautoscalers", "verticalpodautoscalercheckpoints"):
        await installation.cluster.client.delete(DEFINITIONS, f"{kind}.autoscaling.k8s.io")


async def no_checkpoint_definition(installation: CliInstallation) -> None:
    name = "verticalpodautoscalercheckpoints.autoscaling.k8s.io"
    await installation.cluster.client.delete(DEFINITIONS, name)


async def no_status_subresource(installation: CliInstallation) -> None:
    await installation.cluster.client.patch(
        DEFINITIONS,
        "verticalpodautoscalers.autoscaling.k8s.io",
        [{"op": "remove", "path": "/spec/versions/0/subresources"}],
        patch_type=PatchType.JSON,
    )


async def silent_metrics(installation: CliInstallation) -> None:
    effect = Effect(refuse=Refusal.UNAVAILABLE, message="no endpoints available")
    fault = ApiFault(calls=Calls(group="metrics.k8s.io", verb="list"), effect=effect)
    installation.cluster.sandbox.api.faults.add(fault)


def missing(component: str) -> Break:
    async def break_(installation: CliInstallation) -> None:
        await installation.remove(component)

    return break_


async def not_ready(installation: CliInstallation) -> None:
    await installation.remove(UPDATER)
    await installation.deploy(UPDATER, annotations={"kubelet.sandbox/ready-delay": "never"})
    await installation.until_pods(UPDATER, count=1)


async def other_version(installation: CliInstallation) -> None:
    await installation.remove(RECOMMENDER)
    await installation.deploy(RECOMMENDER, tag="1.7.0")
    await installation.until_pods(RECOMMENDER, count=1, ready=1)


async def stuck_rollout(installation: CliInstallation) -> None:
    container = {"name": "main", "image": "registry.example/vpa-updater:1.8.1"}
    annotations = {"kubelet.sandbox/ready-delay": "never"}
    await installation.cluster.client.patch(
        DEPLOYMENTS.as_dicts(),
        UPDATER,
        {
            "spec": {
                "template": {
                    "metadata": {"annotations": annotations},
                    "spec": {"containers": [container]},
                }
            }
        },
        patch_type=PatchType.STRATEGIC,
        namespace=SYSTEM,
    )
    await installation.until_pods(UPDATER, count=2, ready=1)


async def two_installations(installation: CliInstallation) -> None:
    await installation.deploy(RECOMMENDER, namespace="default")
    await installation.renew_lease(RECOMMENDER, namespace="default")
    await installation.until_pods(RECOMMENDER, count=2, ready=2)


async def no_lease(installation: CliInstallation) -> None:
    await installation.delete(LEASES, "vpa-updater")


async def expired_lease(installation: CliInstallation) -> None:
    await installation.delete(LEASES, "vpa-admission-controller")
    await installation.renew_lease(ADMISSION, ago=timedelta(hours=1))


async def no_webhook(installation: CliInstallation) -> None:
    await installation.cluster.client.delete(MUTATING_WEBHOOKS, CONFIGURATION)


async def two_webhooks(installation: CliInstallation) -> None:
    client = installation.cluster.client
    stored = await client.get(MUTATING_WEBHOOKS, CONFIGURATION)
    copy = {"metadata": {"name": "another-config"}, "webhooks": stored["webhooks"]}
    await client.create(MUTATING_WEBHOOKS, copy)


async def webhook_of_other_pods(installation: CliInstallation) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    operation = {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector}
    await installation.cluster.client.patch(
        MUTATING_WEBHOOKS, CONFIGURATION, [operation], patch_type=PatchType.JSON
    )


async def webhook_down(installation: CliInstallation) -> None:
    await installation.patch_webhook(url="https://127.0.0.1:9/")


async def unreadable_ca(installation: CliInstallation) -> None:
    await installation.patch_webhook(caBundle=base64.b64encode(b"no certificate").decode())


async def foreign_ca(installation: CliInstallation) -> None:
    await installation.patch_webhook(caBundle=authority(timedelta(days=100)))


async def expired_ca(installation: CliInstallation) -> None:
    await installation.patch_webhook(caBundle=authority(-timedelta(minutes=1)))


def authority(lifetime: timedelta) -> str:
    """Return the certificate of a new authority, as a CA bundle."""
    now = datetime.now(UTC)  # noqa: TID251 - the doctor has the real time
    made = create(["127.0.0.1"], make_key=rsa_key, now=now, lifetime=lifetime)
    return base64.b64encode(made.authority.certificate).decode()


async def healthy(_: CliInstallation) -> None:
    """Leave an installation as it was started."""


METRICS = "metrics.k8s.io"
CA = f"CA of {CONFIGURATION}"
NOT_SERVED = "the API server doesn't serve autoscaling.k8s.io/v1 of it"
CHECKPOINTS_MISSING = error("api", "verticalpodautoscalercheckpoints", NOT_SERVED)
NO_CERTIFICATE = skipped("certificates", "no certificate could be read")
CASES = [
    *(
        Case.of(
            f"{name} is missing",
            missing(name),
            error("components", name, f"no pod has the label app={name}"),
        )
        for name in COMPONENTS
    ),
    Case.of(
        "a component is not ready", not_ready, error("components", UPDATER, "its pod is not ready")
    ),
    Case.of(
        "components of two versions",
        other_version,
        warning(
            *("components", ""),
            "they have different versions: vpa-admission-controller 1.8.0, "
            "vpa-recommender 1.7.0, vpa-updater 1.8.0",
        ),
    ),
    Case.of(
        "a stuck rollout",
        stuck_rollout,
        warning(
            *("components", UPDATER),
            "its pods have different images: registry.example/vpa-updater:1.8.0, "
            "registry.example/vpa-updater:1.8.1",
        ),
    ),
    Case.of(
        "two installations",
        two_installations,
        error("components", RECOMMENDER, "it runs in several namespaces: default, kube-system"),
    ),
    Case.of(
        "no Lease",
        no_lease,
        error(
            *("leases", UPDATER),
            "namespace kube-system has no Lease vpa-updater or vpa-updater-lease",
        ),
    ),
    Case.of(
        "an old Lease",
        expired_lease,
        error(
            *("leases", ADMISSION),
            "its Lease was renewed 36?? seconds ago, so no replica is at work",
        ),
    ),
    Case.of(
        "no webhook",
        no_webhook,
        error(
            *("webhook", ""),
            "no webhook for pods and VPAs is registered, so new pods stay as they are",
        ),
        NOT_PATCHED,
        NO_CERTIFICATE,
    ),
    Case.of(
        "two webhooks",
        two_webhooks,
        warning("webhook", "", "several are registered: another-config, vpa-webhook-config"),
    ),
    Case.of("the webhook leaves namespaces out", webhook_of_other_pods, NOT_PATCHED),
    Case.of("the webhook doesn't answer", webhook_down, NOT_PATCHED),
    Case.of(
        "the CA bundle is no certificate",
        unreadable_ca,
        error("webhook", CONFIGURATION, "its CA bundle is no certificate"),
        NOT_PATCHED,
        NO_CERTIFICATE,
    ),
    Case.of("another CA", foreign_ca, NOT_PATCHED),
    Case.of(
        "the CA has ended", expired_ca, NOT_PATCHED, error("certificates", CA, "it ended on 20*")
    ),
]
FRESH_CASES = [
    Case.of(
        "no custom resource definitions",
        no_definitions,
        CHECKPOINTS_MISSING,
        error("api", "verticalpodautoscalers", NOT_SERVED),
        skipped("dry-run", "no VPA that changes pods has a recommendation and a pod"),
        skipped("vpas", "the API server doesn't serve them, so none was checked"),
    ),
    Case.of(
        "no definition of checkpoints",
        no_checkpoint_definition,
        CHECKPOINTS_MISSING,
        skipped("checkpoints", "they could not be listed"),
    ),
    Case.of(
        "a definition without status",
        no_status_subresource,
        error(
            *("api", "verticalpodautoscalers"),
            "the definition has no status subresource, which the recommender writes",
        ),
    ),
    Case.of(
        "no metrics API",
        healthy,
        error("metrics", METRICS, "the metrics API isn't served"),
        metrics=Metrics.ABSENT,
    ),
    Case.of(
        "the metrics API doesn't answer",
        silent_metrics,
        error("metrics", METRICS, "the metrics API fails: no endpoints available"),
    ),
    Case.of(
        "the metrics API has no usage yet",
        healthy,
        error("metrics", METRICS, "the metrics API fails: metrics not available yet"),
        metrics=Metrics.EMPTY,
    ),
    Case.of(
        "usage is an hour old",
        healthy,
        error("metrics", METRICS, "the newest usage is 60 minutes old"),
        metrics=Metrics.STALE,
    ),
    Case.of(
        "the CA ends soon",
        healthy,
        warning("certificates", CA, "it ends on 20*"),
        certificates=timedelta(days=13),
    ),
]
"""Those that no test can restore: each has an installation of its own."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_broken_installation_has_these_findings_only(
    case: Case, installation: CliInstallation
) -> None:
    async with installation.restored():
        await verify(case, installation)


@pytest.mark.parametrize("case", FRESH_CASES, ids=lambda case: case.id)
async def test_a_new_broken_installation_has_these_findings_only(
    case: Case, tmp_path: Path
) -> None:
    async with cli_installation(tmp_path, **case.start) as made:
        await verify(case, made)
