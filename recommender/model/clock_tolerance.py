"""How far a timestamp may be ahead of the recommender's clock.

A timestamp that is further ahead comes from a wrong clock, or ours is wrong. Such a sample must
not count: until its time has come no other sample of its container would, and old samples weigh
next to nothing beside one from the far future (X33).
"""

from datetime import timedelta

from common.flags import positive_duration

MARGIN = timedelta(minutes=1)  # by which the clocks of a cluster may differ
_USUAL_WINDOW = timedelta(minutes=1)  # of samples that name none
_LONGEST_WINDOW = timedelta(minutes=10)
_LONGEST_TEXT = 32  # characters; the longest duration that Go prints has 25

LONGEST = _LONGEST_WINDOW + MARGIN
"""The most that is tolerated, whatever the metrics window."""


def tolerated(window: object = None) -> timedelta:
    """Return how far ahead a sample may be: its metrics window and a minute.

    ``window`` is a Go duration, as PodMetrics have it. A window that is missing, unreadable or
    not positive counts as a minute, and one of more than ten minutes as ten.
    """
    return _window(window) + MARGIN


def _window(written: object) -> timedelta:
    if not isinstance(written, str) or len(written) > _LONGEST_TEXT:
        return _USUAL_WINDOW
    try:
        return min(positive_duration(written), _LONGEST_WINDOW)
    except ValueError:
        return _USUAL_WINDOW
    except OverflowError:  # beyond what a timedelta holds
        return _LONGEST_WINDOW
