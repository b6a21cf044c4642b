"""What an operator can tell the program that runs a real control plane."""

from dataclasses import dataclass
from pathlib import Path

from common.flags import boolean, flag
from common.runtime.settings import LoggingSettings
from sandbox.settings import port_number


@dataclass(frozen=True, kw_only=True)
class Settings(LoggingSettings):
    """A real control plane (etcd and Kubernetes' own servers) with simulated nodes, on loopback."""

    kubeconfig: Path = flag(
        "--kubeconfig",
        default=Path("kubeconfig"),
        parse=Path,
        help="Where to write the kubeconfig, once the cluster is ready.",
    )
    port: int = flag(
        "--port",
        default=0,
        parse=port_number,
        help="Port of the API server on 127.0.0.1; 0 takes a free one.",
    )
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
    verbosity: int = flag(
        "--v",
        short="-v",
        default=1,
        parse=int,
        help="Log detail as klog counts it: 0 warnings, 1-4 information, 5 and more debugging.",
    )
