"""The history of ``kubectl vpa history``: actions, Events, and each action once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from common.read_model.updater import ActionOutcome
from kubectl_vpa.judge.past_actions import merged, of_event, of_updater
from kubectl_vpa.results.history import HistoryResult
from scripted_components import TIME, past_action

VPA = "VerticalPodAutoscaler"
TEXT = "Pod was resized in place by VPA Updater."


def event(reason: str, message: str, *, kind: str = "Pod", name: str = "web-1") -> dict[str, Any]:
    return {
        "involvedObject": {"kind": kind, "namespace": "shop", "name": name},
        "reason": reason,
        "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    event: dict[str, Any]
    want: tuple[str, str | None, str | None, str | None, str, str] | None
    """Action, VPA, pod, reason, changes and message."""


CASES = [
    Case(
        id="ours about a pod",
        event=event("InPlaceResizedByVPA", f"{TEXT} [drifted] (VPA web; app cpu 1 -> 2)"),
        want=("resize", "web", "web-1", "drifted", "app cpu 1 -> 2", TEXT.rstrip(".")),
    ),
    Case(
        id="ours about a VPA",
        event=event(
            "InPlaceResizeBlocked",
            "In-place update of Pod web-1 is blocked: no (room). [x] (VPA web; app cpu 1 -> 2)",
            kind=VPA,
            name="web",
        ),
        want=(
            *("blocked", "web", "web-1", "x", "app cpu 1 -> 2"),
            "In-place update of Pod web-1 is blocked: no (room)",
        ),
    ),
    Case(
        id="ours without a change",
        event=event("EvictionsResumed", "Evictions go on. (VPA web)", kind=VPA, name="web"),
        want=("resumed", "web", None, None, "", "Evictions go on"),
    ),
    Case(
        id="the reference's about a pod",
        event=event("InPlaceResizedByVPA", TEXT),
        want=("resize", None, "web-1", None, "", TEXT.rstrip(".")),
    ),
    Case(
        id="the reference's about a VPA",
        event=event(
            "EvictedPod",
            "VPA Updater evicted Pod web-1.a to apply resource recommendation.",
            kind=VPA,
            name="web",
        ),
        want=(
            *("evict", "web", "web-1.a", None, ""),
            "VPA Updater evicted Pod web-1.a to apply resource recommendation",
        ),
    ),
    Case(id="another Event", event=event("Scheduled", "Assigned to a node."), want=None),
    Case(id="an Event without an object", event={"reason": "EvictedPod"}, want=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_event_is_read(case: Case) -> None:
    found = of_event(case.event)
    if case.want is None:
        assert found is None
        return
    assert found is not None
    assert (
        *(found.action, found.vpa, found.pod, found.reason, found.changes),
        found.message,
    ) == case.want
    assert (found.namespace, found.time) == ("shop", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("times", "want"),
    [
        ({"lastTimestamp": None, "eventTime": "2026-01-01T00:00:00.5Z"}, 500_000),
        ({"lastTimestamp": "then", "firstTimestamp": "2026-01-01T00:00:00Z"}, 0),
        ({"lastTimestamp": None}, None),
    ],
)
def test_the_time_is_the_latest_that_is_known(times: dict[str, Any], want: int | None) -> None:
    found = of_event(event("EvictedByVPA", "") | times)
    assert found is not None
    assert (None if found.time is None else found.time.microsecond) == want


def test_an_action_says_what_became_of_it() -> None:
    action = past_action(
        "web", "web-1", ActionOutcome.REPLACED_RIGHT, minute=1, replacement="web-2"
    )
    found = of_updater(action)
    assert (found.time, found.vpa, found.pod, found.action) == (action.at, "web", "web-1", "evict")
    assert (found.reason, found.outcome) == ("outside_range", "replaced_right")
    reason = "a request is outside lower and upper bound"
    assert found.message == f"{reason}; replaced by web-2"
    refused = past_action("web", "web-1", ActionOutcome.REFUSED, minute=1, error="a quota")
    assert of_updater(refused).message == f"{reason}; a quota"
    accepted = past_action("web", "web-1", ActionOutcome.ACCEPTED, minute=1)
    assert of_updater(accepted).message == reason


def entry(pod: str | None, seconds: float | None, **more: Any) -> HistoryResult:
    time = None if seconds is None else TIME + timedelta(seconds=seconds)
    made = HistoryResult(
        time=time,
        namespace="shop",
        vpa="web",
        pod=pod,
        action="evict",
        reason=None,
        changes="",
        outcome=None,
        message="",
    )
    return replace(made, **more)


LISTED = entry("web-1", 0.0, outcome="accepted")


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([entry("web-1", 5.0)], 0),
        ([entry("web-1", -5.0)], 0),
        ([entry("web-1", 5.1)], 1),
        ([entry("web-1", None)], 0),
        ([entry("web-2", 0.0)], 1),
        ([entry("web-1", 0.0, namespace="other")], 1),
        ([entry("web-1", 0.0, action="blocked")], 1),
        ([entry("web-2", 9.0), entry("web-2", 9.0)], 1),
        ([entry(None, 0.0), entry(None, 0.0)], 2),
    ],
    ids=[
        *("five seconds later", "five seconds before", "later still", "at an unknown time"),
        *("of another pod", "of another namespace", "of another kind"),
        *("about pod and VPA", "about the VPA alone"),
    ],
)
def test_an_event_about_a_listed_action_is_left_out(events: list[HistoryResult], kept: int) -> None:
    assert len(merged([LISTED], events)) == 1 + kept


def test_the_event_that_names_the_vpa_is_kept() -> None:
    (found,) = merged([], [entry("web-1", 0.0, vpa=None), entry("web-1", 1.0)])
    assert found.vpa == "web"


def test_the_newest_comes_first() -> None:
    found = merged([LISTED], [entry("web-2", 60.0), entry("web-3", -60.0), entry("web-4", None)])
    assert [each.pod for each in found] == ["web-4", "web-2", "web-1", "web-3"]
