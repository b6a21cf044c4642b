"""A description in YAML of a small cluster: its nodes, how fast they are, what runs there uses.

Everything has a default, so an empty file is a cluster, too. The format is shown in full by
``scenarios/README.md``.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from pathlib import Path

import yaml

from common.errors import ConfigError
from sandbox import description
from sandbox.apiserver.faults import ApiFault
from sandbox.description import Section
from sandbox.kubelet.faults import FaultRule, Faults
from sandbox.kubelet.loads import UsageRule
from sandbox.kubelet.node import NodeShape
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.timing import Timing
from sandbox.matching import Match
from sandbox.version import KubernetesVersion

_NODE_NETWORK = ipaddress.ip_network("10.0.0.0/16")
_MOST_NODES = 5000  # as many as Kubernetes promises to support


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster as it is described."""

    version: KubernetesVersion = KubernetesVersion()  # noqa: RUF009 - a value, and frozen
    nodes: tuple[NodeShape, ...] = ()
    namespaces: tuple[str, ...] = ()  # beside those that every cluster has
    timing: Timing = Timing()  # noqa: RUF009 - a value, and frozen
    metrics_window: timedelta = timedelta(seconds=15)
    usage: tuple[UsageRule, ...] = ()
    faults: tuple[FaultRule, ...] = ()
    api_faults: tuple[ApiFault, ...] = ()
    serves_resize: bool = True


def load_scenario(name: str) -> Scenario:
    """Read a scenario from a file, or one of ours by its name (``demo.yaml``).

    Raises:
        ConfigError: there is no such file, it isn't YAML, or a field is wrong.
    """
    path = Path(name)
    shipped = resources.files("sandbox") / "scenarios" / path.name
    try:
        if not path.exists() and path.name == name and shipped.is_file():
            text = shipped.read_text(encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"scenario {name}: {told}") from error
    try:
        return parse_scenario(text)
    except ConfigError as error:
        raise ConfigError(f"scenario {name}: {error}") from error


def parse_scenario(text: str) -> Scenario:
    """Read a scenario from YAML.

    Raises:
        ConfigError: the text isn't YAML, or a field is wrong; the message names the field.
    """
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}") from error
    section = Section({} if raw is None else raw, "")
    seed = section.take("seed", description.whole, 0)
    metrics = section.section("metrics")
    scenario = Scenario(
        version=section.take("kubernetes-version", _version, KubernetesVersion()),
        nodes=_nodes(section),
        namespaces=section.take("namespaces", description.texts, ()),
        timing=Timing.parse(section.section("timing")),
        metrics_window=timedelta(seconds=metrics.take("window", _window, 15.0)),
        usage=tuple(UsageRule.parse(one, seed=seed) for one in section.sections("usage")),
        faults=tuple(_fault(one) for one in section.sections("faults")),
        api_faults=tuple(ApiFault.parse(one) for one in section.sections("api-faults")),
        serves_resize=section.take("serve-resize", description.truth, default=True),
    )
    metrics.close()
    section.close()
    return scenario


def _nodes(section: Section) -> tuple[NodeShape, ...]:
    """All nodes; one of four cores where nothing is said."""
    if "nodes" not in section:
        section.raw("nodes")
        return tuple(_group(Section({}, "nodes"), 0))
    shapes: list[NodeShape] = []
    names: set[str] = set()
    for group in section.sections("nodes"):
        for shape in _group(group, len(shapes)):
            if shape.name in names:
                raise ConfigError(f"{group.field('name')}: two nodes are called {shape.name}")
            names.add(shape.name)
            shapes.append(shape)
            if len(shapes) > _MOST_NODES:
                raise ConfigError(f"{group.field('count')}: more than {_MOST_NODES} nodes")
    return tuple(shapes)


def _group(section: Section, before: int) -> Iterator[NodeShape]:
    """Nodes of one kind; ``before`` is how many there are already."""
    name = section.take("name", description.text, "node")
    count = section.take("count", description.whole, 1)
    capacity = _totals(section, Totals(4000, 16 * 1024**3))
    reserved_section = section.section("reserved")
    reserved = _totals(reserved_section, Totals(0, 0))
    reserved_section.close()
    pods = section.take("pods", description.whole, 110)
    labels: dict[str, str] = section.take("labels", description.labels, {})
    section.close()
    for index in range(count):
        number = before + index
        yield NodeShape(
            name=f"{name}-{index}",
            capacity=capacity,
            reserved=reserved,
            pods=pods,
            labels=labels,
            address=str(_NODE_NETWORK[number + 1]),
        )


def _totals(section: Section, default: Totals) -> Totals:
    cpu = section.take("cpu", description.quantity, None)
    memory = section.take("memory", description.quantity, None)
    return Totals(
        default.cpu if cpu is None else cpu.milli,
        default.memory if memory is None else memory.value,
    )


def _fault(section: Section) -> FaultRule:
    match = Match.parse(section.section("match"))
    return FaultRule(match=match, faults=Faults.parse(section))


def _version(value: object) -> KubernetesVersion:
    return KubernetesVersion.parse(description.text(value))


def _window(value: object) -> float:
    seconds = description.seconds(value)
    if seconds < 1:
        raise ValueError(f"shorter than a second: {value!r}")
    return seconds
