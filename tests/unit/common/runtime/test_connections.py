"""Which connection is closed for another, and when there is no room."""

from collections.abc import Sequence

import pytest

from common.runtime.connections import Connections, Place


class Door:
    """Opens connections by name; ``closed`` are those that made room."""

    def __init__(self, *, most: int = 4, most_of_peer: int = 3, most_bytes: int = 100) -> None:
        self.connections = Connections(most=most, most_of_peer=most_of_peer, most_bytes=most_bytes)
        self.places: dict[str, Place] = {}
        self.closed: list[str] = []

    def enter(self, *names: str) -> list[bool]:
        """Connections ``peer-number``; whether each came in."""
        return [self._enter(name) for name in names]

    def _enter(self, name: str) -> bool:
        place = self.connections.enter(name[0], lambda: self.closed.append(name))
        if place is not None:
            self.places[name] = place
        return place is not None

    def answer(self, *names: str) -> None:
        for name in names:
            self.connections.answer(self.places[name])


ENTERING = [
    pytest.param(["a-1", "a-2", "a-3"], [], "b-1", True, [], id="there is room"),
    pytest.param(["a-1", "a-2", "a-3"], [], "a-4", True, ["a-1"], id="its peer has too many"),
    pytest.param(
        ["a-1", "a-2", "a-3"], ["a-1"], "a-4", True, ["a-2"], id="the longest is answered"
    ),
    pytest.param(
        ["a-1", "a-2", "a-3"], ["a-1", "a-2", "a-3"], "a-4", False, [], id="all are answered"
    ),
    pytest.param(
        ["b-1", "a-1", "a-2", "a-3"], [], "c-1", True, ["a-1"], id="too many, of whom one has most"
    ),
    pytest.param(
        ["b-1", "a-1", "a-2", "a-3"],
        ["a-1", "a-2", "a-3"],
        "c-1",
        True,
        ["b-1"],
        id="too many, and who has most is answered",
    ),
    pytest.param(
        ["b-1", "a-1", "a-2", "a-3"],
        ["b-1", "a-1", "a-2", "a-3"],
        "c-1",
        False,
        [],
        id="too many, all are answered",
    ),
]


@pytest.mark.parametrize(("there", "answered", "name", "enters", "closed"), ENTERING)
def test_who_has_waited_longest_makes_room(
    there: Sequence[str], answered: Sequence[str], name: str, *, enters: bool, closed: Sequence[str]
) -> None:
    door = Door()
    assert all(door.enter(*there))
    door.answer(*answered)
    assert door.enter(name) == [enters]
    assert door.closed == closed
    assert len(door.connections) == len(there) + enters - len(closed)


def test_who_was_answered_just_now_waits_at_the_end() -> None:
    door = Door()
    door.enter("a-1", "a-2", "a-3")
    door.answer("a-1")
    door.connections.wait(door.places["a-1"])
    door.enter("a-4", "a-5")
    assert door.closed == ["a-2", "a-3"]


def test_a_place_is_given_back_once() -> None:
    door = Door()
    door.enter("a-1", "a-2", "a-3", "b-1")
    for _ in range(2):
        door.connections.leave(door.places["a-2"])
    for use in (door.connections.wait, door.connections.answer):
        use(door.places["a-2"])
    assert len(door.connections) == 3
    assert door.enter("a-4", "a-5") == [True, True]
    assert door.closed == ["a-1"]


def test_bodies_are_bounded_by_closing_who_holds_most() -> None:
    door = Door()
    door.enter("a-1", "a-2", "b-1")
    hold = door.connections.hold
    assert hold(door.places["a-1"], 40)
    assert hold(door.places["a-2"], 50)
    assert hold(door.places["b-1"], 10)
    assert hold(door.places["b-1"], 1)
    assert door.closed == ["a-2"]
    assert not hold(door.places["b-1"], 90), "it holds the most itself"
    assert door.closed == ["a-2", "b-1"]
    assert not hold(door.places["b-1"], 1), "it was closed"


def test_what_is_being_answered_is_never_closed_for_a_body() -> None:
    door = Door()
    door.enter("a-1", "b-1")
    assert door.connections.hold(door.places["a-1"], 100)
    door.answer("a-1")
    assert not door.connections.hold(door.places["b-1"], 1)
    door.connections.release(door.places["a-1"])
    assert not door.connections.hold(door.places["b-1"], 1)
    assert door.closed == ["b-1"]
    door.enter("b-2")
    assert door.connections.hold(door.places["b-2"], 100)
