"""The objects of the Helm chart are those of the manifests, with every option."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

import admission.registration
import page_commands
from admission.settings import AdmissionSettings
from chart_matrix import (
    EVERYTHING,
    FAIL,
    HOST_NETWORK,
    ISSUER,
    MATRIX,
    MONITORING,
    SELECTORS,
    Values,
)
from common.flags import read_flags
from common.version import version
from helm_program import CHART, NEEDS_HELM, helm, template
from kubectl_program import needs_kubectl, rendered, rendered_with
from recommender.settings import RecommenderSettings
from updater.settings import UpdaterSettings

pytestmark = [*NEEDS_HELM, *needs_kubectl()]

Object = dict[str, Any]
Identity = tuple[str, str, str]

DEPLOY = CHART.parent
HELMS_LABELS = {
    "helm.sh/chart": f"vertical-pod-autoscaler-{version()}",
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/instance": "vpa",
    "app.kubernetes.io/version": version(),
}
KEEP = {"helm.sh/resource-policy": "keep"}
SETTINGS = {
    "vpa-recommender": RecommenderSettings,
    "vpa-updater": UpdaterSettings,
    "vpa-admission-controller": AdmissionSettings,
}


def identity(item: Object) -> Identity:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def by_identity(items: Iterable[Object]) -> dict[Identity, Object]:
    found = list(items)
    indexed = {identity(item): item for item in found}
    assert len(indexed) == len(found)
    return indexed


def without_helms_metadata(items: Iterable[Object]) -> dict[Identity, Object]:
    """Return the objects without the labels and annotations that Helm's conventions add."""
    found = by_identity(copy.deepcopy(list(items)))
    for item in found.values():
        metadata = item["metadata"]
        added = {"labels": HELMS_LABELS, "annotations": KEEP}
        for part, own in added.items():
            rest = {k: v for k, v in metadata.pop(part, {}).items() if own.get(k) != v}
            metadata.update({part: rest} if rest else {})
    return found


def deployment(items: Iterable[Object], name: str) -> Object:
    return by_identity(items)["Deployment", "kube-system", name]


def pod(items: Iterable[Object], name: str) -> Object:
    spec = deployment(items, name)["spec"]["template"]["spec"]
    return dict(spec)


def settings(items: Iterable[Object], name: str) -> Any:
    (container,) = pod(items, name)["containers"]
    args = [arg.replace("$(NAMESPACE)", "kube-system") for arg in container["args"]]
    return read_flags(SETTINGS[name], args, program=name, environ={})


# The same objects as kustomize


def test_the_default_values_render_the_manifests() -> None:
    assert without_helms_metadata(template()) == by_identity(rendered(DEPLOY))


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("external-metrics", {"externalMetrics": {"enabled": True}}),
        ("namespace-vpas", {"namespaceVpas": {"enabled": True}}),
        ("dry-run-preflight", {"dryRunPreflight": {"enabled": True}}),
        ("network-policy", {"networkPolicy": {"enabled": True}}),
        ("tls-secret", {"certificates": {"mode": "secret"}}),
        ("cert-manager", {"certificates": {"mode": "cert-manager"}}),
    ],
)
def test_an_option_renders_the_component(component: str, values: Values, tmp_path: Path) -> None:
    wanted = by_identity(rendered_with(tmp_path, component, deploy=DEPLOY))
    assert without_helms_metadata(template(values)) == wanted


def test_monitoring_renders_its_manifests() -> None:
    added = without_helms_metadata(template(MONITORING))
    for each in without_helms_metadata(template()):
        del added[each]
    assert added == by_identity(rendered(DEPLOY / "monitoring"))


@pytest.mark.parametrize(
    "values",
    [{}, EVERYTHING, {"certificates": {"mode": "secret"}}],
    ids=["defaults", "everything", "secret"],
)
def test_no_object_names_another_namespace_than_that_of_the_release(values: Values) -> None:
    for item in template(values, namespace="autoscaling"):
        if item["kind"] != "CustomResourceDefinition":  # descriptions may have examples
            assert "kube-system" not in json.dumps(item), identity(item)


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_every_object_has_the_labels_of_helm(values: Values) -> None:
    added = HELMS_LABELS | values.get("labels", {})
    for item in template(values):
        assert added.items() <= item["metadata"]["labels"].items(), identity(item)
        annotations = item["metadata"].get("annotations", {})
        assert values.get("annotations", {}).items() <= annotations.items(), identity(item)


# Lint


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_lint_has_nothing_to_say(values: Values) -> None:
    lines = helm("lint", str(CHART), "--strict", "--quiet", values=values)
    assert lines.strip() in ("", "1 chart(s) linted, 0 chart(s) failed")


def test_a_package_contains_what_the_links_point_to(tmp_path: Path) -> None:
    helm("package", str(CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.iterdir()
    text = helm("template", "vpa", str(archive), "--namespace=kube-system", values={})
    assert by_identity(each for each in yaml.safe_load_all(text) if each) == by_identity(template())


# Definitions


@pytest.mark.parametrize(("keep", "annotated"), [(True, 2), (False, 0)])
def test_definitions_are_kept_unless_the_values_say_otherwise(keep: bool, annotated: int) -> None:  # noqa: FBT001 - a parameter of the table
    items = template({"crds": {"keep": keep}})
    kept = [
        item for item in items if KEEP.items() <= item["metadata"].get("annotations", {}).items()
    ]
    assert [item["kind"] for item in kept] == ["CustomResourceDefinition"] * annotated


def test_definitions_can_be_left_to_others() -> None:
    kinds = {item["kind"] for item in template({"crds": {"install": False}})}
    assert "CustomResourceDefinition" not in kinds


# Pods


def test_values_of_pods_reach_all_components_and_a_component_replaces_them() -> None:
    items = template(EVERYTHING)
    recommender, updater = pod(items, "vpa-recommender"), pod(items, "vpa-updater")
    assert updater["tolerations"] == [{"operator": "Exists"}]
    assert "tolerations" not in recommender
    assert updater["priorityClassName"] == "system-cluster-critical"
    assert "priorityClassName" not in recommender
    assert (updater["hostNetwork"], updater["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "hostNetwork" not in recommender
    for each in (recommender, updater):
        assert each["imagePullSecrets"] == [{"name": "registry"}]
        assert each["nodeSelector"] == {"kubernetes.io/os": "linux", "role": "infra"}
        assert each["affinity"] == {"nodeAffinity": {}}
        assert each["containers"][0]["env"][1:] == EVERYTHING["pods"]["env"]


def test_a_digest_replaces_the_tag() -> None:
    items = template(EVERYTHING)
    images = [pod(items, name)["containers"][0]["image"] for name in SETTINGS]
    assert images == [
        f"localhost:5000/vpa-recommender@sha256:{'0' * 64}",
        "localhost:5000/vpa-updater:9",
        "localhost:5000/vpa-admission-controller:9",
    ]


def test_a_constraint_with_a_selector_keeps_it() -> None:
    constraint = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    own = constraint | {"labelSelector": {"matchLabels": {"tier": "control"}}}
    items = template({"pods": {"topologySpreadConstraints": [constraint, own]}})
    assert pod(items, "vpa-updater")["topologySpreadConstraints"] == [
        constraint | {"labelSelector": {"matchLabels": {"app": "vpa-updater"}}},
        own,
    ]


def test_ports_of_the_host_network_are_those_of_the_flags() -> None:
    items = template(HOST_NETWORK)
    found = settings(items, "vpa-admission-controller")
    (container,) = pod(items, "vpa-admission-controller")["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (found.port, found.address) == (9443, ":9444")
    assert ports == {"webhook": 9443, "prometheus": 9444}
    service = by_identity(items)["Service", "kube-system", "vpa-webhook"]
    assert service["spec"]["ports"] == [{"port": 443, "targetPort": 9443}]
    strategy = deployment(items, "vpa-admission-controller")["spec"]["strategy"]
    assert strategy == {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


def test_without_leader_election_there_is_no_lease() -> None:
    leases = [name for kind, _, name in by_identity(template(EVERYTHING)) if kind == "Lease"]
    assert sorted(leases) == ["vpa-admission-controller", "vpa-updater"]


@pytest.mark.parametrize(
    ("addresses", "ops", "webhook"),
    [
        pytest.param([], [], None, id="unknown addresses of API servers"),
        pytest.param(["10.0.0.1/32"], ["10.0.0.1/32"], ["10.0.0.1/32"], id="known addresses"),
    ],
)
def test_api_servers_reach_the_ops_ports_and_call_the_webhook(
    addresses: list[str], ops: list[str], webhook: list[str] | None
) -> None:
    found = by_identity(template({"networkPolicy": {"enabled": True, "apiServers": addresses}}))

    def blocks(name: str) -> list[str] | None:
        (rule,) = found["NetworkPolicy", "kube-system", name]["spec"]["ingress"]
        callers = rule.get("from")
        if callers is None:
            return None  # all callers
        return [each["ipBlock"]["cidr"] for each in callers if "ipBlock" in each]

    assert (blocks("vpa-ops"), blocks("vpa-webhook")) == (ops, webhook)


def test_the_addresses_of_api_servers_are_read_in_their_own_namespace() -> None:
    found = by_identity(template(EVERYTHING, namespace="autoscaling"))
    binding = found["RoleBinding", "default", "system:vpa-api-server-addresses"]
    assert ("Role", "default", "system:vpa-api-server-addresses") in found
    assert {subject["namespace"] for subject in binding["subjects"]} == {"autoscaling"}


def test_rules_become_a_role_of_the_account() -> None:
    found = by_identity(template(EVERYTHING))
    name = "system:vpa-recommender-additional"
    binding = found["ClusterRoleBinding", "", name]
    assert found["ClusterRole", "", name]["rules"] == EVERYTHING["recommender"]["rules"]
    assert binding["roleRef"]["name"] == name
    assert [subject["name"] for subject in binding["subjects"]] == ["vpa-recommender"]


# Flags


@pytest.mark.parametrize("name", SETTINGS)
def test_values_become_flags_that_the_program_knows(name: str) -> None:
    found = settings(template(EVERYTHING), name)
    assert found.ignored_vpa_object_namespaces == ("kube-public", "kube-node-lease")
    assert str(found.feature_gates) == "InPlace=true"


def test_flags_of_a_component_come_from_its_values() -> None:
    items = template(EVERYTHING)
    recommender = settings(items, "vpa-recommender")
    assert (recommender.leader_elect, recommender.memory_saver) == (False, True)
    assert recommender.namespace_vpas
    assert recommender.use_external_metrics
    assert recommender.external_metrics_cpu_metric == "cpu"
    assert recommender.external_metrics_memory_metric == "memory"
    assert settings(items, "vpa-updater").replacement_dry_run


def test_labels_of_the_webhook_become_a_flag() -> None:
    items = template({"webhook": {"labels": {"tier": "control", "team": "platform"}}})
    text = settings(items, "vpa-admission-controller").webhook_labels
    labels = admission.registration.parse_labels(text)
    assert labels == {"tier": "control", "team": "platform"}


# The webhook


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ({}, []),
        ({"vpaNamespace": "shop"}, [("In", ["shop"])]),
        ({"ignoredNamespaces": ["a", "b"]}, [("NotIn", ["a", "b"])]),
    ],
    ids=["all namespaces", "one namespace", "ignored namespaces"],
)
def test_with_selectors_the_configuration_is_that_of_admission_and_the_selectors(
    values: Values, namespaces: list[tuple[str, list[str]]]
) -> None:
    items = template(FAIL | values)
    flags = settings(items, "vpa-admission-controller")
    assert flags.register_webhook
    wanted = admission.registration.configuration(
        admission.registration.of_settings(flags, namespace="kube-system"), b""
    )

    items = template(values | {"webhook": FAIL["webhook"] | SELECTORS["webhook"]})
    assert not settings(items, "vpa-admission-controller").register_webhook
    found = by_identity(items)["MutatingWebhookConfiguration", "", "vpa-webhook-config"]
    (hook,), (own,) = found["webhooks"], wanted["webhooks"]
    selector = hook.pop("namespaceSelector")
    assert selector.pop("matchLabels") == {"vpa": "enabled"}
    assert selector.pop("matchExpressions", []) == [
        {"key": "kubernetes.io/metadata.name", "operator": operator, "values": names}
        for operator, names in namespaces
    ]
    assert selector == {}
    expressions = own.pop("objectSelector")["matchExpressions"]
    assert hook.pop("objectSelector") == {
        "matchExpressions": [{"key": "vpa", "operator": "Exists"}, *expressions]
    }
    del own["namespaceSelector"]
    assert hook == own


def test_helm_writes_nothing_that_components_fill() -> None:
    """A three-way merge changes the fields that the chart has or had."""
    found = by_identity(template())
    secret = found["Secret", "kube-system", "vpa-tls-certs"]
    assert secret.keys() == {"apiVersion", "kind", "metadata", "type"}
    hook = found["MutatingWebhookConfiguration", "", "vpa-webhook-config"]
    assert hook.keys() == {"apiVersion", "kind", "metadata"}
    for (kind, _, _), item in found.items():
        assert kind != "Lease" or item.keys() == {"apiVersion", "kind", "metadata"}


def test_an_issuer_of_the_cluster_replaces_the_own_authority() -> None:
    found = by_identity(template(ISSUER))
    certificates = {key: item for key, item in found.items() if key[0] in ("Certificate", "Issuer")}
    assert [name for _, _, name in certificates] == ["vpa-webhook"]
    (certificate,) = certificates.values()
    assert certificate["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "internal"}
    (volume,) = pod(found.values(), "vpa-admission-controller")["volumes"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"] == "webhook"


# Its page


def test_the_values_of_the_page_are_accepted() -> None:
    (shown,) = page_commands.manifests(page_commands.CHART).values()
    objects = by_identity(template(yaml.safe_load(shown)))
    pods = objects["Deployment", "kube-system", "vpa-admission-controller"]["spec"]["template"]
    assert pods["spec"]["hostNetwork"] is True
