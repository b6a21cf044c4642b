"""Annotations that the admission controller writes on pods and the updater reads.

Names and values are those of the reference, so that pods stay valid if the implementation changes.

Source: admission.md section 5; vertical-pod-autoscaler/pkg/utils/annotations.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from common.quantity import Quantity, QuantityError
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

VPA_UPDATES = "vpaUpdates"  # a readable list of changes and their causes
OBSERVED_CONTAINERS = "vpaObservedContainers"
IN_PLACE_UPDATED = "vpaInPlaceUpdated"  # "true", written by the updater
STARTUP_BOOST_PREFIX = "vpaCpuStartupBoost/"  # followed by the container's name

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_IS_BOOST = re.compile(re.escape(STARTUP_BOOST_PREFIX)).match
_SEPARATOR = ", "


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalResources:
    """A container's requests and limits before its CPU boost; cpu and memory only."""

    requests: ResourceQuantities
    limits: ResourceQuantities


def observed_containers_value(names: Iterable[str]) -> str:
    """Return the containers that the pod had on admission, as a list in text form."""
    return _SEPARATOR.join(names)


def parse_observed_containers(value: str) -> tuple[str, ...] | None:
    """Parse the list; None if the value is malformed, which counts as absent.

    An empty value is an empty list: no container is observed.

    Source: updater.md section 7; ``ParseVpaObservedContainersValue``.
    """
    if not value:
        return ()
    names = tuple(value.split(_SEPARATOR))
    if all(_DNS_LABEL.fullmatch(name) for name in names):
        return names
    return None


def startup_boost_key(container: str) -> str:
    """Return the annotation that holds a container's original resources."""
    return f"{STARTUP_BOOST_PREFIX}{container}"


def boosted_containers(annotations: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the sorted names of the containers whose CPU is still boosted."""
    found = (key for key in annotations or {} if key.startswith(STARTUP_BOOST_PREFIX))
    return tuple(sorted(key.removeprefix(STARTUP_BOOST_PREFIX) for key in found))


def is_boosted(annotations: Mapping[str, str] | None) -> bool:
    """Return True if the CPU of some container is still boosted."""
    return any(map(_IS_BOOST, annotations or ()))


def startup_boost_value(original: OriginalResources) -> str:
    """Write original resources as compact JSON: ``{"requests":{"cpu":"100m"},"limits":{}}``."""
    parts = {"requests": _texts(original.requests), "limits": _texts(original.limits)}
    return msgspec.json.encode(parts).decode()


def parse_startup_boost(value: str) -> OriginalResources | None:
    """Parse original resources; None if the value has another format than ours."""
    try:
        raw = msgspec.json.decode(value, type=dict[str, dict[str, str] | None])
        return OriginalResources(
            requests=parse_quantities(raw.get("requests")),
            limits=parse_quantities(raw.get("limits")),
        )
    except (msgspec.DecodeError, QuantityError):
        return None


def _texts(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(quantities[name]) for name in RESOURCES if name in quantities}
