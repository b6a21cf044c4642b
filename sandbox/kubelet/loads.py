"""Usage of containers: rules of a scenario, or annotations of the pod.

An annotation ``usage.sandbox/cpu`` or ``usage.sandbox/memory`` overrides the rules; its value is a
quantity, or a model as JSON. For each resource the first rule applies that matches and names it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from common.errors import ConfigError
from common.quantity import Quantity
from sandbox.description import Described, read
from sandbox.kubelet.usage import Load, Model, parse_model
from sandbox.kubelet.wire import RunnablePod

logger = logging.getLogger(__name__)

PREFIX = "usage.sandbox/"

_AMOUNTS: Mapping[str, Callable[[Quantity], int]] = {
    "cpu": lambda quantity: quantity.milli,
    "memory": lambda quantity: quantity.value,
}


class Match(Described, frozen=True, kw_only=True):
    """Selects pods by namespace and labels. An empty namespace matches all."""

    namespace: str = ""
    labels: Mapping[str, str] = {}

    def fits(self, pod: RunnablePod) -> bool:
        """Return True if the rule applies to the containers of ``pod``."""
        meta = pod.metadata
        return self.namespace in ("", meta.namespace) and (
            self.labels.items() <= (meta.labels or {}).items()
        )


class _DescribedRule(Described, frozen=True, kw_only=True):
    match: Match = Match()
    cpu: Any = None
    memory: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRule:
    """Usage of each container of the pods that match. None leaves a resource to later rules."""

    match: Match
    cpu: Model | None = None  # millicores
    memory: Model | None = None  # bytes

    @classmethod
    def parse(cls, raw: object, field: str, *, seed: int = 0) -> Self:
        """Read ``{match, cpu, memory}``.

        Raises:
            ConfigError: an unknown field, or an invalid model; the message names it.
        """
        rule = read(raw, _DescribedRule, field)
        models = {
            name: parse_model(model, amount=amount, field=f"{field}.{name}", seed=seed)
            for name, amount in _AMOUNTS.items()
            if (model := getattr(rule, name)) is not None
        }
        return cls(match=rule.match, **models)


def load_of(pod: RunnablePod, rules: Sequence[UsageRule]) -> Load:
    """Return the usage of a pod's containers. Without a rule it is small and constant.

    An annotation that can't be parsed is ignored.
    """
    fitting = [rule for rule in rules if rule.match.fits(pod)]
    chosen: dict[str, Any] = {}
    for resource in _AMOUNTS:
        models = (_annotated(pod, resource), *(getattr(rule, resource) for rule in fitting))
        model = next((one for one in models if one is not None), None)
        if model is not None:
            chosen[resource] = model
    return Load(**chosen)


def _annotated(pod: RunnablePod, resource: str) -> Model | None:
    key = f"{PREFIX}{resource}"
    text = (pod.metadata.annotations or {}).get(key)
    if text is None:
        return None
    try:
        raw = msgspec.json.decode(text) if text.lstrip().startswith("{") else text
        return parse_model(raw, amount=_AMOUNTS[resource], field=key)
    except (ConfigError, msgspec.DecodeError) as error:
        logger.warning("annotation ignored", extra={"pod": pod.metadata.name, "error": str(error)})
    return None
