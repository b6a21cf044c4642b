"""The configuration of kube-state-metrics, applied to a VPA as the API server stores it.

kube-state-metrics itself is not needed: a path leads to a value or to the items of a list, and the
paths of labels and of the value begin there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import VPAS
from common.quantity import Quantity
from sandbox.cluster import Cluster
from virtual_cluster import in_cluster
from workloads import NAMESPACE, deploy, prepare

FILE = Path(__file__).parents[2] / "deploy" / "monitoring" / "kube-state-metrics.yaml"
PREFIX = "kube_verticalpodautoscaler"
AMOUNTS = {
    "target": {"cpu": "250m", "memory": "256Mi"},
    "lowerBound": {"cpu": "100m", "memory": "128Mi"},
    "upperBound": {"cpu": "1", "memory": "1Gi"},
    "uncappedTarget": {"cpu": "3", "memory": "3Gi"},
}
STATUS = {
    "conditions": [
        {
            "type": "RecommendationProvided",
            "status": "True",
            "lastTransitionTime": "2026-01-02T12:00:00Z",
        },
        {"type": "LowConfidence", "status": "False", "lastTransitionTime": "2026-01-02T12:00:00Z"},
    ],
    "recommendation": {
        "containerRecommendations": [
            {"containerName": "app", **AMOUNTS},
            {"containerName": "log", "target": {"cpu": "10m"}},
        ]
    },
}
POLICY = {
    "containerPolicies": [
        {
            "containerName": "*",
            "minAllowed": {"cpu": "50m", "memory": "64Mi"},
            "maxAllowed": {"cpu": "2", "memory": "2Gi"},
        }
    ]
}
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def resource() -> dict[str, Any]:
    document = yaml.safe_load(FILE.read_text("utf-8"))
    assert document["kind"] == "CustomResourceStateMetrics"
    (found,) = document["spec"]["resources"]
    assert isinstance(found, dict)
    return found


def at(found: Any, path: list[str]) -> Any:
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def number(value: Any) -> float:
    """Convert a text as kube-state-metrics does: conditions, then quantities."""
    words = {"true": 1.0, "false": 0.0, "unknown": 0.0}
    lower = str(value).lower()
    return words[lower] if lower in words else Quantity.parse(str(value)).milli / 1000


def values(metric: dict[str, Any], item: dict[str, Any]) -> Iterator[tuple[dict[str, str], float]]:
    each = metric["each"]
    if each["type"] == "StateSet":
        states = each["stateSet"]
        value = at(item, states["path"])
        for state in states["list"]:
            yield {states["labelName"]: state}, float(state == value)
        return
    assert each["type"] == "Gauge"
    gauge = each["gauge"]
    for one in at(item, gauge["path"]) or ():
        value = at(one, gauge["valueFrom"])
        if value is not None:
            labels = {name: at(one, path) for name, path in gauge["labelsFromPath"].items()}
            yield labels, number(value)


def series_of(item: dict[str, Any]) -> Series:
    """Return the series of an object by name and labels, without those that all have."""
    configured, found = resource(), Series()
    for metric in configured["metrics"]:
        name = f"{configured['metricNamePrefix']}_{metric['name']}"
        for labels, value in values(metric, item):
            every = labels | metric.get("commonLabels", {})
            key = (name, tuple(sorted(every.items())))
            assert key not in found
            found[key] = value
    return found


def amount(part: str, container: str, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    unit = {"cpu": "core", "memory": "byte"}[name]
    labels = {"container": container, "resource": name, "unit": unit}
    return f"{PREFIX}_{part}", tuple(sorted(labels.items()))


def test_every_metric_has_the_value_of_the_vpa() -> None:
    async def main(_: Cluster, client: KubeClient) -> None:
        await prepare(client)
        await deploy(client, "web", mode="InPlaceOrRecreate", resourcePolicy=POLICY)
        whole = VPAS.as_dicts()
        await client.patch(
            whole,
            "web",
            {"status": STATUS},
            patch_type=PatchType.MERGE,
            namespace=NAMESPACE,
            subresource="status",
        )
        check(await client.get(whole, "web", namespace=NAMESPACE))

    in_cluster(main, scenario="nodes: []")


def check(item: dict[str, Any]) -> None:
    labels = {name: at(item, path) for name, path in resource()["labelsFromPath"].items()}
    assert labels == {
        "namespace": NAMESPACE,
        "verticalpodautoscaler": "web",
        "target_api_version": "apps/v1",
        "target_kind": "Deployment",
        "target_name": "web",
    }
    found = series_of(item)
    mode = f"{PREFIX}_spec_updatepolicy_updatemode"
    modes = {dict(key[1])["update_mode"]: value for key, value in found.items() if key[0] == mode}
    assert {each for each, value in modes.items() if value} == {"InPlaceOrRecreate"}
    condition = f"{PREFIX}_status_conditions"
    assert found[condition, (("type", "RecommendationProvided"),)] == 1
    assert found[condition, (("type", "LowConfidence"),)] == 0
    recommended = "status_recommendation_containerrecommendations"
    wanted = {
        amount(f"{recommended}_{part.lower()}", "app", name): number(text)
        for part, amounts in AMOUNTS.items()
        for name, text in amounts.items()
    }
    wanted[amount(f"{recommended}_target", "log", "cpu")] = 0.01
    (policy,) = POLICY["containerPolicies"]
    for part in ("minAllowed", "maxAllowed"):
        for name, text in at(policy, [part]).items():
            known = f"spec_resourcepolicy_container_policies_{part.lower()}"
            wanted[amount(known, "*", name)] = number(text)
    others = (mode, condition)
    assert {key: value for key, value in found.items() if key[0] not in others} == wanted


def test_all_update_modes_of_the_definition_are_states() -> None:
    (metric,) = (each for each in resource()["metrics"] if each["each"]["type"] == "StateSet")
    folder = Path(__file__).parents[2] / "deploy" / "crd"
    definition = yaml.safe_load((folder / "verticalpodautoscalers.yaml").read_text("utf-8"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    modes = spec["updatePolicy"]["properties"]["updateMode"]["enum"]
    assert set(metric["each"]["stateSet"]["list"]) == set(modes)
