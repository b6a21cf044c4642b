"""Where kubelets and their containers are at home."""

import ssl
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
"""The address of every node: the API server dials it, and a port tells whom it finds there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What kubelets need to be reached, and to run containers as processes."""

    server: str  # URL of the API server, for the pods' kubeconfigs
    authority: str  # PEM of what signs its certificate, for the same
    folder: Path  # volumes and logs go here; it must be there
    tls: ssl.SSLContext  # of the kubelets' own endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a container runs."""

    kubeconfig: Path
    root: Path  # its mounts appear below it
    ip: str
    host_ip: str
