"""Scenarios: defaults, all fields, and errors that name the field."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from common.errors import ConfigError
from sandbox.kubelet.loads import Match
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.usage import Constant
from sandbox.scenario import load_scenario, parse_scenario
from sandbox.version import KubernetesVersion

GIB = 1024**3

FULL = """
kubernetes-version: "1.33"
seed: 3
nodes:
  - {name: big, count: 2, cpu: 8, memory: 32Gi, pods: 20, labels: {zone: a}}
  - cpu: 500m
    memory: 1Gi
    reserved: {cpu: 100m, memory: 256Mi}
namespaces: [shop, demo]
timing: {start-delay: 250ms, retry-deferred: 3}
metrics: {window: 30s}
usage:
  - match: {namespace: shop, labels: {app: web}}
    cpu: 30m
"""


def test_an_empty_scenario_has_defaults() -> None:
    scenario = parse_scenario("")
    assert scenario.version == KubernetesVersion(36)
    assert [shape.name for shape in scenario.nodes] == ["node-0"]
    assert scenario.nodes[0].capacity == Totals(4000, 16 * GIB)
    assert scenario.metrics_window == timedelta(seconds=15)


def test_every_field_is_read() -> None:
    scenario = parse_scenario(FULL)
    assert scenario.version.minor == 33
    assert [shape.name for shape in scenario.nodes] == ["big-0", "big-1", "node-0"]
    assert len({shape.address for shape in scenario.nodes}) == 3
    big, _, small = scenario.nodes
    assert (big.capacity, big.pods) == (Totals(8000, 32 * GIB), 20)
    assert big.all_labels["zone"] == "a"
    assert small.allocatable == Totals(400, GIB * 3 // 4)
    assert scenario.namespaces == ("shop", "demo")
    assert (scenario.timing.start_delay, scenario.timing.retry_deferred) == (0.25, 3.0)
    assert scenario.metrics_window == timedelta(seconds=30)
    (usage,) = scenario.usage
    assert (usage.cpu, usage.memory) == (Constant(30.0), None)
    assert usage.match == Match(namespace="shop", labels={"app": "web"})


def test_the_scenario_of_the_demo_is_valid(tmp_path: Path) -> None:
    shipped = load_scenario("demo.yaml")
    assert len(shipped.usage) == 5
    written = tmp_path / "mine.yaml"
    written.write_text(FULL, encoding="utf-8")
    assert load_scenario(str(written)) == parse_scenario(FULL)


@dataclass(frozen=True, kw_only=True)
class Bad:
    id: str
    text: str
    want: str


BAD = [
    Bad(id="invalid YAML", text="nodes: [", want="not YAML: "),
    Bad(id="not a mapping", text="- 1", want="Expected `object`, got `array`"),
    Bad(id="unknown field", text="node: []", want="Object contains unknown field `node`"),
    Bad(id="unknown version", text='kubernetes-version: "1.20"', want="kubernetes-version: "),
    Bad(id="nodes that are not a list", text="nodes: 3", want="nodes: Expected `array`"),
    Bad(id="a node's memory", text="nodes: [{memory: 16Gib}]", want="nodes[0].memory: "),
    Bad(id="a node's count", text="nodes: [{count: -1}]", want="nodes[0].count: Expected `int` >="),
    Bad(
        id="too many nodes",
        text="nodes: [{count: 5001}]",
        want="nodes[0].count: Expected `int` <= 5000",
    ),
    Bad(
        id="too many groups of nodes",
        text="nodes: [{count: 5000}, {name: b}]",
        want="nodes: more than",
    ),
    Bad(id="duplicate name", text="nodes: [{}, {}]", want="nodes: two nodes have the same name"),
    Bad(
        id="a misspelled field", text="nodes: [{}, {mem: 1}]", want="nodes[1]: Object contains unk"
    ),
    Bad(id="timing", text="timing: {start-delay: soon}", want="timing.start-delay: not a dur"),
    Bad(id="window", text="metrics: {window: 10ms}", want="metrics: window: shorter than"),
    Bad(id="usage", text="usage: [{cpu: {ramp: {}}}]", want="usage[0].cpu.ramp: Object missing"),
    Bad(id="match", text="usage: [{match: {app: x}}]", want="usage[0].match: Object contains"),
    Bad(id="labels", text="nodes: [{labels: [a]}]", want="nodes[0].labels: Expected `object`"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_an_error_names_the_field(case: Bad) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(case.text)
    assert str(caught.value).startswith(case.want)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"scenario /nowhere\.yaml: No such file"):
        load_scenario("/nowhere.yaml")


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    written = tmp_path / "bad.yaml"
    written.write_text("seed: -1", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bad\.yaml: seed: Expected `int` >= 0"):
        load_scenario(str(written))
