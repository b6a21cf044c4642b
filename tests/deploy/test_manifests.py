"""The manifests: they are consistent, and agree with the specification."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"  # its templates are no YAML
KUSTOMIZATIONS = sorted(DEPLOY.rglob("kustomization.yaml"))
NO_OBJECTS = {"kustomization.yaml", "rules.yaml", "kube-state-metrics.yaml"}  # read by programs


def objects(*folders: str) -> Iterator[dict[str, Any]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            if CHART not in path.parents and path.name != "kustomization.yaml":
                yield from yaml.safe_load_all(path.read_text("utf-8"))


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [item for item in objects("deploy") if item.get("kind") == kind]


def definition(plural: str) -> dict[str, Any]:
    return next(
        item
        for item in of_kind("CustomResourceDefinition")
        if item["spec"]["names"]["plural"] == plural
    )


@pytest.mark.parametrize("page", KUSTOMIZATIONS, ids=lambda page: page.parent.name)
def test_a_kustomization_names_every_manifest_of_its_folder(page: Path) -> None:
    listed = yaml.safe_load(page.read_text("utf-8")).get("resources", ())
    there = {path.name for path in page.parent.glob("*.yaml")} - NO_OBJECTS
    assert {name for name in listed if name.endswith(".yaml")} == there
    for folder in set(listed) - there:
        assert (page.parent / folder / "kustomization.yaml").exists(), folder


def test_definitions_serve_v1_only_and_keep_the_short_names() -> None:
    for plural, short in (
        ("verticalpodautoscalers", "vpa"),
        ("verticalpodautoscalercheckpoints", "vpacheckpoint"),
    ):
        spec = definition(plural)["spec"]
        served = {v["name"]: (v["served"], v["storage"]) for v in spec["versions"]}
        assert served == {"v1": (True, True), "v1beta2": (False, False)}
        assert spec["names"]["shortNames"] == [short]
        assert spec["scope"] == "Namespaced"


def test_only_the_vpa_has_a_status_subresource() -> None:
    vpa = definition("verticalpodautoscalers")["spec"]["versions"][0]
    checkpoint = definition("verticalpodautoscalercheckpoints")["spec"]["versions"][0]
    assert vpa["subresources"] == {"status": {}}
    assert "subresources" not in checkpoint


def test_printer_columns() -> None:
    columns = definition("verticalpodautoscalers")["spec"]["versions"][0][
        "additionalPrinterColumns"
    ]
    assert [(column["name"], column.get("priority", 0)) for column in columns] == [
        ("Mode", 0),
        ("CPU", 0),
        ("Mem", 0),
        ("Provided", 0),
        ("Age", 0),
        ("MinReplicas", 1),
        ("OOMSeconds", 1),
    ]


def test_printer_columns_of_checkpoints() -> None:
    columns = definition("verticalpodautoscalercheckpoints")["spec"]["versions"][0][
        "additionalPrinterColumns"
    ]
    names = [column["name"] for column in columns if not column.get("priority")]
    assert names == ["VPA", "Container", "Samples", "Saved", "Age"]


def test_the_quantity_pattern_matches_only_quantities() -> None:
    schema = definition("verticalpodautoscalers")["spec"]["versions"][0]["schema"]
    policy = schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["resourcePolicy"]
    container = policy["properties"]["containerPolicies"]["items"]["properties"]
    pattern = re.compile(container["minAllowed"]["additionalProperties"]["pattern"])
    for good in ("1", "250m", "1.5Gi", "-1", "1e3", ".5", "12E", "5n"):
        assert pattern.search(good), good
    for bad in ("lots", "1 Gi", "1gi", "", "1mm"):
        assert not pattern.search(bad), bad


def test_every_role_is_bound_to_an_account_that_a_pod_of_ours_uses() -> None:
    accounts = {item["metadata"]["name"] for item in of_kind("ServiceAccount")}
    templates = [item["spec"]["template"] for item in of_kind("Deployment")]
    used = {template["spec"]["serviceAccountName"] for template in templates}
    assert used == accounts
    for binding, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        bound = {item["roleRef"]["name"] for item in of_kind(binding)}
        assert bound == {item["metadata"]["name"] for item in of_kind(role)}
        subjects = {subject["name"] for item in of_kind(binding) for subject in item["subjects"]}
        assert subjects <= accounts


def test_no_rule_grants_everything() -> None:
    for role in (*of_kind("ClusterRole"), *of_kind("Role")):
        for rule in role["rules"]:
            assert "*" not in rule["verbs"], role["metadata"]["name"]
            if rule["apiGroups"] != ["external.metrics.k8s.io"]:  # an adapter names its resources
                assert "*" not in rule["resources"], role["metadata"]["name"]


def test_selectors_match_their_templates() -> None:
    for item in (*of_kind("Deployment"), *objects("examples")):
        if item["kind"] == "Deployment":
            labels = item["spec"]["template"]["metadata"]["labels"]
            assert item["spec"]["selector"]["matchLabels"].items() <= labels.items()
    service = of_kind("Service")[0]
    admission = next(
        item for item in of_kind("Deployment") if item["metadata"]["name"].endswith("controller")
    )
    labels = admission["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_every_example_has_a_vpa_on_its_deployment() -> None:
    items = list(objects("examples"))
    deployments = {item["metadata"]["name"] for item in items if item["kind"] == "Deployment"}
    targets = {
        item["spec"]["targetRef"]["name"]
        for item in items
        if item["kind"] == "VerticalPodAutoscaler"
    }
    assert deployments == targets


def test_network_policies_select_the_components() -> None:
    labels = {
        item["spec"]["template"]["metadata"]["labels"]["app"] for item in of_kind("Deployment")
    }
    named = set()
    for policy in of_kind("NetworkPolicy"):
        selector = policy["spec"]["podSelector"]
        named |= set(selector.get("matchLabels", {}).values())
        for requirement in selector.get("matchExpressions", ()):
            named |= set(requirement["values"])
    assert named == labels
