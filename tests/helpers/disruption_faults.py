"""Faults that the judge of the proofs found, and the log before them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from disruption_log import (
    Call,
    Entry,
    PassBegins,
    PodState,
    ProcessBegins,
    Rollout,
    VpaBegins,
    Wanted,
)

_BEFORE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Fault:
    """A call that the updater should not have sent."""

    at: datetime
    app: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:%d %H:%M:%S} {self.text}"


def history(entries: Iterable[Entry], fault: Fault) -> list[str]:
    """Return the log of a workload and of the updater in the two minutes before a fault."""
    found = []
    for entry in entries:
        if timedelta() <= fault.at - entry.at <= _BEFORE:
            line = _line(entry, fault.app)
            found += [f"{entry.at:%d %H:%M:%S} {line}"] if line else []
    return found


def _line(entry: Entry, app: str) -> str:
    """Return a line for an entry; empty if it is about another workload."""
    match entry:
        case PodState():
            flags = ("pending", "there", "ready", "evicted", "restarts", "patched")
            text = " ".join(name for name in flags if getattr(entry, name))
            asked = entry.wanted["app"].get("requests")
            return f"{entry.name} {text} {entry.waits} {asked}" if entry.app == app else ""
        case Call():
            done = "refused" if entry.done_at is None else f"done {entry.done_at:%H:%M:%S}"
            return (
                f"{entry.kind} of {entry.name} {done}" if entry.name.startswith(f"{app}-") else ""
            )
        case Wanted():
            text = f"{entry.group[1]} wants {entry.replicas}"
            return text if f"{entry.group[1]}-".startswith(f"{app}-") else ""
        case Rollout():
            text = f"{'rolling' if entry.in_progress else 'complete'}, {entry.replicas} replicas"
            return text if entry.group[1] == app else ""
        case VpaBegins():
            return "new VPA" if entry.group[1] == app else ""
        case PassBegins():
            return "pass"
        case ProcessBegins():
            return "updater starts"
