"""Addresses of pods; at those of simulated ones nobody can be reached."""

import ipaddress
import itertools

_SIMULATED = "10.244.0.0/14"
_LOOPBACK = ipaddress.ip_network("127.64.0.0/10")
_SHARE = 24  # bits of a process's part of it
_FIRST = 10


def loopback_of(process: int) -> str:
    """The part of loopback where one process, by its id, has its pods.

    Clusters run side by side on a machine, and their pods must not meet on a port.
    """
    shares = 2 ** (_SHARE - _LOOPBACK.prefixlen)
    size = _LOOPBACK.num_addresses // shares
    return f"{_LOOPBACK[process % shares * size]}/{_SHARE}"


class Addresses:
    """Hands out addresses of a network, each to one pod at a time.

    Others may hand out addresses of the same network: ``taken`` are those that somebody has.
    """

    def __init__(self, network: str = _SIMULATED, taken: set[str] | None = None) -> None:
        self._network = ipaddress.ip_network(network)
        hosts = range(_FIRST, self._network.num_addresses - 1)
        self._most = len(hosts)
        self._next = itertools.cycle(hosts)
        self._taken = set() if taken is None else taken
        self._own: set[str] = set()

    def take(self) -> str:
        """An address that nobody has; the least recently used ones come last.

        Raises RuntimeError when the network has no more.
        """
        if len(self._taken) >= self._most:
            raise RuntimeError(f"{self._most} pods have all addresses of {self._network}")
        while True:
            address = str(self._network[next(self._next)])
            if address not in self._taken:
                self._have(address)
                return address

    def keep(self, offered: str, chosen: str) -> None:
        """Of an address that was taken, another one was used: the pod already had it."""
        if offered != chosen:
            self.give_back(offered)
            self._have(chosen)

    def give_back(self, address: str) -> None:
        self._own.discard(address)
        self._taken.discard(address)

    def give_back_all(self) -> None:
        """No pod has an address of ours any more."""
        self._taken -= self._own
        self._own.clear()

    def _have(self, address: str) -> None:
        self._own.add(address)
        self._taken.add(address)
