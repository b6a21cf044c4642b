"""Times as ``kubectl vpa`` prints them for people."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kubectl_vpa.output.times import ago, moment, stamp

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_times_are_in_utc() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert (moment(there), stamp(there)) == ("2026-01-02 03:04 UTC", "2026-01-02 03:04:05")


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-60, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (86399, "23h"),
        (200000, "2d"),
    ],
)
def test_an_age_has_its_largest_unit(seconds: float, want: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), now=NOW) == want
