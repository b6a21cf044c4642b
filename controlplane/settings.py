"""The flags of the program that runs a real control plane."""

from dataclasses import dataclass
from pathlib import Path

from common.flags import boolean, flag
from sandbox.settings import CLUSTER, ClusterSettings


@dataclass(frozen=True, kw_only=True)
class Settings(ClusterSettings):
    """A real control plane (etcd and Kubernetes' own servers) with simulated nodes, on loopback."""

    folder: Path | None = flag(
        "--folder",
        default=None,
        parse=Path,
        group=CLUSTER,
        metavar="FOLDER",
        help="Keep keys, data and logs in this new folder. Empty: a temporary folder.",
    )
    metrics: bool = flag(
        "--metrics",
        default=True,
        parse=boolean,
        group=CLUSTER,
        help="Serve metrics.k8s.io with the usage of the simulated nodes.",
    )
