"""The values of the Helm chart: the schema refuses nonsense, and the README lists them all."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import chart_values
from common.features import FeatureGates
from common.version import version
from helm_program import CHART, NEEDS_HELM, refusal

VALUES = (CHART / "values.yaml").read_text("utf-8")
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
DIGEST = {"image": {"digest": "latest"}}
SELECTOR = {"namespaceSelector": {"matchLabels": {"vpa": "enabled"}}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 3}, "at '': additional properties 'replicas' not allowed"),
        ({"recommender": {"replica": 3}}, "at '/recommender': additional properties 'replica'"),
        ({"pods": {"toleration": []}}, "at '/pods': additional properties 'toleration'"),
        ({"updater": {"replicas": -1}}, "at '/updater/replicas': minimum: got -1, want 0"),
        ({"updater": {"replicas": None}}, "at '/updater': missing property 'replicas'"),
        ({"admission": {"opsPort": 70000}}, "at '/admission/opsPort': maximum"),
        ({"admission": {"args": ["v=6"]}}, "at '/admission/args/0': 'v=6' does not match"),
        ({"admission": DIGEST}, "at '/admission/image/digest': 'latest' does not match"),
        ({"pods": {"labels": {"a": True}}}, "at '/pods/labels/a': got boolean, want string"),
        ({"featureGates": {"Nope": True}}, "at '/featureGates': additional properties 'Nope'"),
        ({"webhook": {"timeoutSeconds": 31}}, "at '/webhook/timeoutSeconds': maximum"),
        ({"webhook": {"failurePolicy": "fail"}}, "one of 'Ignore', 'Fail'"),
        ({"certificates": {"mode": "both"}}, "one of 'managed', 'secret', 'cert-manager'"),
        ({"certificates": {"secretName": "own"}}, "secretName needs certificates.mode secret or"),
        ({"certificates": {"issuerRef": {"name": "a"}}}, "issuerRef needs certificates.mode cert-"),
        (
            {"certificates": {"caBundle": "-----BEGIN CERTIFICATE-----\n"}},
            "caBundle needs certificates.mode secret",
        ),
        (
            {"webhook": SELECTOR, "certificates": {"mode": "secret"}},
            "need certificates.caBundle if certificates.mode is secret",
        ),
        ({"updater": {"leaderElection": False}}, "updater.replicas is 2: several replicas need"),
        ({"vpaNamespace": "a", "ignoredNamespaces": ["b"]}, "vpaNamespace or ignoredNamespaces"),
        ({"externalMetrics": {"cpuMetric": "cpu"}}, "need externalMetrics.enabled"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
@NEEDS_HELM[0]
@NEEDS_HELM[1]
def test_the_chart_refuses(values: dict[str, Any], message: str) -> None:
    assert message in refusal(values)


def names(values: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the name of each value that the schema describes but values.yaml lacks, or reversed."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    known = schema.get("properties")
    if known is None:
        return
    yield from (prefix + name for name in known.keys() ^ values.keys())
    for name in known.keys() & values.keys():
        if isinstance(values[name], dict) and values[name]:
            yield from names(values[name], known[name], f"{prefix}{name}.")


def test_the_schema_has_the_names_of_the_values() -> None:
    optional = {f"{name}.resources.claims" for name in ("recommender", "updater", "admission")}
    assert set(names(yaml.safe_load(VALUES), SCHEMA)) == optional | {"global"}


def test_the_schema_knows_the_feature_gates() -> None:
    every = {gate.partition("=")[0] for gate in str(FeatureGates.parse("AllAlpha=true")).split(",")}
    assert SCHEMA["properties"]["featureGates"]["properties"].keys() == every | {
        "AllAlpha",
        "AllBeta",
    }


def test_the_readme_has_the_table_of_the_values() -> None:
    readme = (CHART / "README.md").read_text("utf-8")
    assert chart_values.with_table(readme, VALUES) == readme, "`make docs` updates the table"


def test_every_value_has_a_row() -> None:
    """A value without a comment would have none."""
    rows = {name.strip("`") for name, _, _ in chart_values.rows(VALUES)}

    def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
        for name, value in values.items():
            path = prefix + name
            if path in rows and not any(row.startswith(f"{path}.") for row in rows):
                continue
            if isinstance(value, dict) and value:
                yield from leaves(value, f"{path}.")
            else:
                yield path

    assert list(leaves(yaml.safe_load(VALUES))) == []


def test_a_row_has_the_comment_above_the_value_and_the_default() -> None:
    values = "a:\n  # Meaning of b.\n  b: {c: 1}\n  # Meaning of d.\n  d: x | y\n"
    assert chart_values.with_table(f"text\n{chart_values.MARK}old\n", values) == (
        f"text\n{chart_values.MARK}\n"
        "| value | default | meaning |\n| --- | --- | --- |\n"
        '| `a.b` | `{"c": 1}` | Meaning of b. |\n'
        '| `a.d` | `"x \\| y"` | Meaning of d. |\n'
    )


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version(), version())


def test_links_of_the_chart_stay_in_deploy() -> None:
    links = [path for path in (CHART / "files").iterdir() if path.is_symlink()]
    assert len(links) == len(list((CHART / "files").iterdir()))
    for link in links:
        assert link.resolve(strict=True).is_relative_to(CHART.parent), link
        assert not Path(link.readlink()).is_absolute()
