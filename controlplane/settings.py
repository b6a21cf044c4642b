"""What an operator can tell the program that runs a real control plane."""

from dataclasses import dataclass
from pathlib import Path

from common.flags import boolean, flag
from sandbox.settings import ClusterSettings


@dataclass(frozen=True, kw_only=True)
class Settings(ClusterSettings):
    """A real control plane (etcd and Kubernetes' own servers) with simulated nodes, on loopback."""

    folder: Path | None = flag(
        "--folder",
        default=None,
        parse=Path,
        help="A new folder for keys, data and logs; without it they go to a temporary one.",
    )
    metrics: bool = flag(
        "--metrics",
        default=True,
        parse=boolean,
        help="Serve metrics.k8s.io from what the simulated nodes use.",
    )
