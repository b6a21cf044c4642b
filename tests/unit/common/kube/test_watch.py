"""The watch protocol: chunks of bytes as input, events as output."""

import itertools

import pytest

from common.api.core import Pod
from common.errors import DecodeError, GoneError, ServerError
from common.kube.watch import EventType, WatchEvent, WatchProtocol
from fake_api import named, watch_line

STREAM = b"".join(
    (
        watch_line("ADDED", named("a", 11)),
        watch_line("MODIFIED", named("a", 12)),
        watch_line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "20"}}),
        watch_line("DELETED", named("a", 21)),
    )
)
TOO_OLD = watch_line(
    "ERROR",
    {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old: 5 (782)"},
)


def protocol() -> WatchProtocol[Pod]:
    return WatchProtocol(Pod, resource_version="10")


def summary(events: list[WatchEvent[Pod]]) -> list[tuple[str, str, str]]:
    return [(event.type.value, event.name, event.resource_version) for event in events]


WHOLE = [
    ("ADDED", "a", "11"),
    ("MODIFIED", "a", "12"),
    ("BOOKMARK", "", "20"),
    ("DELETED", "a", "21"),
]


def test_events_are_in_order_and_advance_the_resource_version() -> None:
    watch = protocol()
    assert summary(list(watch.feed(STREAM))) == WHOLE
    assert watch.resource_version == "21"


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_lines_may_be_split_over_chunks_anywhere(size: int) -> None:
    watch = protocol()
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    events = list(itertools.chain.from_iterable(watch.feed(chunk) for chunk in chunks))
    assert summary(events) == WHOLE


def test_an_incomplete_last_line_is_dropped() -> None:
    watch = protocol()
    assert summary(list(watch.feed(STREAM[:-5]))) == WHOLE[:3]
    assert watch.resource_version == "20"


def test_events_before_an_error_are_yielded() -> None:
    watch = protocol()
    received: list[WatchEvent[Pod]] = []
    with pytest.raises(GoneError, match="too old"):
        received.extend(watch.feed(watch_line("ADDED", named("a", 11)) + TOO_OLD))
    assert summary(received) == [("ADDED", "a", "11")]
    assert watch.resource_version == "11"


def test_an_error_event_with_another_code() -> None:
    line = watch_line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"})
    with pytest.raises(ServerError):
        list(protocol().feed(line))


def test_an_error_event_without_a_status() -> None:
    with pytest.raises(ServerError):
        list(protocol().feed(b'{"type":"ERROR","object":17}\n'))


def test_unknown_event_types_and_empty_lines_are_skipped() -> None:
    lines = watch_line("SNOOZED", named("a", 99)) + b"\n \n" + watch_line("ADDED", named("b", 12))
    watch = protocol()
    assert summary(list(watch.feed(lines))) == [("ADDED", "b", "12")]


def test_an_event_of_an_undecodable_object_has_only_its_name() -> None:
    watch = protocol()
    (event,) = watch.feed(watch_line("MODIFIED", named("a", 13, status={"phase": 7})))
    assert (event.type, event.namespace, event.name) == (EventType.MODIFIED, "shop", "a")
    assert event.object is None
    assert watch.resource_version == "13"


def test_an_invalid_line_raises_an_error() -> None:
    with pytest.raises(DecodeError, match="not an event"):
        list(protocol().feed(b"<html>\n"))


def test_objects_can_be_decoded_as_dictionaries() -> None:
    watch = WatchProtocol(dict[str, object], resource_version="")
    (event,) = watch.feed(watch_line("ADDED", named("a", 11, spec={"x": 1})))
    assert event.object is not None
    assert event.object["spec"] == {"x": 1}
