"""Addresses of pods; at those of simulated ones nobody can be reached."""

import ipaddress
import itertools

_SIMULATED = "10.244.0.0/14"
_FIRST = 10


class Addresses:
    """Hands out addresses of a network, each to one pod at a time."""

    def __init__(self, network: str = _SIMULATED) -> None:
        self._network = ipaddress.ip_network(network)
        hosts = range(_FIRST, self._network.num_addresses - 1)
        self._next = itertools.cycle(hosts)
        self._used: set[str] = set()

    def take(self) -> str:
        """An address that nobody has; the least recently used ones come last."""
        while True:
            address = str(self._network[next(self._next)])
            if address not in self._used:
                self._used.add(address)
                return address

    def keep(self, offered: str, chosen: str) -> None:
        """Of an address that was taken, another one was used: the pod already had it."""
        if offered != chosen:
            self._used.discard(offered)
            self._used.add(chosen)

    def give_back(self, address: str) -> None:
        self._used.discard(address)
