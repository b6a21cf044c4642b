"""Instants as integers, so that a column of them is a NumPy array.

An instant is the number of microseconds since 0001-01-01T00:00:00Z, Go's zero time. So 0
means "never", and the multiples of a half-life count from where the reference counts them.
"""

from datetime import UTC, datetime, timedelta

NEVER = 0

_ZERO = datetime(1, 1, 1, tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LATEST_INSTANT = (_LATEST - _ZERO) // _MICROSECOND


def span(duration: timedelta) -> int:
    """Return a duration in microseconds."""
    return duration // _MICROSECOND


def instant(moment: datetime | None) -> int:
    """Return the integer of a moment; NEVER for None."""
    return NEVER if moment is None else (moment - _ZERO) // _MICROSECOND


def moment(value: int) -> datetime | None:
    """Return the moment of an integer, None for NEVER; past the year 9999 it is that year's end."""
    if value == NEVER:
        return None
    return _LATEST if value >= _LATEST_INSTANT else _ZERO + timedelta(microseconds=value)
