"""Scenarios: defaults, every field, and complaints that name the field."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from common.errors import ConfigError
from sandbox.kubelet.faults import NEVER, ResizeFault
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
  - match: {namespace: shop, labels: {app: web}, container: app*}
    cpu: 30m
faults:
  - match: {pod: bad-*}
    resize: stuck
    ready-delay: never
    exit-code: 3
serve-resize: false
api-faults:
  - {match: {resource: pods/eviction}, share: 0.2, refuse: 429}
"""


def test_an_empty_scenario_is_a_cluster() -> None:
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
    assert scenario.serves_resize is False
    (api_fault,) = scenario.api_faults
    assert (api_fault.calls.resource, api_fault.effect.refuse) == ("pods/eviction", 429)
    assert scenario.namespaces == ("shop", "demo")
    assert (scenario.timing.start_delay, scenario.timing.retry_deferred) == (0.25, 3.0)
    assert scenario.metrics_window == timedelta(seconds=30)
    (usage,) = scenario.usage
    assert (usage.cpu, usage.memory) == (Constant(30.0), None)
    assert usage.match.fits_container("app-1")
    assert not usage.match.fits_container("sidecar")
    (fault,) = scenario.faults
    assert (fault.faults.resize, fault.faults.ready_delay) == (ResizeFault.STUCK, NEVER)
    assert fault.faults.exit_code == 3
    assert fault.match.fits_pod(namespace="x", name="bad-1", node="n", labels=None)
    assert not fault.match.fits_pod(namespace="x", name="good", node="n", labels=None)


def test_the_demo_is_a_scenario_of_ours(tmp_path: Path) -> None:
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
    Bad(id="no YAML", text="nodes: [", want="not YAML: "),
    Bad(id="no mapping", text="- 1", want="description: not a mapping: [1]"),
    Bad(id="unknown field", text="node: []", want="node: unknown field (known here: "),
    Bad(id="unknown version", text='kubernetes-version: "1.20"', want="kubernetes-version: "),
    Bad(id="nodes no list", text="nodes: 3", want="nodes: not a list: 3"),
    Bad(id="a node's memory", text="nodes: [{memory: 16Gib}]", want="nodes[0].memory: "),
    Bad(id="a node's count", text="nodes: [{count: -1}]", want="nodes[0].count: not a whole"),
    Bad(id="too many", text="nodes: [{count: 5001}]", want="nodes[0].count: more than 5000"),
    Bad(id="name twice", text="nodes: [{}, {}]", want="nodes[1].name: two nodes are called"),
    Bad(id="a typing error", text="nodes: [{}, {mem: 1}]", want="nodes[1].mem: unknown field"),
    Bad(id="timing", text="timing: {start-delay: soon}", want="timing.start-delay: not a dur"),
    Bad(id="window", text="metrics: {window: 10ms}", want="metrics.window: shorter than"),
    Bad(id="usage", text="usage: [{cpu: {ramp: {}}}]", want="usage[0].cpu.ramp.from: missing"),
    Bad(id="match", text="usage: [{match: {app: x}}]", want="usage[0].match.app: unknown"),
    Bad(id="fault", text="faults: [{resize: slow}]", want="faults[0].resize: not one of stuck"),
    Bad(id="labels", text="nodes: [{labels: [a]}]", want="nodes[0].labels: not a mapping"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_complaint_names_the_field(case: Bad) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(case.text)
    assert str(caught.value).startswith(case.want)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"scenario /nowhere\.yaml: No such file"):
        load_scenario("/nowhere.yaml")


def test_a_complaint_about_a_file_names_it(tmp_path: Path) -> None:
    written = tmp_path / "bad.yaml"
    written.write_text("seed: -1", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bad\.yaml: seed: not a whole number: -1"):
        load_scenario(str(written))
