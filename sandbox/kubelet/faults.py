"""What goes wrong, or differently, on purpose: switches of a scenario, or of a pod itself.

An annotation ``kubelet.sandbox/<switch>`` on the pod wins over the scenario's rules; of the
rules, the first that sets a switch wins. ``kubelet.sandbox/resize: stuck`` is the usual use.
"""

import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from sandbox import description
from sandbox.description import Section
from sandbox.kubelet.wire import RunnablePod
from sandbox.matching import Match

logger = logging.getLogger(__name__)

PREFIX = "kubelet.sandbox/"

NEVER = float("inf")


class ResizeFault(enum.StrEnum):
    """What becomes of every resize of the pod."""

    STUCK = "stuck"  # admitted, and then nothing
    ERROR = "error"  # admitted, and then the runtime fails, again and again
    DEFERRED = "deferred"
    INFEASIBLE = "infeasible"
    SILENT = "silent"  # the kubelet doesn't look at it at all
    UNKNOWN_REASON = "unknown-reason"  # pending, for a reason that no kubelet writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The switches of one pod; None is ordinary behaviour. Times are in seconds."""

    start_delay: float | None = None
    stop_delay: float | None = None
    resize_delay: float | None = None
    ready_delay: float | None = None  # NEVER: runs, and never gets ready
    resize: ResizeFault | None = None
    resize_message: str | None = None
    restart_on_resize: bool | None = None  # whatever the resize policy says
    exit_after: float | None = None  # seconds after each start of a container
    exit_code: int | None = None  # of such an exit, and of a restart for a resize
    report_resources: bool | None = None  # False: an old node, its status has no resources

    @classmethod
    def parse(cls, section: Section) -> Self:
        """Read the switches, with dashes for underscores.

        Raises:
            ConfigError: an unknown switch, or a value that it can't take.
        """
        found = cls(
            **{
                name: section.take(name.replace("_", "-"), parse, None)
                for name, parse in _SWITCHES.items()
            }
        )
        section.close()
        return found


NO_FAULTS = Faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Switches for some pods."""

    match: Match
    faults: Faults


def faults_of(pod: RunnablePod, rules: Sequence[FaultRule]) -> Faults:
    """The switches that count for a pod; an annotation that can't be parsed is passed over."""
    meta = pod.metadata
    annotations = meta.annotations or {}
    chosen: dict[str, Any] = {}
    for rule in rules:
        if rule.match.fits_pod(
            namespace=meta.namespace, name=meta.name, node=pod.spec.node_name, labels=meta.labels
        ):
            for field in fields(Faults):
                value = getattr(rule.faults, field.name)
                if value is not None:
                    chosen.setdefault(field.name, value)
    for key, written in annotations.items():
        name = key.removeprefix(PREFIX).replace("-", "_")
        if not key.startswith(PREFIX) or name not in _SWITCHES:
            continue
        try:
            chosen[name] = _SWITCHES[name](_plain(written))
        except ValueError as error:
            logger.warning(
                "annotation ignored", extra={"pod": meta.name, "key": key, "error": str(error)}
            )
    return Faults(**chosen)


def _plain(text: str) -> object:
    """An annotation is text; YAML would have given the description a number or a Boolean."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() else text


def _resize(value: object) -> ResizeFault:
    try:
        return ResizeFault(description.text(value))
    except ValueError:
        known = ", ".join(ResizeFault)
        raise ValueError(f"not one of {known}: {value!r}") from None


def _ready_delay(value: object) -> float:
    return NEVER if value == "never" else description.seconds(value)


_SWITCHES: Mapping[str, Callable[[object], Any]] = {
    "start_delay": description.seconds,
    "stop_delay": description.seconds,
    "resize_delay": description.seconds,
    "ready_delay": _ready_delay,
    "resize": _resize,
    "resize_message": description.text,
    "restart_on_resize": description.truth,
    "exit_after": description.seconds,
    "exit_code": description.whole,
    "report_resources": description.truth,
}
