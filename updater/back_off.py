"""How long to leave the API server alone after it refused something again."""

from datetime import timedelta

_MOST_DOUBLINGS = 5


def pause_after(tries: int, *, interval: timedelta) -> timedelta:
    """Return the interval, doubled with every try after the first, up to thirty-two intervals."""
    return interval * float(2 ** min(max(tries - 1, 0), _MOST_DOUBLINGS))
