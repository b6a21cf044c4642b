"""Cron schedules: when a CronJob is due.

Five fields (minute, hour, day of month, month, day of week) of ``*``, ``?``, numbers, names,
ranges, lists and steps, or a macro such as ``@daily`` or ``@every 90m``. When both days are
restricted, either of them is enough.

Source: github.com/robfig/cron/v3 (parser.go, spec.go), which Kubernetes uses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from zoneinfo import ZoneInfo

from common.flags import duration
from common.quantity import MAX_INT64

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
_EVERY = "@every "
_ANY = ("*", "?")
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
        ScheduleError: it isn't one; the message is the library's.
    """
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith(_EVERY):
        return Schedule(every=_duration(text))
    if text.startswith("@") and text not in _MACROS:
        raise ScheduleError(f"unrecognized descriptor: {text}")
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
        any_day=_is_open(words[2]) or _is_open(words[4]),
    )


def _duration(text: str) -> timedelta:
    """Whole seconds, at least one."""
    given = text.removeprefix(_EVERY)
    try:
        found = duration(given)
    except ValueError as error:
        unit = "missing unit in" if given.lstrip("+-").isdecimal() else "invalid"
        reason = f'time: {unit} duration "{given}"'
        raise ScheduleError(f"failed to parse duration {text}: {reason}") from error
    return max(found - timedelta(microseconds=found.microseconds), timedelta(seconds=1))


def _numbers(text: str, least: int, most: int, names: Mapping[str, int]) -> frozenset[int]:
    """The numbers that a field stands for."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        span, *steps = part.split("/")
        first, *others = span.split("-")
        if first in _ANY:
            start, end = least, most
        else:
            start = end = _number(first, names)
            if len(others) > 1:
                raise ScheduleError(f"too many hyphens: {part}")
            if others:
                end = _number(others[0], names)
        if len(steps) > 1:
            raise ScheduleError(f"too many slashes: {part}")
        step = _number(steps[0], {}) if steps else 1
        if steps and not others:
            end = most
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


def _is_open(text: str) -> bool:
    """Whether a field leaves everything open, as ``*`` does and ``*/2`` doesn't."""
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span.partition("-")[0] in _ANY and step in ("", "1"):
            return True
    return False


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    digits = text[1:] if text.startswith(("+", "-")) else text
    reason = ""
    if not (digits.isascii() and digits.isdecimal()):
        reason = "invalid syntax"
    elif int(digits) > MAX_INT64:
        reason = "value out of range"
    if reason:
        problem = f'strconv.Atoi: parsing "{text}": {reason}'
        raise ScheduleError(f"failed to parse int from {text}: {problem}")
    return int(text)
