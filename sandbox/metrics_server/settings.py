"""What an operator can tell the metrics server; names and defaults are metrics-server's."""

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
    """Serves metrics.k8s.io/v1beta1 from what kubelets tell, on loopback."""

    secure_port: int = flag(
        "--secure-port",
        default=10250,
        parse=port_number,
        help="Port of the API on 127.0.0.1; 0 takes a free one.",
    )
    metric_resolution: timedelta = flag(
        "--metric-resolution",
        default=timedelta(seconds=60),
        parse=duration,
        help="How often the kubelets are asked.",
    )
    tls_cert_file: Path | None = flag(
        "--tls-cert-file",
        default=None,
        parse=_path,
        help="Certificate, as PEM; without one a new one signs itself.",
    )
    tls_private_key_file: Path | None = flag(
        "--tls-private-key-file",
        default=None,
        parse=_path,
        help="Key of the certificate, as PEM.",
    )

    def __post_init__(self) -> None:
        LoggingSettings.__post_init__(self)
        if self.metric_resolution < timedelta(seconds=1):
            raise ConfigError("--metric-resolution: shorter than a second")
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise ConfigError("--tls-cert-file and --tls-private-key-file belong together")
