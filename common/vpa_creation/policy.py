"""The mode and the resource policy of VPAs that are created for many workloads.

A person writes them as flags of a command or as annotations of a namespace. The rules are those of
the webhook; ``admission.vpa_validation`` applies them to every VPA.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from common.api.autoscaling import ContainerPolicy, ResourcePolicy, UpdateMode, UpdatePolicy
from common.errors import ConfigError
from common.quantity import Quantity, parse_unsigned
from common.recommendation.policy import EVERY_OTHER, ControlledValues
from common.resources import CPU, MEMORY, RESOURCES, in_order

PREFIX = "vpa.autoscaling/"
"""The prefix of the labels and annotations about the creation of VPAs."""

ENABLE = f"{PREFIX}enable"
"""The label of a namespace whose workloads get VPAs (``true``), or of a workload that gets none."""

ENABLED, EXCLUDED = "true", "false"

MODES = tuple(mode for mode in UpdateMode if mode is not UpdateMode.AUTO)
"""The modes of new VPAs; Auto is deprecated."""

_COUNT = re.compile("[0-9]{1,10}")
_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_UNIT = 1_000_000_000


class Setting(enum.StrEnum):
    """The name of a setting: of a flag without its dashes, of an annotation without its prefix."""

    MODE = "mode"
    MIN_REPLICAS = "min-replicas"
    MIN_ALLOWED = "min-allowed"
    MAX_ALLOWED = "max-allowed"
    CONTROLLED_RESOURCES = "controlled-resources"
    CONTROLLED_VALUES = "controlled-values"


class SettingError(ConfigError):
    """A setting is invalid; ``setting`` is its name, and the text says what is allowed."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationPolicy:
    """The mode and the resource policy of new VPAs; None stands for a field that isn't written."""

    mode: UpdateMode = UpdateMode.OFF
    min_replicas: int | None = None
    min_allowed: Mapping[str, str] | None = None  # quantities by resource
    max_allowed: Mapping[str, str] | None = None
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: ControlledValues | None = None

    @property
    def update_policy(self) -> UpdatePolicy:
        """Return ``spec.updatePolicy``."""
        return UpdatePolicy(update_mode=self.mode.value, min_replicas=self.min_replicas)

    @property
    def resource_policy(self) -> ResourcePolicy | None:
        """Return ``spec.resourcePolicy``, one entry for all containers; None if it is empty."""
        entry = ContainerPolicy(
            container_name=EVERY_OTHER,
            min_allowed=self.min_allowed,
            max_allowed=self.max_allowed,
            controlled_resources=self.controlled_resources,
            controlled_values=self.controlled_values,
        )
        if entry == ContainerPolicy(container_name=EVERY_OTHER):
            return None
        return ResourcePolicy(container_policies=(entry,))


def parse_policy(texts: Mapping[str, str]) -> CreationPolicy:
    """Return the policy of settings, by their names; without a mode it is Off.

    Raises:
        SettingError: a setting is unknown or invalid.
    """
    for name in texts:
        if name not in tuple(Setting):
            raise SettingError(name, f"unknown; use one of {', '.join(Setting)}")
    lowest = _amounts(Setting.MIN_ALLOWED, texts)
    highest = _amounts(Setting.MAX_ALLOWED, texts)
    for resource in in_order((lowest or {}).keys() & (highest or {}).keys()):
        low, high = (lowest or {})[resource], (highest or {})[resource]
        if high < low:
            problem = f"{resource}={high} is less than {Setting.MIN_ALLOWED}, {resource}={low}"
            raise SettingError(Setting.MAX_ALLOWED, problem)
    values = _choice(Setting.CONTROLLED_VALUES, texts, tuple(ControlledValues))
    return CreationPolicy(
        mode=UpdateMode(_choice(Setting.MODE, texts, MODES) or UpdateMode.OFF),
        min_replicas=_min_replicas(texts.get(Setting.MIN_REPLICAS)),
        min_allowed=_texts(lowest),
        max_allowed=_texts(highest),
        controlled_resources=_resources(texts.get(Setting.CONTROLLED_RESOURCES)),
        controlled_values=None if values is None else ControlledValues(values),
    )


def annotated_policy(annotations: Mapping[str, str] | None) -> CreationPolicy:
    """Return the policy in the annotations of a namespace.

    Raises:
        SettingError: an annotation with the prefix is unknown or invalid.
    """
    return parse_policy(
        {
            name.removeprefix(PREFIX): text
            for name, text in (annotations or {}).items()
            if name.startswith(PREFIX)
        }
    )


def _choice(setting: Setting, texts: Mapping[str, str], choices: tuple[str, ...]) -> str | None:
    text = texts.get(setting)
    if text is None or text in choices:
        return text
    raise SettingError(setting, f"{text!r} is none of {', '.join(choices)}")


def _min_replicas(text: str | None) -> int | None:
    if text is None:
        return None
    # Python refuses to convert thousands of digits.
    if _COUNT.fullmatch(text) is None or not 1 <= int(text) < 2**31:
        raise SettingError(Setting.MIN_REPLICAS, f"{text!r} is no whole number of at least 1")
    return int(text)


def _resources(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) < len(names) or not set(names) <= set(RESOURCES):
        problem = f"{text!r} is none of cpu, memory and cpu,memory"
        raise SettingError(Setting.CONTROLLED_RESOURCES, problem)
    return tuple(in_order(names))


def _amounts(setting: Setting, texts: Mapping[str, str]) -> Mapping[str, Quantity] | None:
    if setting not in texts:
        return None
    found: dict[str, Quantity] = {}
    for part in texts[setting].split(","):
        resource, _, amount = (each.strip() for each in part.partition("="))
        if resource not in RESOURCES or resource in found or not amount:
            problem = f"{texts[setting]!r} doesn't have the form cpu=50m,memory=100Mi"
            raise SettingError(setting, problem)
        found[resource] = _quantity(setting, resource, amount)
    return {resource: found[resource] for resource in in_order(found)}


def _quantity(setting: Setting, resource: str, text: str) -> Quantity:
    try:
        quantity = parse_unsigned(text)
    except ValueError as error:  # QuantityError is one, too
        raise SettingError(setting, f"{resource}={text}: {error}") from error
    if resource == CPU and quantity.nanos % _NANOS_PER_MILLI:
        raise SettingError(setting, f"cpu={text} is no whole number of milli CPUs")
    if resource == MEMORY and quantity.nanos % _NANOS_PER_UNIT:
        raise SettingError(setting, f"memory={text} is no whole number of bytes")
    return quantity


def _texts(amounts: Mapping[str, Quantity] | None) -> Mapping[str, str] | None:
    return None if amounts is None else {name: str(value) for name, value in amounts.items()}
