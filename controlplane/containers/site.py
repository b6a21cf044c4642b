"""Addresses and files of containers that run as processes."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
"""The address of every node. The port distinguishes its servers."""


_NETWORK = ipaddress.ip_network("127.64.0.0/10")
_SHARE = 24  # prefix length of one process's part


def network_of(process: int) -> str:
    """Return the part of loopback for the pods of one process, by its ID.

    Clusters run in parallel on a machine, and their pods must not share a port.
    """
    shares = 2 ** (_SHARE - _NETWORK.prefixlen)
    size = _NETWORK.num_addresses // shares
    return f"{_NETWORK[process % shares * size]}/{_SHARE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings of all containers that run as processes."""

    server: str  # URL of the API server, for the pods' kubeconfigs
    authority: str  # PEM, of its certificate
    folder: Path  # of volumes and logs; it must exist
    network: str  # of the pods' addresses, all of which are this machine's


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The addresses and files of one container."""

    kubeconfig: Path
    root: Path  # its mounts appear below it
    ip: str
    host_ip: str
