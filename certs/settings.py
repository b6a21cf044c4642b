"""The flags of certs."""

import re
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address

from certs.renewal import CertificatePolicy
from common.errors import ConfigError
from common.flags import boolean, duration, flag, names, namespace, whole
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.runtime.settings import ClientSettings, LoggingSettings, kubeconfig_flag

DEFAULT_SECRET = "vpa-tls-certs"  # noqa: S105 - the name of a Secret, not its content
_SERVICE = "vpa-webhook"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)
_MOST_DAYS = 1_000_000  # the reference's certificates are valid for 100,000 days


@dataclass(frozen=True, kw_only=True)
class CertsSettings(LoggingSettings, ClientSettings):
    """Create the CA and the serving certificate of the webhook, and renew them in time.

    Write them to a Secret, to a directory, or to both. A valid pair is renewed when less than two
    fifths of its lifetime are left. Run the program regularly: each run takes the steps that are
    due.
    """

    secret_name: str = flag(
        "--secret-name",
        default="",
        parse=str,
        group="Output",
        metavar="NAME",
        help="Write the certificates to this Secret. "
        f"Empty: {DEFAULT_SECRET}, unless --output-dir is set.",
    )
    secret_namespace: str = flag(
        "--secret-namespace",
        default="kube-system",
        parse=namespace,
        env="NAMESPACE",
        group="Output",
        help="Set the namespace of the Secret.",
    )
    output_dir: str = flag(
        "--output-dir",
        default="",
        parse=str,
        group="Output",
        metavar="FOLDER",
        help="Write caKey.pem, caCert.pem, serverKey.pem and serverCert.pem to this folder.",
    )
    webhook_config: str = flag(
        "--webhook-config",
        default=CONFIGURATION_NAME,
        parse=str,
        group="Output",
        metavar="NAME",
        help="Write the CA to the caBundle of this webhook configuration, if it exists. Empty: "
        "leave caBundle unchanged.",
    )
    hosts: tuple[str, ...] = flag(
        "--host",
        default=(),
        parse=names,
        group="Certificates",
        metavar="NAMES",
        help="Issue the serving certificate for these DNS names and IP addresses, separated by "
        f"commas. Empty: {_SERVICE}.<namespace of the Secret>.svc.",
    )
    days: int = flag(
        "--days",
        default=3650,
        parse=whole(least=1, most=_MOST_DAYS),
        group="Certificates",
        metavar="DAYS",
        help="Issue certificates that are valid for this number of days.",
    )
    renew: bool = flag(
        "--renew",
        default=False,
        parse=boolean,
        group="Renewal",
        help="Start the renewal of the CA now, however long it remains valid.",
    )
    settle: timedelta = flag(
        "--settle",
        default=timedelta(minutes=10),
        parse=duration,
        group="Renewal",
        help="Publish a new CA for this time before it signs the serving certificate. Kubelets "
        "update mounted Secrets within about two minutes.",
    )
    overlap: timedelta = flag(
        "--overlap",
        default=timedelta(days=30),
        parse=duration,
        group="Renewal",
        help="Trust the old CA for this time after the new one has signed. Restart pods that run "
        "without --reload-cert within this time.",
    )
    kubeconfig: str = kubeconfig_flag(
        "the files that the environment variable KUBECONFIG names, or ~/.kube/config"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.settle < timedelta() or self.overlap < timedelta():
            raise ConfigError("--settle and --overlap must not be negative")
        for host in self.hosts:
            if not _is_host(host):
                raise ConfigError(f"--host: neither a DNS name nor an address: {host}")

    @property
    def secret(self) -> str:
        """Return the Secret to write to; empty for none."""
        return self.secret_name or ("" if self.output_dir else DEFAULT_SECRET)

    @property
    def policy(self) -> CertificatePolicy:
        """Return the settings that decisions about certificates depend on."""
        return CertificatePolicy(
            hosts=self.served_hosts,
            lifetime=timedelta(days=self.days),
            settle=self.settle,
            overlap=self.overlap,
            forced=self.renew,
        )

    @property
    def served_hosts(self) -> tuple[str, ...]:
        """Return the hosts of the serving certificate."""
        return self.hosts or (f"{_SERVICE}.{self.secret_namespace}.svc",)


def _is_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _DNS_NAME.fullmatch(text) is not None
    return True
