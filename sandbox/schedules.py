"""Cron schedules: when a CronJob is due.

Five fields (minute, hour, day of month, month, day of week) of ``*``, ``?``, numbers, names,
ranges, lists and steps, or a macro such as ``@daily`` or ``@every 90m``. When both days are
restricted, either of them is enough.

Source: github.com/robfig/cron/v3 (parser.go, spec.go), which Kubernetes uses.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from zoneinfo import ZoneInfo

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun")
_LATER_MONTHS = ("jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES + _LATER_MONTHS, start=1)}
_DAYS = {name: at for at, name in enumerate(_DAY_NAMES)}
_FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+[hms])+")
_LONGEST = 366 * 5  # days, within which every date that exists has come


class ScheduleError(ValueError):
    """A schedule can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When something is due; ``every`` replaces all other fields."""

    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()  # Sunday is 0
    any_day: bool = True  # the days of the month or of the week are not restricted
    every: timedelta = timedelta(0)

    def after(self, when: datetime, zone: ZoneInfo) -> datetime | None:
        """The first due moment after ``when``, in UTC; None when there is none in five years.

        A time that a change of the clocks leaves out is not due on that day, one that comes
        twice is due the first time.
        """
        if self.every:
            return when.replace(microsecond=0) + self.every
        first = when.astimezone(zone).date()
        for offset in range(_LONGEST):
            day = first + timedelta(days=offset)
            if not self._has(day.month, day.day, day.isoweekday() % 7):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    local = datetime.combine(day, time_of_day(hour, minute), zone)
                    due = local.astimezone(UTC)
                    exists = due.astimezone(zone).hour == hour
                    if due > when and exists:
                        return due
        return None

    def latest(self, since: datetime, now: datetime, zone: ZoneInfo) -> datetime | None:
        """The last due moment after ``since`` that isn't after ``now``."""
        for days in (0.01, 1, 32, 366, _LONGEST):
            start = max(since, now - timedelta(days=days))
            due = self.after(start, zone)
            if due is not None and due <= now:
                while (later := self.after(due, zone)) is not None and later <= now:
                    due = later
                return due
            if start == since:
                return None
        return None

    def _has(self, month: int, day: int, weekday: int) -> bool:
        if month not in self.months:
            return False
        in_month, in_week = day in self.days, weekday in self.weekdays
        return in_month and in_week if self.any_day else in_month or in_week


def parse_schedule(text: str) -> Schedule:
    """Read a schedule.

    Raises:
        ScheduleError: it isn't one.
    """
    text = text.strip()
    if text.startswith("@every "):
        return Schedule(every=_duration(text.removeprefix("@every ")))
    words = _MACROS.get(text, text).split()
    if len(words) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(words)}: [{' '.join(words)}]")
    minutes, hours, days, months, weekdays = (
        _numbers(word, *limits) for word, limits in zip(words, _FIELDS, strict=True)
    )
    return Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=any(word[0] in "*?" for word in (words[2], words[4])),
    )


def _duration(text: str) -> timedelta:
    if not _DURATION.fullmatch(text):
        raise ScheduleError(f"failed to parse duration {text}")
    parts = re.findall(r"(\d+)([hms])", text)
    found = timedelta(seconds=sum(int(number) * _UNITS[unit] for number, unit in parts))
    return max(found, timedelta(seconds=1))


def _numbers(text: str, least: int, most: int, names: Mapping[str, int]) -> frozenset[int]:
    """The numbers that a field stands for."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        start_text, dash, end_text = span.partition("-")
        step = _number(step_text, {}) if slash else 1
        if span in ("*", "?"):
            start, end = least, most
        else:
            start = _number(start_text, names)
            end = _number(end_text, names) if dash else (most if slash else start)
        if start < least:
            raise ScheduleError(f"beginning of range ({start}) below minimum ({least}): {part}")
        if end > most:
            raise ScheduleError(f"end of range ({end}) above maximum ({most}): {part}")
        if start > end:
            raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
        if step == 0:
            raise ScheduleError(f"step of range should be a positive number: {part}")
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.isdecimal():
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)
