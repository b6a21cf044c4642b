"""Times in the formats of Kubernetes."""

from datetime import UTC, datetime, timedelta


def rfc3339(when: datetime) -> str:
    """Return ``2026-01-02T15:04:05Z``: whole seconds, in UTC."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(when: datetime) -> str:
    """Return ``2026-01-02T15:04:05.000000Z``: always six digits, in UTC."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def human_age(age: timedelta) -> str:
    """Return an age as tables show it, in the largest unit: ``45s``, ``12m``, ``3h``, ``9d``.

    A real API server adds a second unit to some ages.
    """
    seconds = max(int(age.total_seconds()), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
