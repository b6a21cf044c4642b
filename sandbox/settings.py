"""What an operator can tell the sandbox."""

from dataclasses import dataclass
from pathlib import Path

from common.flags import flag
from common.runtime.settings import LoggingSettings
from sandbox.version import KubernetesVersion


def _version(text: str) -> KubernetesVersion | None:
    return KubernetesVersion.parse(text) if text else None


def port_number(text: str) -> int:
    """A TCP port; 0 means any free one."""
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError(f"not a port: {text!r}")
    return port


@dataclass(frozen=True, kw_only=True)
class Settings(LoggingSettings):
    """A small Kubernetes cluster in one process, on loopback."""

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
    kubernetes_version: KubernetesVersion | None = flag(
        "--kubernetes-version",
        default=None,
        parse=_version,
        help="Behave like this version, 1.33 to 1.36, whatever the scenario says.",
    )
    verbosity: int = flag(
        "--v",
        short="-v",
        default=1,
        parse=int,
        help="Log detail as klog counts it: 0 warnings, 1-4 information, 5 and more debugging.",
    )
