"""Which container uses how much: rules of a scenario, or annotations of the pod itself.

An annotation ``usage.sandbox/cpu``, ``usage.sandbox/memory`` or, for one container,
``usage.sandbox/<container>.cpu`` wins over the rules; its value is a quantity, or a model as
JSON. For each resource the first rule counts that matches and names it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from common.errors import ConfigError
from common.quantity import Quantity
from sandbox.description import Section
from sandbox.kubelet.usage import Load, Model, parse_model
from sandbox.kubelet.wire import RunnablePod
from sandbox.matching import Match

logger = logging.getLogger(__name__)

PREFIX = "usage.sandbox/"

_AMOUNTS: Mapping[str, Callable[[Quantity], int]] = {
    "cpu": lambda quantity: quantity.milli,
    "memory": lambda quantity: quantity.value,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRule:
    """Usage of some containers; None leaves a resource to later rules."""

    match: Match
    cpu: Model | None = None  # millicores
    memory: Model | None = None  # bytes

    @classmethod
    def parse(cls, section: Section, *, seed: int = 0) -> Self:
        """Read ``{match, cpu, memory}``.

        Raises:
            ConfigError: an unknown field, or no model; the message names it.
        """
        match = Match.parse(section.section("match"))
        models = {
            name: parse_model(
                section.raw(name), amount=amount, field=section.field(name), seed=seed
            )
            for name, amount in _AMOUNTS.items()
            if name in section
        }
        section.close()
        return cls(match=match, **models)


def load_of(pod: RunnablePod, container: str, rules: Sequence[UsageRule]) -> Load:
    """The usage of one container; small and constant without a rule.

    An annotation that can't be parsed is passed over.
    """
    meta = pod.metadata
    chosen: dict[str, Any] = {}
    for resource in _AMOUNTS:
        told = _annotated(pod, container, resource)
        if told is not None:
            chosen[resource] = told
    for rule in rules:
        fits = rule.match.fits_container(container) and rule.match.fits_pod(
            namespace=meta.namespace, name=meta.name, node=pod.spec.node_name, labels=meta.labels
        )
        for resource in _AMOUNTS:
            model = getattr(rule, resource)
            if fits and model is not None:
                chosen.setdefault(resource, model)
    return Load(**chosen)


def _annotated(pod: RunnablePod, container: str, resource: str) -> Model | None:
    annotations = pod.metadata.annotations or {}
    for key in (f"{PREFIX}{container}.{resource}", f"{PREFIX}{resource}"):
        text = annotations.get(key)
        if text is None:
            continue
        try:
            raw = msgspec.json.decode(text) if text.lstrip().startswith("{") else text
            return parse_model(raw, amount=_AMOUNTS[resource], field=key)
        except (ConfigError, msgspec.DecodeError) as error:
            logger.warning(
                "annotation ignored", extra={"pod": pod.metadata.name, "error": str(error)}
            )
    return None
