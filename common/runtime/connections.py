"""The open connections of a server: how many there may be, and which one is closed for another.

A connection that isn't being answered only takes memory: it is idle, in its handshake, or sends a
request that hasn't ended yet. Where there are too many, the one that has waited longest is closed:
of the same peer if that has too many, of the peer with the most if all together are too many. So
neither idle connections nor slow requests keep others out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """What one connection takes."""

    peer: str
    abort: Callable[[], object]  # close the connection now
    held: int = 0  # bytes of its requests that are not answered yet
    is_taken: bool = True


@dataclass(slots=True, eq=False)
class _Peer:
    """The connections from one address."""

    taken: int = 0
    waiting: dict[Place, None] = field(default_factory=dict)  # not being answered, longest first


class Connections:
    """The places of one server.

    ``most`` bounds connections, ``most_of_peer`` those from one address, and ``most_bytes`` the
    bodies of requests that are not answered yet.
    """

    def __init__(self, *, most: int, most_of_peer: int, most_bytes: int) -> None:
        self._most = most
        self._most_of_peer = most_of_peer
        self._most_bytes = most_bytes
        self._peers: dict[str, _Peer] = {}
        self._taken = 0
        self._held = 0

    def __len__(self) -> int:
        return self._taken

    def enter(self, peer: str, abort: Callable[[], object]) -> Place | None:
        """Take a place; None if there is none, and no waiting connection to close for it."""
        own = self._peers.get(peer)
        if own is not None and own.taken >= self._most_of_peer:
            self._close_longest(own)
            if own.taken >= self._most_of_peer:
                return None
        elif self._taken >= self._most:
            waiting = [one for one in self._peers.values() if one.waiting]
            if not waiting:
                return None
            self._close_longest(max(waiting, key=lambda one: one.taken))
        place = Place(peer=peer, abort=abort)
        own = self._peers.setdefault(peer, _Peer())
        own.taken += 1
        own.waiting[place] = None
        self._taken += 1
        return place

    def leave(self, place: Place) -> None:
        """Give the place back; without effect once that was done."""
        if not place.is_taken:
            return
        place.is_taken = False
        own = self._peers[place.peer]
        own.waiting.pop(place, None)
        own.taken -= 1
        if not own.taken:
            del self._peers[place.peer]
        self._taken -= 1
        self.release(place)

    def answer(self, place: Place) -> None:
        """Note that a request of this connection is being answered."""
        if place.is_taken:
            self._peers[place.peer].waiting.pop(place, None)

    def wait(self, place: Place) -> None:
        """Note that this connection waits again, from now on."""
        if place.is_taken:
            waiting = self._peers[place.peer].waiting
            waiting.pop(place, None)
            waiting[place] = None

    def hold(self, place: Place, size: int) -> bool:
        """Note so many more bytes of a body; False if there is no room for them.

        The waiting connections that hold the most are closed for it, this one included.
        """
        if not place.is_taken:
            return False
        place.held += size
        self._held += size
        while self._held > self._most_bytes:
            waiting = [one for peer in self._peers.values() for one in peer.waiting if one.held]
            if not waiting:
                return False
            self._close(max(waiting, key=lambda one: one.held))
        return place.is_taken

    def release(self, place: Place) -> None:
        """Note that this connection holds nothing any more: its requests are answered."""
        self._held -= place.held
        place.held = 0

    def _close_longest(self, peer: _Peer) -> None:
        if peer.waiting:
            self._close(next(iter(peer.waiting)))

    def _close(self, place: Place) -> None:
        self.leave(place)
        place.abort()
