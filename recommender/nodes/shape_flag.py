"""The value of ``--node-shape``: a node that an autoscaler could make."""

from collections.abc import Iterator
from dataclasses import dataclass

from common.api.scheduling import Taint
from common.quantity import MAX_INT64, ZERO, Quantity, QuantityError, parse_unsigned
from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room
from recommender.nodes.node_shapes import NodeShape

EXAMPLE = "cpu=64,memory=256Gi,label=disk=ssd,taint=dedicated=db:NoSchedule"

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PROVIDED = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True)
class ShapeFlag:
    """A node shape on the command line; ``text`` is the flag's value."""

    text: str
    room: Room
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    @property
    def shape(self) -> NodeShape:
        """Return the shape; labels of Kubernetes' own domains may have any value."""
        return NodeShape(
            traits=NodeTraits(labels=dict(self.labels), taints=self.taints, open_domains=_PROVIDED),
            room=self.room,
            title=f"--node-shape={self.text}",
            about=f"of --node-shape={self.text}",
        )


def parse_shape(text: str) -> ShapeFlag:
    """Parse ``cpu=64,memory=256Gi,pods=110,label=key=value,taint=key=value:Effect``.

    CPU and memory are required: what pods may request on the node. Labels and taints may be given
    several times.

    Raises:
        ValueError: a field is missing, unknown, repeated, or can't be parsed.
    """
    amounts: dict[str, Quantity] = {}
    labels: list[tuple[str, str]] = []
    taints: list[Taint] = []
    for name, value in _fields(text):
        match name:
            case "cpu" | "memory" | "pods":
                if name in amounts:
                    raise ValueError(f"{name} is given twice in {text!r}; give it once")
                amounts[name] = _amount(name, value)
            case "label":
                labels.append(_label(value))
            case "taint":
                taints.append(_taint(value))
            case _:
                raise ValueError(
                    f"unknown field {name!r} in {text!r}; the fields are cpu, memory, pods, label "
                    f"and taint, as in {EXAMPLE}"
                )
    for name in ("cpu", "memory"):
        if amounts.get(name, ZERO).is_zero:
            raise ValueError(f"{name} is missing or 0 in {text!r}; write it as in {EXAMPLE}")
    pods = amounts.get("pods")
    room = Room(
        amounts["cpu"].milli, amounts["memory"].value, MAX_INT64 if pods is None else pods.value
    )
    return ShapeFlag(text, room, tuple(labels), tuple(taints))


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for field in text.split(","):
        name, equals, value = field.partition("=")
        if not equals or not value:
            raise ValueError(f"{field!r} in {text!r} is no field=value; write it as in {EXAMPLE}")
        yield name, value


def _amount(name: str, value: str) -> Quantity:
    try:
        return parse_unsigned(value)
    except (QuantityError, ValueError) as error:
        raise ValueError(f"{name}: {error}; write for example {name}=64") from error


def _label(value: str) -> tuple[str, str]:
    key, equals, text = value.partition("=")
    if not key or not equals:
        raise ValueError(f"label: {value!r} is no key=value; write for example label=disk=ssd")
    return key, text


def _taint(value: str) -> Taint:
    name, _, effect = value.rpartition(":")
    key, _, text = name.partition("=")
    if not key or effect not in _EFFECTS:
        raise ValueError(
            f"taint: {value!r} is no key=value:Effect with the effect {', '.join(_EFFECTS)}; "
            "write for example taint=dedicated=db:NoSchedule"
        )
    return Taint(key=key, value=text, effect=effect)
