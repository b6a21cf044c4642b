"""Times and ages in the formats of Kubernetes."""

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
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (2 * HOUR - 1, "119m"),
        (2 * HOUR, "2h"),
        (48 * HOUR - 1, "47h"),
        (2 * DAY, "2d"),
        (730 * DAY, "730d"),
    ],
)
def test_ages_have_one_unit(seconds: int, want: str) -> None:
    assert human_age(timedelta(seconds=seconds)) == want
