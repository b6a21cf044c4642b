"""Times as Kubernetes writes them."""

from datetime import UTC, datetime, timedelta


def rfc3339(when: datetime) -> str:
    """``2026-01-02T15:04:05Z``: whole seconds, in UTC."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(when: datetime) -> str:
    """``2026-01-02T15:04:05.000000Z``: always six digits."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def human_age(age: timedelta) -> str:
    """An age as tables show it: two units at most, the fewer the older.

    Source: ``HumanDuration``, k8s.io/apimachinery pkg/util/duration/duration.go.
    """
    seconds = int(age.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}" if small == 0 else f"{large}{unit}{small}{small_unit}"
