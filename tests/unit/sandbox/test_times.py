"""Times and ages as Kubernetes writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sandbox.times import human_age, micro_time, rfc3339

WHEN = datetime(2026, 1, 2, 4, 4, 5, 120, tzinfo=timezone(timedelta(hours=1)))


def test_times_are_in_utc() -> None:
    assert rfc3339(WHEN) == "2026-01-02T03:04:05Z"
    assert micro_time(WHEN) == "2026-01-02T03:04:05.000120Z"
    assert micro_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000000Z"


HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (8 * HOUR - 60, "7h59m"),
        (8 * HOUR, "8h"),
        (48 * HOUR - 1, "47h"),
        (2 * DAY, "2d"),
        (8 * DAY - HOUR, "7d23h"),
        (8 * DAY, "8d"),
        (730 * DAY - 1, "729d"),
        (730 * DAY, "2y"),
        (731 * DAY, "2y1d"),
        (8 * 365 * DAY, "8y"),
    ],
)
def test_ages_have_two_units_at_most(seconds: int, want: str) -> None:
    assert human_age(timedelta(seconds=seconds)) == want
