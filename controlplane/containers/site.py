"""Where containers that run as processes find the API server and their files."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
"""The address of every node: the API server dials it, and a port tells whom it finds there."""


_NETWORK = ipaddress.ip_network("127.64.0.0/10")
_SHARE = 24  # bits of a process's part of it


def network_of(process: int) -> str:
    """Return the part of loopback where one process, by its id, has its pods.

    Clusters run side by side on a machine, and their pods must not meet on a port.
    """
    shares = 2 ** (_SHARE - _NETWORK.prefixlen)
    size = _NETWORK.num_addresses // shares
    return f"{_NETWORK[process % shares * size]}/{_SHARE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What containers need to run as processes."""

    server: str  # URL of the API server, for the pods' kubeconfigs
    authority: str  # PEM of what signs its certificate, for the same
    folder: Path  # volumes and logs go here; it must be there


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a container runs."""

    kubeconfig: Path
    root: Path  # its mounts appear below it
    ip: str
    host_ip: str
