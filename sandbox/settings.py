"""Flags of the sandbox, and those of every program that runs a cluster."""

from dataclasses import dataclass
from pathlib import Path

from common.flags import flag, port_number
from common.runtime.settings import LoggingSettings
from sandbox.version import KubernetesVersion

CLUSTER = "Cluster"


def _version(text: str) -> KubernetesVersion | None:
    return KubernetesVersion.parse(text) if text else None


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(LoggingSettings):
    """A cluster on loopback, with any API server."""

    kubeconfig: Path = flag(
        "--kubeconfig",
        default=Path("kubeconfig"),
        parse=Path,
        group=CLUSTER,
        metavar="FILE",
        help="Write the kubeconfig to this file when the cluster is ready.",
    )
    port: int = flag(
        "--port",
        default=0,
        parse=port_number,
        group=CLUSTER,
        help="Serve the API on this port of 127.0.0.1. 0: a free port.",
    )
    # Lower than a component's: a user reads the log beside the program's output.
    verbosity: int = flag(
        "--v",
        short="-v",
        default=1,
        parse=int,
        group="Logging",
        metavar="LEVEL",
        help="Set the log level: 0 logs warnings, 1 to 4 information, 5 and above debugging.",
    )


@dataclass(frozen=True, kw_only=True)
class Settings(ClusterSettings):
    """A small Kubernetes cluster in one process, on loopback."""

    kubernetes_version: KubernetesVersion | None = flag(
        "--kubernetes-version",
        default=None,
        parse=_version,
        group=CLUSTER,
        metavar="VERSION",
        help="Behave like this Kubernetes version, from 1.33 to 1.36. Overrides the scenario.",
    )
