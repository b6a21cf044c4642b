"""A description of a small cluster in YAML: nodes, their timing, and the usage of containers.

Every field has a default, so an empty file describes a cluster. ``scenarios/README.md`` documents
the format.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from common.errors import ConfigError
from sandbox.description import Amount, Described, Seconds, Whole, read
from sandbox.kubelet.loads import UsageRule
from sandbox.kubelet.node import NodeShape
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.timing import Timing
from sandbox.version import KubernetesVersion

_NODE_NETWORK = ipaddress.ip_network("10.0.0.0/16")
_MAX_NODES = 5000  # the number that Kubernetes supports


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A description of a cluster."""

    version: KubernetesVersion = KubernetesVersion()  # noqa: RUF009 - a value, and frozen
    nodes: tuple[NodeShape, ...] = ()
    namespaces: tuple[str, ...] = ()  # in addition to those of every cluster
    timing: Timing = Timing()  # noqa: RUF009 - a value, and frozen
    metrics_window: timedelta = timedelta(seconds=15)
    usage: tuple[UsageRule, ...] = ()


class _Amounts(Described, frozen=True, kw_only=True):
    cpu: Amount = Amount(0)
    memory: Amount = Amount(0)

    @property
    def totals(self) -> Totals:
        return Totals(self.cpu.quantity.milli, self.memory.quantity.value)


class _NodeGroup(_Amounts, frozen=True, kw_only=True):
    name: str = "node"
    count: Annotated[int, msgspec.Meta(ge=0, le=_MAX_NODES)] = 1
    cpu: Amount = Amount(4)
    memory: Amount = Amount("16Gi")
    reserved: _Amounts = _Amounts()
    pods: Whole = 110
    labels: Mapping[str, str] = {}


class _Metrics(Described, frozen=True, kw_only=True):
    window: Seconds = 15.0

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window: shorter than a second: {self.window!r}")


class _Description(Described, frozen=True, kw_only=True):
    kubernetes_version: Any = KubernetesVersion()
    seed: Whole = 0
    nodes: tuple[_NodeGroup, ...] = (_NodeGroup(),)
    namespaces: tuple[str, ...] = ()
    timing: Timing = Timing()
    metrics: _Metrics = _Metrics()
    usage: tuple[Any, ...] = ()


def load_scenario(name: str) -> Scenario:
    """Read a scenario from a file, or a shipped one by its name (``demo.yaml``).

    Raises:
        ConfigError: the file is missing, it isn't YAML, or a field is invalid.
    """
    path = Path(name)
    shipped = resources.files("sandbox") / "scenarios" / path.name
    try:
        if not path.exists() and path.name == name and shipped.is_file():
            text = shipped.read_text(encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"scenario {name}: {reason}") from error
    try:
        return parse_scenario(text)
    except ConfigError as error:
        raise ConfigError(f"scenario {name}: {error}") from error


def parse_scenario(text: str) -> Scenario:
    """Read a scenario from YAML.

    Raises:
        ConfigError: the text isn't YAML, or a field is invalid; the message names the field.
    """
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}") from error
    found = read({} if raw is None else raw, _Description)
    try:
        version = KubernetesVersion.parse(str(found.kubernetes_version))
    except ValueError as error:
        raise ConfigError(f"kubernetes-version: {error}") from error
    return Scenario(
        version=version,
        nodes=_shapes(found.nodes),
        namespaces=found.namespaces,
        timing=found.timing,
        metrics_window=timedelta(seconds=found.metrics.window),
        usage=tuple(
            UsageRule.parse(rule, f"usage[{index}]", seed=found.seed)
            for index, rule in enumerate(found.usage)
        ),
    )


def _shapes(groups: tuple[_NodeGroup, ...]) -> tuple[NodeShape, ...]:
    named = [(f"{group.name}-{index}", group) for group in groups for index in range(group.count)]
    if len({name for name, _ in named}) < len(named):
        raise ConfigError("nodes: two nodes have the same name")
    if len(named) > _MAX_NODES:
        raise ConfigError(f"nodes: more than {_MAX_NODES} nodes")
    return tuple(
        NodeShape(
            name=name,
            capacity=group.totals,
            reserved=group.reserved.totals,
            pods=group.pods,
            labels=group.labels,
            address=str(_NODE_NETWORK[number]),
        )
        for number, (name, group) in enumerate(named, start=1)
    )
