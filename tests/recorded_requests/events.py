"""Events: creation, selection and counting."""

from recorded_requests.case import MERGE, NS, Case, case, get, named, patch, post

EVENTS = f"{NS}/events"

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

CASES: list[Case] = [
    case("event-create", post(EVENTS, OLD)),
    case("event-twice", post(EVENTS, OLD), before=[post(EVENTS, OLD)]),
    case("event-count", patch(f"{EVENTS}/p.1", {"count": 2}, MERGE), before=[post(EVENTS, OLD)]),
    case("event-generate-name", post(EVENTS, {**OLD, "metadata": {"generateName": "p-"}})),
    case(
        "event-field-selector",
        get(f"{EVENTS}?fieldSelector=involvedObject.name%3Dp,reason%3DEvicted"),
        before=[post(EVENTS, OLD)],
    ),
    case("event-core-type", post(EVENTS, {**OLD, "type": "Odd"})),
    case("event-core-name", post(EVENTS, {**OLD, "metadata": {"name": "A_b"}})),
]
