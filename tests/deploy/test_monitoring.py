"""The files of deploy/monitoring agree with each other, with the metrics and with the pages.

The rules are tested by promtool, with one file for each group in ``tests/deploy/rules``.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import build
import dashboard
import rules
from prometheus_programs import NEEDS_PROMETHEUS, promtool

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
TESTS = Path(__file__).parent / "rules"
RULES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8"))[
    "groups"
]
ALERTS = [rule for group in RULES for rule in group["rules"] if "alert" in rule]
GROUPS = [group["name"] for group in RULES]
# Of API servers, of kube-state-metrics, and of the client library of every process.
FOREIGN = ("apiserver_admission_webhook_", "kube_", "process_resident_memory_bytes")
NEEDS_PROMTOOL = NEEDS_PROMETHEUS[1]


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


# Generated files


@pytest.mark.parametrize(
    ("script", "made"),
    [("rules", "prometheus-rule.yaml"), ("dashboard", "dashboard.json")],
)
def test_a_generated_file_is_the_output_of_its_script(
    script: str, made: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.modules[script].main()
    same = capsys.readouterr().out == (MONITORING / made).read_text("utf-8")
    assert same, f"deploy/monitoring/{made} is out of date; `make monitoring` updates it"


def test_the_prometheus_rule_has_the_groups_of_the_rule_file() -> None:
    (found,) = documents(MONITORING / "prometheus-rule.yaml")
    assert found == rules.prometheus_rule()
    assert found["spec"] == {"groups": RULES}


def test_the_kustomization_names_every_manifest() -> None:
    (found,) = documents(MONITORING / "kustomization.yaml")
    manifests = {"services.yaml", "service-monitors.yaml", "prometheus-rule.yaml"}
    assert set(found["resources"]) == manifests
    (generated,) = found["configMapGenerator"]
    assert generated["files"] == ["vpa.json=dashboard.json"]
    others = {"kustomization.yaml", "rules.yaml", "kube-state-metrics.yaml"}
    assert {path.name for path in MONITORING.glob("*.yaml")} == manifests | others


# Scraping


def deployments() -> dict[str, dict[str, Any]]:
    """Return the pod templates of the components by the label ``app``."""
    found = {}
    for name in ("recommender", "updater", "admission"):
        for item in documents(ROOT / "deploy" / "components" / f"{name}.yaml"):
            if item["kind"] == "Deployment":
                template = item["spec"]["template"]
                found[template["metadata"]["labels"]["app"]] = template
    return found


def test_each_component_has_a_service_for_its_metrics_port() -> None:
    services = {
        item["spec"]["selector"]["app"]: item for item in documents(MONITORING / "services.yaml")
    }
    templates = deployments()
    assert services.keys() == templates.keys()
    for app, service in services.items():
        labels = templates[app]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        (port,) = service["spec"]["ports"]
        (container,) = templates[app]["spec"]["containers"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert ports[port["targetPort"]] == port["port"]


def test_each_service_is_scraped_once_under_the_name_of_its_deployment() -> None:
    services = documents(MONITORING / "services.yaml")
    monitors = documents(MONITORING / "service-monitors.yaml")
    for service in services:
        labels = service["metadata"]["labels"]
        (monitor,) = (
            item["spec"]
            for item in monitors
            if item["spec"]["selector"]["matchLabels"].items() <= labels.items()
        )
        assert labels[monitor["jobLabel"]] == service["spec"]["selector"]["app"]
        (endpoint,) = monitor["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert len(monitors) == len(services)


# Rules


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_names_what_to_run_and_a_section_of_the_runbook(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning")
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    panels = {panel["title"] for panel in dashboard.dashboard()["panels"]}
    opened = re.findall(r"Open the panel '([^']+)' of the dashboard", notes["description"])
    assert set(opened) <= panels
    assert opened or " Run: kubectl " in notes["description"]
    page, _, anchor = notes["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_the_command_of_an_alert_names_objects_of_the_manifests(alert: dict[str, Any]) -> None:
    _, _, command = alert["annotations"]["description"].partition("Run: ")
    assert set(re.findall(r"\bvpa-[a-z-]+", command)) <= manifest_names()


def manifest_names() -> set[str]:
    """Return the names of all objects in deploy/components."""
    files = (ROOT / "deploy" / "components").glob("*.yaml")
    return {
        one["metadata"]["name"] for file in files for one in documents(file) if "metadata" in one
    }


def cases(group: str) -> Iterator[tuple[str, bool]]:
    """Yield the alert of each case of a test file, and whether it fires."""
    (file,) = documents(TESTS / f"{group}.yaml")
    for test in file["tests"]:
        for case in test.get("alert_rule_test", ()):
            yield case["alertname"], bool(case["exp_alerts"])


def test_each_group_has_a_test_file() -> None:
    assert {path.stem for path in TESTS.glob("*.yaml")} == set(GROUPS)


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    tested = {case for group in GROUPS for case in cases(group)}
    wanted = {(alert["alert"], fires) for alert in ALERTS for fires in (True, False)}
    assert tested == wanted


@pytest.mark.prometheus
@NEEDS_PROMTOOL
async def test_promtool_accepts_the_rules() -> None:
    await promtool("check", "rules", str(MONITORING / "rules.yaml"))


@pytest.mark.prometheus
@NEEDS_PROMTOOL
@pytest.mark.timeout(60)  # a day of evaluations takes some seconds
@pytest.mark.parametrize("group", GROUPS)
async def test_the_cases_of_a_group(group: str) -> None:
    await promtool("test", "rules", str(TESTS / f"{group}.yaml"))


# Metrics


def expressions() -> Iterator[str]:
    for group in RULES:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in dashboard.dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def exposed() -> set[str]:
    """Return the names of all series of the components."""
    found = set[str]()
    for registry in build.registries().values():
        for metric in build.exposed(registry):
            parts = ("_bucket", "_sum", "_count") if metric.type == "histogram" else ("",)
            found |= {metric.name + part for part in parts}
    return found


def test_every_metric_of_rules_and_dashboard_exists() -> None:
    named, patterns = set[str](), set[str]()
    for expr in expressions():
        patterns |= set(re.findall(r'__name__=~"([^"]+)"', expr))
        unquoted = re.sub(r'"[^"]*"', '""', expr)
        named |= set(re.findall(r"\b(?:vpa|rest_client|apiserver|kube|process)_\w+\b", unquoted))
    known = exposed()
    labels = {"vpa_namespace", "vpa_name"}
    ours = {name for name in named - labels if not name.startswith(FOREIGN)}
    assert ours <= known
    for pattern in patterns:
        assert any(re.fullmatch(pattern, name) for name in known), pattern


# The dashboard


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard.dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set[tuple[int, int]]()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < dashboard.WIDTH, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
