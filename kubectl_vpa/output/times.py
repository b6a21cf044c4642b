"""Times and durations as short texts for people; JSON has the exact ones."""

from datetime import UTC, datetime, timedelta

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def moment(time: datetime) -> str:
    """Return ``2026-01-01 14:05 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def stamp(time: datetime) -> str:
    """Return ``2026-01-01 14:05:33``, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def ago(time: datetime, *, now: datetime) -> str:
    """Return how long ago a time was, in its largest unit: ``42s``, ``5m``, ``3d``.

    A time in the future is ``0s``: clocks differ.
    """
    seconds = int(max(now - time, timedelta()).total_seconds())
    name, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{seconds // size}{name}"
