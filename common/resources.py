"""Resources by name, and the integer amounts that the recommender uses.

CPU is counted in millicores and memory in bytes, both as integers from 0 to ``MAX_AMOUNT``.
A resource list of Kubernetes, such as ``requests``, is a mapping of quantities.

Source: recommender.md section 2; vertical-pod-autoscaler/pkg/recommender/model/types.go.
"""

import math
from collections.abc import Iterable, Mapping

from common.quantity import Format, Quantity

CPU = "cpu"
MEMORY = "memory"
RESOURCES = (CPU, MEMORY)

ResourceQuantities = Mapping[str, Quantity]

MAX_AMOUNT = 10**14  # millicores or bytes

_MILLICORE = Quantity.from_milli(1)
_BYTE = Quantity.from_value(1)
_BELOW_ANY_MINIMUM = -(2**63)  # what NaN becomes on amd64


def parse_quantities(raw: Mapping[str, str | int | float | None] | None) -> dict[str, Quantity]:
    """Parse a resource list from JSON; an absent one is empty.

    Raises:
        QuantityError: one of the values is no quantity.
    """
    if not raw:
        return {}
    return {name: Quantity.from_json(value) for name, value in raw.items()}


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names of resources: cpu, memory, then all other resources by name.

    The reference iterates over maps in random order; all visible lists of ours have this order.
    """
    return sorted(names, key=_rank)


def amount(value: float) -> int:
    """Return a number as an amount: limited to 0 to ``MAX_AMOUNT``, without its fraction.

    NaN becomes an amount below any minimum, which every caller raises or rejects.
    """
    if value > MAX_AMOUNT:
        return MAX_AMOUNT
    if value < 0:
        return 0
    return _BELOW_ANY_MINIMUM if math.isnan(value) else int(value)


def one_unit(resource: str) -> Quantity:
    """Return one unit of a resource: a millicore of CPU, a byte of memory, one of any other."""
    return _MILLICORE if resource == CPU else _BYTE


def scale(amount_: int, factor: float) -> int:
    """Multiply an amount and drop the fraction."""
    return amount(float(amount_) * factor)


def cpu_from_cores(cores: float) -> int:
    """Return the millicores of a number of cores; drop the fraction."""
    return amount(cores * 1000.0)


def memory_from_bytes(count: float) -> int:
    """Return bytes as an amount; drop the fraction."""
    return amount(count)


def cpu_quantity(millicores: int) -> Quantity:
    """Return a number of millicores in decimal units: ``25m``, ``1``, ``1500m``."""
    return Quantity.from_milli(millicores, Format.DECIMAL_SI)


def memory_quantity(count: int) -> Quantity:
    """Return a number of bytes in binary units where it is a multiple of one: ``250Mi``."""
    return Quantity.from_value(count, Format.BINARY_SI)


def _rank(name: str) -> tuple[int, str]:
    return (RESOURCES.index(name) if name in RESOURCES else len(RESOURCES), name)
