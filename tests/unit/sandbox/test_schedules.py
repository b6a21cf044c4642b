"""Cron schedules; the expectations are those of the library that Kubernetes uses."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from sandbox.schedules import ScheduleError, parse_schedule

UTC_ZONE = ZoneInfo("UTC")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "want"),
    [
        pytest.param("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00", id="each minute"),
        pytest.param("*/15 * * * *", "2026-01-01T00:15:01", "2026-01-01T00:30:00", id="step"),
        pytest.param("5/20 * * * *", "2026-01-01T00:26:00", "2026-01-01T00:45:00", id="from-step"),
        pytest.param("0 9-17/4 * * *", "2026-01-01T09:00:00", "2026-01-01T13:00:00", id="range"),
        pytest.param("0 0 1,15 * ?", "2026-01-02T00:00:00", "2026-01-15T00:00:00", id="list"),
        pytest.param("0 0 * FEB *", "2026-01-02T00:00:00", "2026-02-01T00:00:00", id="month name"),
        pytest.param("0 8 * * mon-fri", "2026-01-02T08:00:00", "2026-01-05T08:00:00", id="days"),
        pytest.param("0 0 13 * fri", "2026-01-03T00:00:00", "2026-01-09T00:00:00", id="either day"),
        pytest.param("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00", id="leap day"),
        pytest.param("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00", id="macro"),
        pytest.param("@every 90m", "2026-01-01T00:00:00", "2026-01-01T01:30:00", id="every"),
    ],
)
def test_next_due(schedule: str, after: str, want: str) -> None:
    assert parse_schedule(schedule).after(at(after), UTC_ZONE) == at(want)


def test_a_day_that_never_comes_is_never_due() -> None:
    assert parse_schedule("0 0 30 2 *").after(at("2026-01-01T00:00:00"), UTC_ZONE) is None


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param("2026-01-01T00:00:00", "2026-01-01T01:30:00", id="winter"),
        pytest.param("2026-03-28T02:00:00", "2026-03-30T00:30:00", id="left out in spring"),
        pytest.param("2026-10-25T00:00:00", "2026-10-25T00:30:00", id="once in autumn"),
    ],
)
def test_zones_and_their_clock_changes(after: str, want: str) -> None:
    schedule = parse_schedule("30 2 * * *")
    assert schedule.after(at(after), ZoneInfo("Europe/Berlin")) == at(want)


@pytest.mark.parametrize(
    ("since", "want"),
    [
        pytest.param("2026-01-01T11:59:30", "2026-01-01T12:00:00", id="one missed"),
        pytest.param("2020-01-01T00:00:00", "2026-01-01T12:00:00", id="years missed"),
        pytest.param("2026-01-01T12:00:00", None, id="none missed"),
    ],
)
def test_the_latest_of_those_missed_counts(since: str, want: str | None) -> None:
    found = parse_schedule("0 * * * *").latest(at(since), at("2026-01-01T12:00:59"), UTC_ZONE)
    assert found == (None if want is None else at(want))


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "60 * * * *", "5-1 * * * *", "*/0 * * * *", "x * * * *", "0 0 0 * *", "@soon"],
)
def test_what_is_no_schedule(schedule: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(schedule)
