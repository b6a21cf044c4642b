"""Which connection is closed to admit another, and when none can be."""

from collections.abc import Sequence

import pytest

from common.runtime.connection_limits import Connections, Place


class NamedConnections:
    """Opens connections by name; ``closed`` lists those that were closed for others."""

    def __init__(self, *, most: int = 4, most_of_peer: int = 3, most_bytes: int = 100) -> None:
        self.connections = Connections(most=most, most_of_peer=most_of_peer, most_bytes=most_bytes)
        self.places: dict[str, Place] = {}
        self.closed: list[str] = []

    def enter(self, *names: str) -> list[bool]:
        """Open connections ``peer-number``; return for each whether it was admitted."""
        return [self._enter(name) for name in names]

    def _enter(self, name: str) -> bool:
        place = self.connections.enter(name[0], lambda: self.closed.append(name))
        if place is not None:
            self.places[name] = place
        return place is not None

    def answer(self, *names: str) -> None:
        for name in names:
            self.connections.answer(self.places[name])


OPENING = [
    pytest.param(["a-1", "a-2", "a-3"], [], "b-1", True, [], id="there is room"),
    pytest.param(["a-1", "a-2", "a-3"], [], "a-4", True, ["a-1"], id="its peer has too many"),
    pytest.param(
        ["a-1", "a-2", "a-3"], ["a-1"], "a-4", True, ["a-2"], id="the oldest is being answered"
    ),
    pytest.param(
        ["a-1", "a-2", "a-3"], ["a-1", "a-2", "a-3"], "a-4", False, [], id="all are being answered"
    ),
    pytest.param(
        ["b-1", "a-1", "a-2", "a-3"],
        [],
        "c-1",
        True,
        ["a-1"],
        id="too many: closes one of the peer with the most",
    ),
    pytest.param(
        ["b-1", "a-1", "a-2", "a-3"],
        ["a-1", "a-2", "a-3"],
        "c-1",
        True,
        ["b-1"],
        id="too many, and the peer with the most is being answered",
    ),
    pytest.param(
        ["b-1", "a-1", "a-2", "a-3"],
        ["b-1", "a-1", "a-2", "a-3"],
        "c-1",
        False,
        [],
        id="too many, all are being answered",
    ),
]


@pytest.mark.parametrize(("there", "answered", "name", "enters", "closed"), OPENING)
def test_the_connection_that_has_waited_longest_is_closed(
    there: Sequence[str], answered: Sequence[str], name: str, *, enters: bool, closed: Sequence[str]
) -> None:
    named = NamedConnections()
    assert all(named.enter(*there))
    named.answer(*answered)
    assert named.enter(name) == [enters]
    assert named.closed == closed
    assert len(named.connections) == len(there) + enters - len(closed)


def test_a_connection_that_was_just_answered_has_waited_shortest() -> None:
    named = NamedConnections()
    named.enter("a-1", "a-2", "a-3")
    named.answer("a-1")
    named.connections.wait(named.places["a-1"])
    named.enter("a-4", "a-5")
    assert named.closed == ["a-2", "a-3"]


def test_a_place_is_released_once() -> None:
    named = NamedConnections()
    named.enter("a-1", "a-2", "a-3", "b-1")
    for _ in range(2):
        named.connections.leave(named.places["a-2"])
    for use in (named.connections.wait, named.connections.answer):
        use(named.places["a-2"])
    assert len(named.connections) == 3
    assert named.enter("a-4", "a-5") == [True, True]
    assert named.closed == ["a-1"]


def test_the_connection_with_the_largest_body_is_closed() -> None:
    named = NamedConnections()
    named.enter("a-1", "a-2", "b-1")
    hold = named.connections.hold
    assert hold(named.places["a-1"], 40)
    assert hold(named.places["a-2"], 50)
    assert hold(named.places["b-1"], 10)
    assert hold(named.places["b-1"], 1)
    assert named.closed == ["a-2"]
    assert not hold(named.places["b-1"], 90), "it holds the most itself"
    assert named.closed == ["a-2", "b-1"]
    assert not hold(named.places["b-1"], 1), "it was closed"


def test_a_connection_that_is_being_answered_is_not_closed_for_a_body() -> None:
    named = NamedConnections()
    named.enter("a-1", "b-1")
    assert named.connections.hold(named.places["a-1"], 100)
    named.answer("a-1")
    assert not named.connections.hold(named.places["b-1"], 1)
    named.connections.release(named.places["a-1"])
    assert not named.connections.hold(named.places["b-1"], 1)
    assert named.closed == ["b-1"]
    named.enter("b-2")
    assert named.connections.hold(named.places["b-2"], 100)
