"""The checks of ``kubectl vpa doctor``: broken installations, and a healthy one."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import admission.access
import builders
import recommender.access
import updater.access
from common.api.autoscaling import (
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
    VpaCondition,
    VpaStatus,
)
from common.api.coordination import Lease, LeaseSpec
from common.api.core import (
    LimitRangeItem,
    LimitRangeSpec,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
)
from common.api.meta import ObjectMeta
from kubectl_vpa.cluster.needed_permissions import NEEDED
from kubectl_vpa.commands.doctor import find
from kubectl_vpa.judge.findings import (
    ADMISSION,
    COMPONENTS,
    RECOMMENDER,
    UPDATER,
    Certificate,
    ComponentPod,
    DryRun,
    Facts,
    Webhook,
)
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.vpa_status import VpaFacts, judge_vpa
from kubectl_vpa.results.doctor import Finding, Severity

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LATER = NOW + timedelta(days=300)
LEASES = {
    RECOMMENDER: "vpa-recommender-lease",
    UPDATER: "vpa-updater",
    ADMISSION: "vpa-admission-controller",
}


def component(name: str, **changes: Any) -> ComponentPod:
    made = ComponentPod(
        component=name,
        namespace="kube-system",
        name=f"{name}-1",
        account=f"system:serviceaccount:kube-system:{name}",
        image=f"registry.example:5000/vpa/{name}:1.8.0",
        ready=True,
        arguments=("--v=4", "--leader-elect=true"),
    )
    return dataclasses.replace(made, **changes)


def lease(renewed: datetime | None = NOW - SECOND) -> Lease:
    return Lease(metadata=ObjectMeta(), spec=LeaseSpec(holder_identity="pod-1", renew_time=renewed))


def vpa(
    name: str = "web", mode: str = "Recreate", *conditions: tuple[str, str], target: str = "100m"
) -> VerticalPodAutoscaler:
    numbers = (builders.recommendation(target={"cpu": target, "memory": "100Mi"}),)
    made = builders.vpa(name, mode=mode, recommendations=numbers, created=NOW - timedelta(days=1))
    if not conditions:
        return made
    listed = tuple(
        VpaCondition(type=kind, status="True", message=text) for kind, text in conditions
    )
    return replace(made, status=VpaStatus(conditions=listed))


def about(autoscaler: VerticalPodAutoscaler, count: int = 2, **changes: Any) -> VpaFacts:
    groups = PodGroups()
    groups.add(builders.pod(f"web-{number}") for number in range(count))
    made = VpaFacts(vpa=autoscaler, groups=list(groups.groups.values()))
    return dataclasses.replace(made, **changes)


WEBHOOK = Webhook(
    configuration="vpa-webhook-config",
    namespace="kube-system",
    service="vpa-webhook",
    ca_bundle=b"pem",
    expires=LATER,
    service_exists=True,
    ready_endpoints=2,
)
PODS = tuple(map(component, COMPONENTS))
HEALTHY = Facts(
    now=NOW,
    minor=34,
    served=(
        *("verticalpodautoscalers", "verticalpodautoscalers/status"),
        "verticalpodautoscalercheckpoints",
    ),
    resize_served=True,
    metrics=(NOW - timedelta(minutes=1),),
    components=PODS,
    leases={("kube-system", name): lease() for name in LEASES.values()},
    denied={pod.account: () for pod in PODS},
    webhooks=(WEBHOOK,),
    dry_run=DryRun(vpa="default/web", patched=True),
    certificates=(Certificate(secret="kube-system/vpa-tls-certs", expires=LATER),),
    vpas=(about(vpa()),),
    hpas_seen=True,
    bare_pods=(),
    quotas=(),
    checkpoints=(("default", "web-app", "web"),),
)


def findings(facts: Facts) -> list[Finding]:
    judged = [judge_vpa(each, now=NOW) for each in facts.vpas]
    complete = dataclasses.replace(facts, results=judged)
    return list(find(complete))


def test_a_healthy_installation_has_one_line_for_each_check() -> None:
    found = findings(HEALTHY)
    assert {each.severity for each in found} == {Severity.OK}
    assert len(found) == len({each.check for each in found}) == 16


def without(name: str) -> tuple[ComponentPod, ...]:
    return tuple(pod for pod in PODS if pod.component != name)


def other_leases(**changed: Lease | None) -> dict[tuple[str, str], Lease]:
    """Return the Leases of an installation, some changed or missing."""
    found: dict[str, Lease | None] = {LEASES[name]: lease() for name in COMPONENTS}
    for name, each in changed.items():
        found[LEASES[f"vpa-{name.replace('_', '-')}"]] = each
    return {("kube-system", name): each for name, each in found.items() if each is not None}


def quota(hard: str, used: str, **spec: Any) -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name="team", namespace="default"),
        spec=ResourceQuotaSpec(**spec),
        status=ResourceQuotaStatus(hard={"requests.cpu": hard}, used={"requests.cpu": used}),
    )


def limited(**item: Any) -> VpaFacts:
    spec = LimitRangeSpec(limits=(LimitRangeItem(type="Container", **item),))
    return about(vpa(), limit_ranges=(spec,))


BOOSTED = replace(
    vpa(), spec=replace(vpa().spec, startup_boost=StartupBoost(cpu=GenericStartupBoost(factor=2)))
)
GATED = tuple(
    component(name, arguments=(*component(name).arguments, "--feature-gates=InPlace=true"))
    for name in COMPONENTS
)
ERROR, WARNING = Severity.ERROR, Severity.WARNING


@dataclass(frozen=True)
class Case:
    id: str
    change: dict[str, Any]
    check: str
    severity: Severity
    message: str
    about: str = ""


CASES = [
    Case(
        "custom resources aren't served",
        {"served": ()},
        "api",
        ERROR,
        "the API server doesn't serve autoscaling.k8s.io/v1 of it",
        "verticalpodautoscalers",
    ),
    Case(
        "the definition has no status subresource",
        {"served": ("verticalpodautoscalers", "verticalpodautoscalercheckpoints")},
        "api",
        ERROR,
        "the definition has no status subresource, which the recommender writes",
        "verticalpodautoscalers",
    ),
    Case(
        "no metrics API",
        {"metrics": None, "metrics_error": "the metrics API isn't served"},
        "metrics",
        ERROR,
        "the metrics API isn't served",
        "metrics.k8s.io",
    ),
    Case(
        "the metrics API has no usage",
        {"metrics": ()},
        "metrics",
        WARNING,
        "no pod has usage",
        "metrics.k8s.io",
    ),
    Case(
        "usage is old",
        {"metrics": (NOW - timedelta(minutes=5) - SECOND,)},
        "metrics",
        ERROR,
        "the newest usage is 5 minutes old",
        "metrics.k8s.io",
    ),
    *(
        Case(
            f"{name} isn't installed",
            {"components": without(name)},
            "components",
            ERROR,
            f"no pod has the label app={name}",
            name,
        )
        for name in COMPONENTS
    ),
    Case(
        "a component isn't ready",
        {"components": (*without(UPDATER), component(UPDATER, ready=False))},
        "components",
        ERROR,
        "its pod is not ready",
        UPDATER,
    ),
    Case(
        "a rollout is stuck",
        {"components": (*PODS, component(UPDATER, image="x/vpa-updater:1.8.0"))},
        "components",
        WARNING,
        "its pods have different images: registry.example:5000/vpa/vpa-updater:1.8.0, "
        "x/vpa-updater:1.8.0",
        UPDATER,
    ),
    Case(
        "components of two versions",
        {"components": (*without(UPDATER), component(UPDATER, image="x/vpa-updater:1.7.0"))},
        "components",
        WARNING,
        "they have different versions: vpa-admission-controller 1.8.0, vpa-recommender 1.8.0, "
        "vpa-updater 1.7.0",
    ),
    Case(
        "two installations",
        {"components": (*PODS, component(UPDATER, namespace="vpa"))},
        "components",
        ERROR,
        "it runs in several namespaces: kube-system, vpa",
        UPDATER,
    ),
    Case(
        "no replica leads",
        {"leases": other_leases(recommender=lease(NOW - timedelta(minutes=2) - SECOND))},
        "leases",
        ERROR,
        "its Lease was renewed 121 seconds ago, so no replica is at work",
        RECOMMENDER,
    ),
    Case(
        "no Lease",
        {"leases": other_leases(admission_controller=None)},
        "leases",
        ERROR,
        "namespace kube-system has no Lease vpa-admission-controller",
        ADMISSION,
    ),
    Case(
        "an account lacks a permission",
        {"denied": {"system:serviceaccount:kube-system:vpa-updater": ("create pods/eviction",)}},
        "rbac",
        ERROR,
        "it may not create pods/eviction",
        "system:serviceaccount:kube-system:vpa-updater",
    ),
    Case(
        "the webhook isn't registered",
        {"webhooks": ()},
        "webhook",
        ERROR,
        "no webhook for pods and VPAs is registered, so new pods stay as they are",
    ),
    Case(
        "two webhooks",
        {"webhooks": (WEBHOOK, dataclasses.replace(WEBHOOK, configuration="old"))},
        "webhook",
        WARNING,
        "several are registered: vpa-webhook-config, old",
    ),
    Case(
        "the webhook's Service is missing",
        {"webhooks": (dataclasses.replace(WEBHOOK, service_exists=False),)},
        "webhook",
        ERROR,
        "Service kube-system/vpa-webhook doesn't exist",
        "vpa-webhook-config",
    ),
    Case(
        "no pod is behind the webhook's Service",
        {"webhooks": (dataclasses.replace(WEBHOOK, ready_endpoints=0),)},
        "webhook",
        ERROR,
        "Service kube-system/vpa-webhook has no ready pod",
        "vpa-webhook-config",
    ),
    Case(
        "the CA bundle is no certificate",
        {"webhooks": (dataclasses.replace(WEBHOOK, expires=None),)},
        "webhook",
        ERROR,
        "its CA bundle is no certificate",
        "vpa-webhook-config",
    ),
    Case(
        "there is no CA bundle",
        {"webhooks": (dataclasses.replace(WEBHOOK, expires=None, ca_bundle=b""),)},
        "webhook",
        ERROR,
        "it has no CA bundle, so no call can succeed",
        "vpa-webhook-config",
    ),
    Case(
        "the CA has ended",
        {"webhooks": (dataclasses.replace(WEBHOOK, expires=NOW),)},
        "certificates",
        ERROR,
        "it ended on 2026-01-02",
        "CA of vpa-webhook-config",
    ),
    Case(
        "another CA signed the serving certificate",
        {"certificates": (Certificate(secret="s/c", expires=LATER, untrusted_by="hook"),)},
        "certificates",
        ERROR,
        "the CA in hook didn't sign it, so the API server refuses it",
        "Secret s/c",
    ),
    Case(
        "the serving certificate has ended",
        {"certificates": (Certificate(secret="s/c", expires=NOW),)},
        "certificates",
        ERROR,
        "it ended on 2026-01-02",
        "Secret s/c",
    ),
    Case(
        "the serving certificate ends soon",
        {"certificates": (Certificate(secret="s/c", expires=NOW + timedelta(days=14) - SECOND),)},
        "certificates",
        WARNING,
        "it ends on 2026-01-15",
        "Secret s/c",
    ),
    Case(
        "new pods aren't patched",
        {"dry_run": DryRun(vpa="default/web")},
        "dry-run",
        ERROR,
        "a new pod would not be patched",
        "VPA default/web",
    ),
    Case(
        "two VPAs with one target",
        {"vpas": (about(vpa(), controlled_by="older"),)},
        "conflicts",
        WARNING,
        "VPA older has the same target and controls its pods",
        "default/web",
    ),
    Case(
        "the target doesn't exist",
        {"vpas": (about(vpa("web", "Recreate", ("ConfigUnsupported", "no such Deployment"))),)},
        "targets",
        ERROR,
        "no such Deployment",
        "default/web",
    ),
    Case(
        "the target has no pods",
        {"vpas": (about(vpa("web", "Recreate", ("NoPodsMatched", "")), count=0),)},
        "targets",
        WARNING,
        "Deployment web has no pods",
        "default/web",
    ),
    Case(
        "no recommender processes a VPA",
        {"vpas": (about(replace(vpa(), status=VpaStatus())),)},
        "targets",
        ERROR,
        "no recommender processes it",
        "default/web",
    ),
    Case(
        "pods without a controller",
        {"bare_pods": (("default", "by-hand"), ("elsewhere", "other"))},
        "bare-pods",
        WARNING,
        "1 without a controller, which no VPA can change: by-hand",
        "default",
    ),
    Case(
        "a LimitRange below the target",
        {"vpas": (limited(max={"cpu": "99m"}),)},
        "limit-ranges",
        WARNING,
        "app: cpu target 100m is above the maximum 99m",
        "default/web",
    ),
    Case(
        "a LimitRange above the target",
        {"vpas": (limited(min={"memory": "101Mi"}),)},
        "limit-ranges",
        WARNING,
        "app: memory target 100Mi is below the minimum 101Mi",
        "default/web",
    ),
    Case(
        "a quota without room",
        {"vpas": (about(vpa(target="200m")),), "quotas": (quota("1", "801m"),)},
        "quotas",
        WARNING,
        "recommendations add 200m of cpu requests, and 199m is left",
        "default/team",
    ),
    Case(
        "a checkpoint without VPA",
        {"checkpoints": (("default", "gone-app", "gone"),)},
        "checkpoints",
        WARNING,
        "its VPA gone doesn't exist",
        "default/gone-app",
    ),
    Case(
        "a cluster without in-place updates",
        {"minor": 32},
        "features",
        WARNING,
        "in-place updates need 1.33",
        "Kubernetes 1.32",
    ),
    Case(
        "in-place updates are switched off",
        {"resize_served": False, "vpas": (about(vpa("web", "InPlaceOrRecreate")),)},
        "features",
        ERROR,
        "mode InPlaceOrRecreate, but the API server has no resize of pods",
        "default/web",
    ),
    Case(
        "the gate of a mode is off",
        {"vpas": (about(vpa("web", "InPlace")),)},
        "features",
        ERROR,
        "it needs the feature gate InPlace, which vpa-admission-controller and vpa-updater lack",
        "default/web",
    ),
    Case(
        "the gate of start-up boosts is off",
        {"components": GATED, "vpas": (about(BOOSTED),)},
        "features",
        ERROR,
        "it needs the feature gate CPUStartupBoost, which vpa-admission-controller and vpa-updater "
        "lack",
        "default/web",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_broken_installation_has_one_finding_with_a_remedy(case: Case) -> None:
    found = findings(dataclasses.replace(HEALTHY, **case.change))
    bad = [each for each in found if each.check == case.check and each.severity is not Severity.OK]
    assert (case.severity, case.about, case.message) in [
        (each.severity, each.about, each.message) for each in bad
    ]
    assert all(each.remedy for each in bad)


FINE = [
    ("usage is five minutes old", {"metrics": (NOW - timedelta(minutes=5),)}),
    ("a Lease of two minutes ago", {"leases": other_leases(updater=lease(NOW - 120 * SECOND))}),
    ("the gate of the mode is on", {"components": GATED, "vpas": (about(vpa("w", "InPlace")),),
                                    "checkpoints": ()}),
    ("a quota with just enough room", {"vpas": (about(vpa(target="200m")),),
                                       "quotas": (quota("1", "800m"),)}),
    ("a quota of some pods only", {"vpas": (about(vpa(target="200m")),),
                                   "quotas": (quota("1", "1", scopes=("BestEffort",)),)}),
    ("a LimitRange around the target", {
        "vpas": (limited(max={"cpu": "100m"}, min={"cpu": "1m"}),)}),
    ("a webhook that is called by URL", {"webhooks": (
        Webhook(configuration="c", url="https://h", ca_bundle=b"pem", expires=LATER),)}),
    ("a certificate for two weeks", {"certificates": (
        Certificate(secret="s/c", expires=NOW + timedelta(days=14)),)}),
    ("one replica without leader election", {
        "components": tuple(component(name, arguments=()) for name in COMPONENTS),
        "leases": {("kube-system", "vpa-admission-controller"): lease()}}),
    ("a Lease of another name", {
        "components": (*without(UPDATER), component(UPDATER, arguments=(
            "--leader-elect=true", "--leader-elect-resource-name=mine"))),
        "leases": other_leases(updater=None) | {("kube-system", "mine"): lease()}}),
]  # fmt: skip  # a table: a row or two for each case


@pytest.mark.parametrize("change", [pytest.param(each, id=name) for name, each in FINE])
def test_what_is_fine_has_no_finding(change: dict[str, Any]) -> None:
    found = findings(dataclasses.replace(HEALTHY, **change))
    assert {each.severity for each in found} == {Severity.OK}


def test_what_could_not_be_read_is_skipped() -> None:
    found = findings(Facts(now=NOW))
    skipped = {each.check for each in found if each.severity is Severity.SKIPPED}
    assert skipped == {
        *("api", "metrics", "components", "leases", "rbac", "webhook", "dry-run"),
        *("certificates", "hpa", "bare-pods", "quotas", "checkpoints"),
    }
    assert {each.severity for each in found} == {Severity.SKIPPED, Severity.OK}


def test_without_their_definition_no_vpa_is_checked() -> None:
    found = findings(dataclasses.replace(HEALTHY, served=(), vpas=(), bare_pods=None))
    (skip,) = (each for each in found if each.severity is Severity.SKIPPED)
    assert skip.check == "vpas"
    assert "conflicts" not in {each.check for each in found}


def test_a_refused_dry_run_is_no_error() -> None:
    refused = DryRun(vpa="default/web", refused="exceeded quota")
    found = findings(dataclasses.replace(HEALTHY, dry_run=refused))
    (finding,) = (each for each in found if each.check == "dry-run")
    assert finding.severity is Severity.SKIPPED
    assert finding.message == "a pod of VPA default/web was refused: exceeded quota"


def test_many_findings_of_one_check_are_cut() -> None:
    orphans = tuple(("default", f"gone-{number:02}", "gone") for number in range(23))
    found = findings(dataclasses.replace(HEALTHY, checkpoints=orphans))
    listed = [each for each in found if each.check == "checkpoints"]
    assert len(listed) == 21
    assert listed[-1].message == "3 more like these"


@pytest.mark.parametrize(
    ("component", "access"),
    [
        (RECOMMENDER, recommender.access.ACCESS),
        (UPDATER, updater.access.ACCESS),
        (ADMISSION, admission.access.ACCESS),
    ],
)
def test_needed_permissions_are_among_those_of_our_roles(component: str, access: Any) -> None:
    granted = {one[:3] for each in access for one in each.permissions()}
    assert {one[:3] for each in NEEDED[component] for one in each.permissions()} <= granted
