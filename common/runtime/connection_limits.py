"""Limits on the open connections of a server, and the choice of connections to close.

A connection waits while it is idle, in its handshake, or sending a request that is incomplete. If a
limit is exceeded, the connection that has waited longest is closed: one of the same peer if that
peer has too many, or one of the peer with the most if the total is too high. So neither idle
connections nor slow requests prevent new connections.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """The resources that one connection uses."""

    peer: str
    abort: Callable[[], object]  # close the connection now
    held: int = 0  # bytes of its unanswered requests
    is_taken: bool = True


@dataclass(slots=True, eq=False)
class _Peer:
    """The connections from one address."""

    taken: int = 0
    waiting: dict[Place, None] = field(default_factory=dict)  # unanswered, oldest first


class Connections:
    """The connections of one server and their limits.

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
        """Take a place, and close a waiting connection if needed; None if there is none."""
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
        """Release the place; a second call has no effect."""
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
        """Note that this connection waits from now on."""
        if place.is_taken:
            waiting = self._peers[place.peer].waiting
            waiting.pop(place, None)
            waiting[place] = None

    def hold(self, place: Place, size: int) -> bool:
        """Add ``size`` bytes of a body; return False if this exceeds the limit.

        To make room, close the waiting connections with the most bytes, which may include this one.
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
        """Note that the requests of this connection are answered, so that it holds no bytes."""
        self._held -= place.held
        place.held = 0

    def _close_longest(self, peer: _Peer) -> None:
        if peer.waiting:
            self._close(next(iter(peer.waiting)))

    def _close(self, place: Place) -> None:
        self.leave(place)
        place.abort()
