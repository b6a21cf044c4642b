"""Instants as integers, so that a column of them is a NumPy array.

An instant is the number of microseconds since 0001-01-01T00:00:00Z, Go's zero time. So 0
means "never", and multiples of a half-life count from the same time as in the reference.
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
    """Return the instant of a moment; NEVER for None."""
    return NEVER if moment is None else (moment - _ZERO) // _MICROSECOND


def moment(value: int) -> datetime | None:
    """Return the moment of an instant; None for NEVER, and at most the end of the year 9999."""
    if value == NEVER:
        return None
    return _LATEST if value >= _LATEST_INSTANT else _ZERO + timedelta(microseconds=value)
