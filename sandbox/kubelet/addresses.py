"""IP addresses of pods. Nothing listens on those of simulated pods."""

import ipaddress
import itertools

_SIMULATED = "10.244.0.0/14"
_FIRST = 10


class Addresses:
    """Assigns the addresses of a network, each to one pod at a time."""

    def __init__(self, network: str = _SIMULATED) -> None:
        self._network = ipaddress.ip_network(network)
        hosts = range(_FIRST, self._network.num_addresses - 1)
        self._most = len(hosts)
        self._next = itertools.cycle(hosts)
        self._taken: set[str] = set()

    def take(self) -> str:
        """Return a free address; the least recently used ones come last.

        Raises RuntimeError if the network has no more.
        """
        if len(self._taken) >= self._most:
            raise RuntimeError(f"{self._most} pods have all addresses of {self._network}")
        while True:
            address = str(self._network[next(self._next)])
            if address not in self._taken:
                self._taken.add(address)
                return address

    def keep(self, offered: str, chosen: str) -> None:
        """Replace an offered address by the one that the pod already has."""
        if offered != chosen:
            self.release(offered)
            self._taken.add(chosen)

    def release(self, address: str) -> None:
        self._taken.discard(address)
