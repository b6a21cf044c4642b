"""What an operator can tell the certificate maker."""

from dataclasses import dataclass

from common.errors import ConfigError
from common.flags import flag, names
from common.runtime.settings import ClientSettings, LoggingSettings

DEFAULT_SECRET = "vpa-tls-certs"  # noqa: S105 - the name of a Secret, not its content
_SERVICE = "vpa-webhook"
_MOST_DAYS = 1_000_000  # the reference's certificates live for 100,000


@dataclass(frozen=True, kw_only=True)
class Settings(LoggingSettings, ClientSettings):
    """Makes the webhook's CA and serving certificate, unless good ones are there.

    They go into a Secret, into a directory, or into both; a valid pair is kept.
    """

    output_dir: str = flag(
        "--output-dir",
        default="",
        parse=str,
        help="Directory to write caKey.pem, caCert.pem, serverKey.pem and serverCert.pem to.",
    )
    secret_name: str = flag(
        "--secret-name",
        default="",
        parse=str,
        help=f"Secret to write them to; {DEFAULT_SECRET} if there is no --output-dir either.",
    )
    secret_namespace: str = flag(
        "--secret-namespace",
        default="kube-system",
        parse=str,
        env="NAMESPACE",
        help="Namespace of the Secret.",
    )
    hosts: tuple[str, ...] = flag(
        "--host",
        default=(),
        parse=names,
        help="Comma-separated DNS names and IP addresses to serve; "
        f"{_SERVICE}.<namespace of the Secret>.svc if none is given.",
    )
    days: int = flag(
        "--days",
        default=3650,
        parse=int,
        help="How long the certificates are valid.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.days <= _MOST_DAYS:
            raise ConfigError(f"--days must be from 1 to {_MOST_DAYS}")

    @property
    def secret(self) -> str:
        """The Secret to write to; empty for none."""
        return self.secret_name or ("" if self.output_dir else DEFAULT_SECRET)

    @property
    def served_hosts(self) -> tuple[str, ...]:
        """What the serving certificate is for."""
        return self.hosts or (f"{_SERVICE}.{self.secret_namespace}.svc",)
