"""What kubectl renders from the manifests: the installation, its components and its removal."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from admission.registration import OWN_PODS
from admission.settings import AdmissionSettings
from common.flags import read_flags
from common.kube.endpoints import SECRETS
from common.runtime.settings import LeaderElectionSettings
from common.version import version
from golden_data import FOLDER as GOLDEN
from kubectl_program import needs_kubectl, rendered, rendered_with
from recommender.access import EXTERNAL_METRICS
from recommender.settings import RecommenderSettings
from role_rules import granted
from updater.settings import UpdaterSettings

pytestmark = needs_kubectl()

Object = dict[str, Any]

DEPLOY = Path(__file__).parents[2] / "deploy"
ALL, COMPONENTS = DEPLOY, DEPLOY / "components"
CONTROL_PLANE = DEPLOY / "control-plane"
REFERENCE_IMAGES = DEPLOY / "overlays" / "reference-images"
SETTINGS: dict[str, type[RecommenderSettings] | type[UpdaterSettings] | type[AdmissionSettings]] = {
    "vpa-recommender": RecommenderSettings,
    "vpa-updater": UpdaterSettings,
    "vpa-admission-controller": AdmissionSettings,
}
IMAGE = re.compile(r"(?P<registry>[\w.-]+(:\d+)?(/[\w.-]+)*)/(?P<name>[\w.-]+):(?P<tag>[\w.-]+)")


def of_kind(found: Iterable[Object], kind: str) -> list[Object]:
    return [item for item in found if item["kind"] == kind]


def named(found: Iterable[Object], kind: str, name: str) -> Object:
    (item,) = (item for item in of_kind(found, kind) if item["metadata"]["name"] == name)
    return item


def container(found: Iterable[Object], deployment: str) -> Object:
    (only,) = named(found, "Deployment", deployment)["spec"]["template"]["spec"]["containers"]
    return dict(only)


def values(args: Iterable[str]) -> list[str]:
    """Return arguments with the namespace that the kubelet fills in."""
    return [arg.replace("$(NAMESPACE)", "kube-system") for arg in args]


@pytest.mark.parametrize(
    "folder",
    [ALL, COMPONENTS, DEPLOY / "crd", DEPLOY / "rbac", CONTROL_PLANE, REFERENCE_IMAGES],
    ids=lambda folder: str(folder.relative_to(DEPLOY.parent)),
)
def test_kubectl_renders(folder: Path) -> None:
    assert rendered(folder)


def test_deleting_the_components_deletes_everything_but_the_definitions() -> None:
    """Deleting a definition deletes every VPA and every checkpoint."""
    everything, components = rendered(ALL), rendered(COMPONENTS)
    rest = [item for item in everything if item not in components]
    assert [item["kind"] for item in rest] == ["CustomResourceDefinition"] * 2
    assert of_kind(components, "CustomResourceDefinition") == []


def test_the_components_name_each_object_that_they_create() -> None:
    found = rendered(COMPONENTS)
    assert [item["metadata"]["name"] for item in of_kind(found, "Lease")] == [
        "vpa-admission-controller",
        "vpa-recommender-lease",
        "vpa-updater",
    ]
    assert "data" not in named(found, "Secret", "vpa-tls-certs")
    assert "webhooks" not in named(found, "MutatingWebhookConfiguration", "vpa-webhook-config")
    assert not [lease for lease in of_kind(found, "Lease") if "spec" in lease]


def test_the_control_plane_gets_the_components_without_pods() -> None:
    components, own = rendered(COMPONENTS), rendered(CONTROL_PLANE)
    pods = {"Deployment", "PodDisruptionBudget", "Service"}
    assert own == tuple(item for item in components if item["kind"] not in pods)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_image_has_a_registry_and_the_version_of_the_project(name: str) -> None:
    match = IMAGE.fullmatch(container(rendered(ALL), name)["image"])
    assert match is not None
    assert (match["name"], match["tag"]) == (name, version())


@pytest.mark.parametrize("name", SETTINGS)
def test_the_arguments_are_flags_of_the_program(name: str) -> None:
    args = values(container(rendered(ALL), name)["args"])
    settings: object = read_flags(SETTINGS[name], args, program=name, environ={})
    if isinstance(settings, AdmissionSettings):
        assert settings.manage_certificates
        assert settings.webhook_timeout_seconds == 5
    else:
        assert isinstance(settings, LeaderElectionSettings)
        assert settings.leader_elect
        assert settings.leader_elect_resource_namespace == "kube-system"


def test_admission_answers_until_api_servers_know_that_it_is_ending() -> None:
    found = container(rendered(ALL), "vpa-admission-controller")
    assert found["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}


@pytest.mark.parametrize("name", SETTINGS)
def test_two_replicas_survive_a_node(name: str) -> None:
    found = rendered(ALL)
    spec = named(found, "Deployment", name)["spec"]
    template = spec["template"]
    budget = named(found, "PodDisruptionBudget", name)["spec"]
    assert spec["replicas"] == 2
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == spec["selector"]
    # With the zone among the constraints, nodes without zones would spread nothing.
    (by_node,) = template["spec"]["topologySpreadConstraints"]
    affinity = template["spec"]["affinity"]["podAntiAffinity"]
    (by_zone,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    keys = (by_node["topologyKey"], by_zone["podAffinityTerm"]["topologyKey"])
    assert keys == ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    selectors = (by_node["labelSelector"], by_zone["podAffinityTerm"]["labelSelector"])
    assert selectors == (spec["selector"], spec["selector"])
    assert template["spec"]["priorityClassName"] == "system-cluster-critical"


@pytest.mark.parametrize("name", SETTINGS)
def test_pods_have_the_labels_that_others_select(name: str) -> None:
    """``app`` is the reference's selector; PodMonitors of its chart select the other two."""
    labels = named(rendered(ALL), "Deployment", name)["spec"]["template"]["metadata"]["labels"]
    assert labels == {
        "app": name,
        "app.kubernetes.io/name": "vertical-pod-autoscaler",
        "app.kubernetes.io/component": name.removeprefix("vpa-"),
    }
    assert labels["app"] in OWN_PODS


@pytest.mark.parametrize("name", SETTINGS)
def test_no_container_has_a_limit_of_cpu(name: str) -> None:
    resources = container(rendered(ALL), name)["resources"]
    assert (resources["requests"].keys(), resources["limits"].keys()) == (
        {"cpu", "memory"},
        {"memory"},
    )


def test_admission_reads_a_given_secret_without_a_permission_on_secrets(tmp_path: Path) -> None:
    found = rendered_with(tmp_path, "tls-secret", deploy=DEPLOY)
    admission = container(found, "vpa-admission-controller")
    settings = read_flags(
        AdmissionSettings, admission["args"], program="vpa-admission-controller", environ={}
    )
    assert (settings.manage_certificates, settings.reload_cert) == (False, True)
    roles = (*of_kind(found, "Role"), *of_kind(found, "ClusterRole"))
    assert not [each for each in granted(roles) if each[1] == SECRETS.resource]
    assert of_kind(found, "Secret") == []


def test_cert_manager_issues_for_the_name_of_the_service(tmp_path: Path) -> None:
    found = rendered_with(tmp_path, "cert-manager", deploy=DEPLOY)
    serving = named(found, "Certificate", "vpa-webhook")
    service = named(found, "Service", "vpa-webhook")["metadata"]
    assert serving["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    spec = named(found, "Deployment", "vpa-admission-controller")["spec"]["template"]["spec"]
    (volume,) = spec["volumes"]
    assert volume["secret"]["secretName"] == serving["spec"]["secretName"]
    assert {item["key"] for item in volume["secret"]["items"]} == {"ca.crt", "tls.crt", "tls.key"}
    hook = named(found, "MutatingWebhookConfiguration", "vpa-webhook-config")
    assert hook["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "kube-system/vpa-webhook"
    }


def test_external_metrics_get_the_role_and_the_flag_that_they_need(tmp_path: Path) -> None:
    found = rendered_with(tmp_path, "external-metrics", deploy=DEPLOY)
    role = named(found, "ClusterRole", "system:vpa-external-metrics-reader")
    assert granted([role]) == {
        permission for one in EXTERNAL_METRICS for permission in one.permissions()
    }
    args = values(container(found, "vpa-recommender")["args"])
    settings = read_flags(RecommenderSettings, args, program="vpa-recommender", environ={})
    assert settings.use_external_metrics


def test_the_dry_run_of_replacements_is_added_to_the_arguments(tmp_path: Path) -> None:
    args = container(rendered_with(tmp_path, "dry-run-preflight", deploy=DEPLOY), "vpa-updater")[
        "args"
    ]
    settings = read_flags(UpdaterSettings, values(args), program="vpa-updater", environ={})
    assert settings.replacement_dry_run


@pytest.mark.parametrize("name", SETTINGS)
def test_the_images_of_the_reference_know_all_arguments_and_paths(name: str) -> None:
    (known,) = (
        {flag["name"] for flag in program["flags"]}
        for program in json.loads((GOLDEN / "flags.json").read_text())
        if program["component"] == name.removeprefix("vpa-")
    )
    own = container(rendered(REFERENCE_IMAGES), name)
    assert own["image"].startswith("registry.k8s.io/autoscaling/")
    assert {arg.lstrip("-").partition("=")[0] for arg in own["args"]} <= known
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert own[probe]["httpGet"]["path"] == "/health-check"
