"""The tolerance for timestamps that are ahead of the recommender's clock.

A timestamp that is further ahead means that one of the clocks is wrong. Its sample must not count:
no other sample of the container would count until that time, and the weight of old samples is
negligible beside one from the far future (X33).
"""

from datetime import timedelta

from common.flags import positive_duration

MARGIN = timedelta(minutes=1)  # accepted difference between clocks of a cluster
_DEFAULT_WINDOW = timedelta(minutes=1)
_LONGEST_WINDOW = timedelta(minutes=10)
_LONGEST_TEXT = 32  # characters; the longest duration that Go prints has 25

LONGEST = _LONGEST_WINDOW + MARGIN
"""The maximum of ``tolerated``."""


def tolerated(window: object = None) -> timedelta:
    """Return the tolerance for a sample: its metrics window plus a minute.

    ``window`` is the Go duration in PodMetrics. A window that is missing, unreadable or not
    positive counts as one minute, and a window of more than ten minutes as ten.
    """
    return _window(window) + MARGIN


def _window(written: object) -> timedelta:
    if not isinstance(written, str) or len(written) > _LONGEST_TEXT:
        return _DEFAULT_WINDOW
    try:
        return min(positive_duration(written), _LONGEST_WINDOW)
    except ValueError:
        return _DEFAULT_WINDOW
    except OverflowError:  # too long for a timedelta
        return _LONGEST_WINDOW
