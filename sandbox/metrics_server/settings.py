"""The flags of the metrics server; names and defaults are metrics-server's."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from common.errors import ConfigError
from common.flags import duration, flag, port_number
from common.runtime.settings import ClientSettings, LoggingSettings


def _path(text: str) -> Path | None:
    return Path(text) if text else None


@dataclass(frozen=True, kw_only=True)
class Settings(LoggingSettings, ClientSettings):
    """Serve metrics.k8s.io/v1beta1 from the figures of kubelets, on loopback."""

    secure_port: int = flag(
        "--secure-port",
        default=10250,
        parse=port_number,
        group="Metrics server",
        help="Serve the API on this port of 127.0.0.1. 0: a free port.",
    )
    metric_resolution: timedelta = flag(
        "--metric-resolution",
        default=timedelta(seconds=60),
        parse=duration,
        group="Metrics server",
        help="Scrape the kubelets at this interval.",
    )
    tls_cert_file: Path | None = flag(
        "--tls-cert-file",
        default=None,
        parse=_path,
        group="Metrics server",
        metavar="FILE",
        help="Path of the serving certificate, as PEM. Empty: a new self-signed certificate.",
    )
    tls_private_key_file: Path | None = flag(
        "--tls-private-key-file",
        default=None,
        parse=_path,
        group="Metrics server",
        metavar="FILE",
        help="Path of the private key of the serving certificate, as PEM.",
    )

    def __post_init__(self) -> None:
        LoggingSettings.__post_init__(self)
        if self.metric_resolution < timedelta(seconds=1):
            raise ConfigError("--metric-resolution: shorter than a second")
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise ConfigError("--tls-cert-file and --tls-private-key-file belong together")
