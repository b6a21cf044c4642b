"""Events of both generations: how they are made, what they may hold, and what may change."""

from typing import Any

from recorded_requests.case import (
    MERGE,
    NS,
    STRATEGIC,
    Case,
    Object,
    case,
    get,
    named,
    patch,
    post,
)

EVENTS = f"{NS}/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"

ABOUT = {"kind": "Pod", "namespace": "{ns}", "name": "p", "uid": "u", "apiVersion": "v1"}
OLD = named(
    "p.1",
    involvedObject=ABOUT,
    reason="Evicted",
    message="m",
    type="Normal",
    source={"component": "c"},
    firstTimestamp="2026-11-21T08:25:00Z",
    lastTimestamp="2026-11-21T08:25:00Z",
    count=1,
)
NEW = named(
    "p.2",
    regarding=ABOUT,
    reason="Evicted",
    note="n",
    type="Normal",
    action="Evict",
    reportingController="example.com/c",
    reportingInstance="c-0",
    eventTime="2026-11-21T08:25:00.000000Z",
)
LATER = "2026-11-21T08:26:00.000000Z"


def generations() -> list[Case]:
    """What is taken, and what a new Event must say at least."""
    return [
        case("event-create", post(EVENTS, OLD)),
        case(
            "event-other-namespace",
            post(EVENTS, {**OLD, "involvedObject": {**ABOUT, "namespace": "other"}}),
        ),
        case("event-no-object", post(EVENTS, named("e"))),
        case("event-twice", post(EVENTS, OLD), before=[post(EVENTS, OLD)]),
        case(
            "event-count", patch(f"{EVENTS}/p.1", {"count": 2}, MERGE), before=[post(EVENTS, OLD)]
        ),
        case("event-new", post(NEW_EVENTS, NEW), get(f"{EVENTS}/p.2")),
        case("event-old-as-new", get(f"{NEW_EVENTS}/p.1"), before=[post(EVENTS, OLD)]),
        case("event-new-no-action", post(NEW_EVENTS, {**NEW, "action": ""})),
        case("event-new-no-reason", post(NEW_EVENTS, {**NEW, "reason": ""})),
        case("event-new-no-controller", post(NEW_EVENTS, {**NEW, "reportingController": ""})),
        case("event-new-no-time", post(NEW_EVENTS, {**NEW, "eventTime": None})),
        case("event-new-bad-type", post(NEW_EVENTS, {**NEW, "type": "Odd"})),
        case("event-new-long-note", post(NEW_EVENTS, {**NEW, "note": "n" * 1025})),
        case("event-new-long-reason", post(NEW_EVENTS, {**NEW, "reason": "r" * 129})),
        case(
            "event-series",
            patch(f"{NEW_EVENTS}/p.2", {"series": {"count": 2, "lastObservedTime": LATER}}, MERGE),
            before=[post(NEW_EVENTS, NEW)],
        ),
        case("event-generate-name", post(EVENTS, {**OLD, "metadata": {"generateName": "p-"}})),
        case(
            "event-field-selector",
            get(f"{EVENTS}?fieldSelector=involvedObject.name%3Dp,reason%3DEvicted"),
            before=[post(EVENTS, OLD)],
        ),
    ]


def rules() -> list[Case]:
    """What a field may hold, and what an update may change."""

    def made(name: str, /, **fields: Any) -> Case:
        return case(f"event-new-{name}", post(NEW_EVENTS, {**NEW, **fields}))

    def without(field: str) -> Case:
        body = {name: value for name, value in NEW.items() if name != field}
        return case(f"event-new-without-{field.lower()}", post(NEW_EVENTS, body))

    def changed(name: str, change: Object, path: str = NEW_EVENTS, kind: str = MERGE) -> Case:
        request = patch(f"{path}/p.2", change, kind)
        return case(f"event-change-{name}", request, before=[post(NEW_EVENTS, NEW)])

    return [
        made("no-instance", reportingInstance=""),
        made("long-instance", reportingInstance="x" * 129),
        made("long-action", action="x" * 129),
        made("bad-controller", reportingController="a/b/c"),
        made("series-of-one", series={"count": 1, "lastObservedTime": LATER}),
        made("series-without-time", series={"count": 2}),
        made("count", deprecatedCount=1),
        made("first-time", deprecatedFirstTimestamp="2026-11-21T08:25:00Z"),
        made("source", deprecatedSource={"component": "c"}),
        made("about-a-node", regarding={"kind": "Node", "name": "n"}),
        made("about-elsewhere", regarding={**ABOUT, "namespace": "other"}),
        made("related", related=ABOUT),
        made("bad-time", eventTime="x"),
        *(without(field) for field in ("type", "note", "regarding")),
        changed("note", {"note": "x"}),
        changed("reason", {"reason": "x"}),
        changed("type", {"type": "Warning"}),
        changed("regarding", {"regarding": {"name": "q"}}),
        changed("series-of-one", {"series": {"count": 1}}),
        changed("action", {"action": "x"}),
        changed("time", {"eventTime": "2026-11-21T08:25:00.000001Z"}),
        changed("label", {"metadata": {"labels": {"a": "b"}}}),
        changed("series", {"series": {"count": 3, "lastObservedTime": LATER}}, kind=STRATEGIC),
        changed("core-message", {"message": "x"}, EVENTS),
        changed("core-reason", {"reason": ""}, EVENTS),
        case("event-core-time", post(EVENTS, {**OLD, "eventTime": LATER})),
        case("event-core-type", post(EVENTS, {**OLD, "type": "Odd"})),
        case("event-core-name", post(EVENTS, {**OLD, "metadata": {"name": "A_b"}})),
        case("event-core-slash", post(EVENTS, {**OLD, "metadata": {"name": "a b/c"}})),
        case(
            "event-core-as-new",
            patch(f"{NEW_EVENTS}/p.1", {"note": "x"}, MERGE),
            get(f"{NEW_EVENTS}?fieldSelector=regarding.name%3Dp"),
            before=[post(EVENTS, OLD)],
        ),
    ]


CASES = [*generations(), *rules()]
