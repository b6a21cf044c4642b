"""Amounts as short texts for people; JSON has the exact ones."""

from common.quantity import Quantity
from common.resources import CPU
from kubectl_vpa.results.status import ResourceStatus

_KIBI = 1024
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_NONE = "none"
_UNKNOWN = "-"


def short(resource: str, quantity: str) -> str:
    """Return a quantity with three digits at most: ``763m``, ``1.5``, ``488Mi``, ``1.95Gi``."""
    parsed = Quantity.parse(quantity)
    if parsed.is_zero:
        return "0"
    if resource == CPU:
        return f"{parsed.milli}m" if parsed.milli < 1000 else _digits(parsed.milli / 1000)
    value, unit = float(parsed.value), 0
    while abs(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / _KIBI, unit + 1
    return f"{_digits(value)}{_UNITS[unit]}"


def change(resource: str, status: ResourceStatus) -> str:
    """Return ``500m → 49m``, or one amount if both are equal.

    ``none`` stands for a missing request, a dash for an unknown amount.
    """
    target = _UNKNOWN if status.target is None else short(resource, status.target)
    if status.target is None and status.request is None:
        return _UNKNOWN
    if status.request is not None and status.drift == 0:
        return target
    return f"{_NONE if status.request is None else short(resource, status.request)} → {target}"


def percent(drift: float | None) -> str:
    """Return a relative change such as ``-90%``; large ones as a factor."""
    if drift is None:
        return _UNKNOWN
    if drift >= 9.995:
        return f"x{drift + 1:.0f}"
    return f"{drift:+.0%}" if round(drift, 2) else "0%"


def share(used: float | None) -> str:
    """Return a part of a request such as ``12%``; many times as much as a factor."""
    if used is None:
        return _UNKNOWN
    return f"x{used:.0f}" if used >= 9.995 else f"{used:.0%}"


def plain_number(value: float) -> str:
    """Return a positive number with three significant digits, and without an exponent."""
    if value >= 1:
        return _digits(value)
    return f"{float(f'{value:.3g}'):.6f}".rstrip("0").rstrip(".")


def _digits(value: float) -> str:
    """Return a number with three significant digits, and without zeros at its end."""
    if value >= 100:
        return f"{value:.0f}"
    text = f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
