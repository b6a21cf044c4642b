"""``kubectl vpa doctor`` on installations that are broken in one way each, and on a healthy one.

tests/e2e/test_cli.py has those that need Services, roles or the real components.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from certs.authority import create, rsa_key
from cli_cluster import SMALL, condition, recommended
from cli_installation import (
    CONFIGURATION,
    SYSTEM,
    CliInstallation,
    Metrics,
    cli_installation,
)
from cli_program import Printed, run_cli
from common.api.autoscaling import UpdateMode
from common.kube.client import PatchType
from common.kube.endpoints import (
    CHECKPOINTS,
    DEPLOYMENTS,
    HPAS,
    LEASES,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    PODS,
    RESOURCE_QUOTAS,
)
from kubectl_vpa.judge.findings import ADMISSION, COMPONENTS, RECOMMENDER, UPDATER
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from workloads import DEFINITIONS, NAMESPACE

Finding = tuple[str, str, str, str]
"""Severity, check, object, and a pattern of the message."""

SKIPPED = {"rbac"}  # the sandbox has no roles
NOT_PATCHED: Finding = ("error", "dry-run", "VPA shop/web", "a new pod would not be patched")


async def findings(installation: CliInstallation) -> tuple[Printed, list[Finding]]:
    """Return what the doctor finds wrong, and what it skips here only."""
    printed = await run_cli(installation.cluster.kubeconfig, "doctor", "-o", "json")
    return printed, [
        (each["severity"], each["check"], each["about"], each["message"])
        for each in printed.items
        if each["severity"] != "ok"
        and not (each["severity"] == "skipped" and each["check"] in SKIPPED)
    ]


async def test_a_healthy_installation_has_no_finding(tmp_path: Path) -> None:
    async with cli_installation(tmp_path) as installation:
        printed, found = await findings(installation)
    assert found == []
    assert (printed.code, printed.err) == (0, "")


# How installations are broken


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


def missing(component: str) -> "Break":
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


Break = Callable[[CliInstallation], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: tuple[Finding, ...]
    broken: Break | None = None
    start: Mapping[str, Any] = field(default_factory=dict)  # of the installation
    code: int = 1


WARNING = 3  # exit code
CHECKPOINTS_MISSING: Finding = (
    *("error", "api", "verticalpodautoscalercheckpoints"),
    "the API server doesn't serve autoscaling.k8s.io/v1 of it",
)
LACKS_GATE = "it needs the feature gate {}, which vpa-admission-controller and vpa-updater lack"
CASES = [
    Case(
        id="no custom resource definitions",
        broken=no_definitions,
        want=(
            CHECKPOINTS_MISSING,
            (
                *("error", "api", "verticalpodautoscalers"),
                "the API server doesn't serve autoscaling.k8s.io/v1 of it",
            ),
            ("skipped", "dry-run", "", "no VPA that changes pods has a recommendation and a pod"),
            ("skipped", "vpas", "", "the API server doesn't serve them, so none was checked"),
        ),
    ),
    Case(
        id="no definition of checkpoints",
        broken=no_checkpoint_definition,
        want=(CHECKPOINTS_MISSING, ("skipped", "checkpoints", "", "they could not be listed")),
    ),
    Case(
        id="a definition without status",
        broken=no_status_subresource,
        want=(
            (
                *("error", "api", "verticalpodautoscalers"),
                "the definition has no status subresource, which the recommender writes",
            ),
        ),
    ),
    Case(
        id="no metrics API",
        start={"metrics": Metrics.ABSENT},
        want=(("error", "metrics", "metrics.k8s.io", "the metrics API isn't served"),),
    ),
    Case(
        id="the metrics API doesn't answer",
        broken=silent_metrics,
        want=(
            (
                *("error", "metrics", "metrics.k8s.io"),
                "the metrics API fails: no endpoints available",
            ),
        ),
    ),
    Case(
        id="the metrics API has no usage yet",
        start={"metrics": Metrics.EMPTY},
        want=(
            (
                *("error", "metrics", "metrics.k8s.io"),
                "the metrics API fails: metrics not available yet",
            ),
        ),
    ),
    Case(
        id="usage is an hour old",
        start={"metrics": Metrics.STALE},
        want=(("error", "metrics", "metrics.k8s.io", "the newest usage is 60 minutes old"),),
    ),
    *(
        Case(
            id=f"{name} is missing",
            broken=missing(name),
            want=(("error", "components", name, f"no pod has the label app={name}"),),
        )
        for name in COMPONENTS
    ),
    Case(
        id="a component is not ready",
        broken=not_ready,
        want=(("error", "components", UPDATER, "its pod is not ready"),),
    ),
    Case(
        id="components of two versions",
        broken=other_version,
        want=(
            (
                *("warning", "components", ""),
                (
                    "they have different versions: vpa-admission-controller 1.8.0, "
                    "vpa-recommender 1.7.0, vpa-updater 1.8.0"
                ),
            ),
        ),
        code=WARNING,
    ),
    Case(
        id="a stuck rollout",
        broken=stuck_rollout,
        want=(
            (
                *("warning", "components", UPDATER),
                (
                    "its pods have different images: registry.example/vpa-updater:1.8.0, "
                    "registry.example/vpa-updater:1.8.1"
                ),
            ),
        ),
        code=WARNING,
    ),
    Case(
        id="two installations",
        broken=two_installations,
        want=(
            (
                *("error", "components", RECOMMENDER),
                "it runs in several namespaces: default, kube-system",
            ),
        ),
    ),
    Case(
        id="no Lease",
        broken=no_lease,
        want=(
            (
                *("error", "leases", UPDATER),
                "namespace kube-system has no Lease vpa-updater or vpa-updater-lease",
            ),
        ),
    ),
    Case(
        id="an old Lease",
        broken=expired_lease,
        want=(
            (
                *("error", "leases", ADMISSION),
                "its Lease was renewed 36?? seconds ago, so no replica is at work",
            ),
        ),
    ),
    Case(
        id="no webhook",
        broken=no_webhook,
        want=(
            (
                *("error", "webhook", ""),
                "no webhook for pods and VPAs is registered, so new pods stay as they are",
            ),
            NOT_PATCHED,
            ("skipped", "certificates", "", "no certificate could be read"),
        ),
    ),
    Case(
        id="two webhooks",
        broken=two_webhooks,
        want=(
            (
                *("warning", "webhook", ""),
                "several are registered: another-config, vpa-webhook-config",
            ),
        ),
        code=WARNING,
    ),
    Case(id="the webhook leaves namespaces out", broken=webhook_of_other_pods, want=(NOT_PATCHED,)),
    Case(id="the webhook doesn't answer", broken=webhook_down, want=(NOT_PATCHED,)),
    Case(
        id="the CA bundle is no certificate",
        broken=unreadable_ca,
        want=(
            ("error", "webhook", CONFIGURATION, "its CA bundle is no certificate"),
            NOT_PATCHED,
            ("skipped", "certificates", "", "no certificate could be read"),
        ),
    ),
    Case(id="another CA", broken=foreign_ca, want=(NOT_PATCHED,)),
    Case(
        id="the CA has ended",
        broken=expired_ca,
        want=(
            NOT_PATCHED,
            ("error", "certificates", f"CA of {CONFIGURATION}", "it ended on 20*"),
        ),
    ),
    Case(
        id="the CA ends soon",
        start={"certificates": timedelta(days=13)},
        want=(("warning", "certificates", f"CA of {CONFIGURATION}", "it ends on 20*"),),
        code=WARNING,
    ),
    Case(
        id="two VPAs with one target",
        broken=second_vpa,
        want=(
            (
                *("warning", "conflicts", "shop/web-copy"),
                "VPA web has the same target and controls its pods",
            ),
        ),
        code=WARNING,
    ),
    Case(
        id="an HPA on the same resource",
        broken=hpa,
        want=(("warning", "hpa", "shop/web", "HPA web scales on cpu utilization, too"),),
        code=WARNING,
    ),
    Case(
        id="the target is missing",
        broken=no_target,
        want=(
            (
                *("error", "targets", "shop/gone"),
                "Cannot read targetRef. Reason: Deployment shop/gone does not exist",
            ),
        ),
    ),
    Case(
        id="the target is owned",
        broken=unsupported_target,
        want=(
            (
                *("error", "targets", "shop/inner"),
                (
                    "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should "
                    "point to a topmost well-known or scalable controller: apps/v1.Deployment/web"
                ),
            ),
        ),
    ),
    Case(
        id="the target has no pods",
        broken=no_pods,
        want=(("warning", "targets", "shop/idle", "Deployment idle has no pods"),),
        code=WARNING,
    ),
    Case(
        id="no recommender processes a VPA",
        broken=not_processed,
        want=(("error", "targets", "shop/quiet", "no recommender processes it"),),
    ),
    Case(
        id="a pod without a controller",
        broken=bare_pod,
        want=(
            (
                *("warning", "bare-pods", "shop"),
                "1 without a controller, which no VPA can change: tool",
            ),
        ),
        code=WARNING,
    ),
    Case(
        id="a LimitRange below the target",
        broken=low_maximum,
        want=(
            (
                *("warning", "limit-ranges", "shop/web"),
                "app: memory target 250Mi is above the maximum 100Mi",
            ),
            ("skipped", "dry-run", "", "a pod of VPA shop/web was refused: *limit of 100Mi"),
        ),
        code=WARNING,
    ),
    Case(
        id="a quota without room",
        broken=tight_quota,
        want=(
            (
                *("warning", "quotas", "shop/quota"),
                "recommendations add 480Mi of memory requests, and 100Mi is left",
            ),
            ("skipped", "dry-run", "", "a pod of VPA shop/grows was refused: *exceeded quota: *"),
        ),
        code=WARNING,
    ),
    Case(
        id="a checkpoint without a VPA",
        broken=orphan_checkpoint,
        want=(("warning", "checkpoints", "shop/gone-app", "its VPA gone doesn't exist"),),
        code=WARNING,
    ),
    Case(
        id="a mode without its feature gate",
        broken=mode_without_gate,
        want=(("error", "features", "shop/moves", LACKS_GATE.format("InPlace")),),
    ),
    Case(
        id="a start-up boost without its feature gate",
        broken=boost_without_gate,
        want=(("error", "features", "shop/boosted", LACKS_GATE.format("CPUStartupBoost")),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_broken_installation_has_these_findings_only(case: Case, tmp_path: Path) -> None:
    async with cli_installation(tmp_path, **case.start) as installation:
        if case.broken is not None:
            await case.broken(installation)
        printed, found = await findings(installation)
    unexpected = [one for one in found if not any(matches(each, one) for each in case.want)]
    absent = [each for each in case.want if not any(matches(each, one) for one in found)]
    assert (unexpected, absent) == ([], [])
    assert printed.code == case.code


def matches(want: Finding, found: Finding) -> bool:
    return want[:3] == found[:3] and fnmatchcase(found[3], want[3])
