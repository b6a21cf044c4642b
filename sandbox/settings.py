"""What an operator can tell the sandbox, and every program that runs a cluster."""

from dataclasses import dataclass
from pathlib import Path

from common.flags import flag, port_number
from common.runtime.settings import LoggingSettings
from sandbox.version import KubernetesVersion


def _version(text: str) -> KubernetesVersion | None:
    return KubernetesVersion.parse(text) if text else None


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(LoggingSettings):
    """Of a cluster on loopback, whatever its API server is."""

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
    # Quieter than a component: a user reads it beside what the program prints.
    verbosity: int = flag(
        "--v",
        short="-v",
        default=1,
        parse=int,
        help="Log detail as klog counts it: 0 warnings, 1-4 information, 5 and more debugging.",
    )


@dataclass(frozen=True, kw_only=True)
class Settings(ClusterSettings):
    """A small Kubernetes cluster in one process, on loopback."""

    kubernetes_version: KubernetesVersion | None = flag(
        "--kubernetes-version",
        default=None,
        parse=_version,
        help="Behave like this version, 1.33 to 1.36, whatever the scenario says.",
    )
