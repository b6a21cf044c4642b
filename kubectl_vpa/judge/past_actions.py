"""What the updater did, from its own list and from Events."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from common.read_model.updater import PastAction
from kubectl_vpa.judge.planned import worded
from kubectl_vpa.results.history import HistoryResult

Object = Mapping[str, object]

EVENTS_OF_UPDATER = "source=vpa-updater"
"""The field selector of Events of the updater, ours and the reference's."""

_ACTIONS = {
    "EvictedByVPA": "evict",
    "EvictedPod": "evict",
    "InPlaceResizedByVPA": "resize",
    "InPlaceResizeBlocked": "blocked",
    "InPlaceResizeUnblocked": "unblocked",
    "InPlaceResizeSkipped": "skipped",
    "EvictionSkipped": "skipped",
    "EvictionsSuspended": "suspended",
    "EvictionsResumed": "resumed",
}
_VPA = "VerticalPodAutoscaler"
_NAMED_POD = re.compile(r"\bPod ([a-z0-9][-.a-z0-9]*[a-z0-9])")
_DETAILS = re.compile(r" *(?:\[(?P<reason>\w+)\] *)?\(VPA (?P<vpa>[^;)]+)(?:; (?P<changes>.*))?\)$")
_SAME = timedelta(seconds=5)  # between two records of one action


def of_updater(action: PastAction) -> HistoryResult:
    """Return an eviction or a resize from the updater's list."""
    reason = worded(action.meaning, "")
    detail = action.error or (f"replaced by {action.replacement}" if action.replacement else "")
    return HistoryResult(
        time=action.at,
        namespace=action.namespace,
        vpa=action.vpa,
        pod=action.pod,
        action=action.action,
        reason=action.reason,
        changes=action.changes,
        outcome=action.outcome,
        message=f"{reason}; {detail}" if detail else reason,
    )


def of_event(event: Object) -> HistoryResult | None:
    """Return what an Event reports; None if it is none of the updater's.

    Events of the reference name neither reason nor change, and those about pods no VPA.
    """
    about = event.get("involvedObject")
    action = _ACTIONS.get(str(event.get("reason")))
    if action is None or not isinstance(about, Mapping):
        return None
    text = str(event.get("message") or "")
    details = _DETAILS.search(text)
    found: Mapping[str, str | None] = details.groupdict() if details else {}
    message = text[: details.start()] if details else text
    on_vpa, name = about.get("kind") == _VPA, str(about.get("name", ""))
    named = _NAMED_POD.search(message) if on_vpa else None
    return HistoryResult(
        time=_time(event),
        namespace=str(about.get("namespace", "")),
        vpa=name if on_vpa else found.get("vpa"),
        pod=(named[1] if named else None) if on_vpa else name,
        action=action,
        reason=found.get("reason"),
        changes=found.get("changes") or "",
        outcome=None,
        message=message.rstrip(". "),
    )


def merged(
    actions: Sequence[HistoryResult], events: Iterable[HistoryResult]
) -> Sequence[HistoryResult]:
    """Return actions and Events, the newest first, and each action once.

    The updater reports an action in its list, by an Event about the pod, and by one about the VPA.
    The list says most, and the Event about the VPA names the pod, too.
    """
    known: dict[tuple[str, str | None, str], list[datetime | None]] = {}
    kept = list(actions)
    for each in actions:
        known.setdefault(_key(each), []).append(each.time)
    for each in sorted(events, key=lambda event: event.vpa is None):
        times = known.setdefault(_key(each), [])
        if each.pod is None or not _is_known(each.time, times):
            kept.append(each)
            times.append(each.time)
    latest = datetime.max.replace(tzinfo=UTC)
    return sorted(kept, key=lambda each: each.time or latest, reverse=True)


def _key(result: HistoryResult) -> tuple[str, str | None, str]:
    return (result.namespace, result.pod, result.action)


def _is_known(time: datetime | None, times: Iterable[datetime | None]) -> bool:
    return any(time is None or other is None or abs(time - other) <= _SAME for other in times)


def _time(event: Object) -> datetime | None:
    for name in ("lastTimestamp", "eventTime", "firstTimestamp"):
        try:
            found = datetime.fromisoformat(str(event.get(name) or ""))
        except ValueError:
            continue
        return found.astimezone(UTC)
    return None
