"""The flags of the admission controller."""

from dataclasses import dataclass
from datetime import timedelta

from certs.settings import DEFAULT_SECRET
from common.errors import ConfigError
from common.flags import boolean, flag, namespace, one_of, port_number, positive_duration, whole
from common.quantity import ZERO, Quantity, parse_unsigned
from common.recommendation.pod_level import PodLevelMode
from common.runtime.settings import CommonSettings, address_flag, debug_flag

_LONGEST_LOOKUP = 2.0  # seconds
_LONGEST_TIMEOUT = 30  # seconds; API servers take no more


@dataclass(frozen=True, kw_only=True)
class AdmissionSettings(CommonSettings):
    """Serve the webhook that sets the resources of new pods and validates VPAs.

    Names and defaults are upstream's: pkg/admission-controller/main.go and config.go;
    admission.md 12.
    """

    port: int = flag(
        "--port",
        default=8000,
        parse=port_number,
        group="Serving",
        help="Serve the webhook on this port of all addresses, over HTTPS only.",
    )
    pod_level_resources: PodLevelMode = flag(
        "--pod-level-resources",
        default=PodLevelMode.KEEP,
        parse=one_of(PodLevelMode),
        group="Pods",
        metavar="MODE",
        help="Choose how spec.resources of a pod is handled: keep fits the containers into it, "
        "follow scales it in proportion to its containers. The updater needs the same value.",
    )
    max_allowed_cpu_boost: Quantity = flag(
        "--max-allowed-cpu-boost",
        default=ZERO,
        parse=parse_unsigned,
        group="Pods",
        metavar="QUANTITY",
        help="Cap the CPU of start-up boosts. 0: no cap.",
    )
    tls_cert_file: str = flag(
        "--tls-cert-file",
        default="/etc/tls-certs/serverCert.pem",
        parse=str,
        group="TLS",
        metavar="FILE",
        help="Path of the serving certificate, as PEM.",
    )
    tls_private_key: str = flag(
        "--tls-private-key",
        default="/etc/tls-certs/serverKey.pem",
        parse=str,
        group="TLS",
        metavar="FILE",
        help="Path of the private key of the serving certificate, as PEM.",
    )
    client_ca_file: str = flag(
        "--client-ca-file",
        default="/etc/tls-certs/caCert.pem",
        parse=str,
        group="TLS",
        metavar="FILE",
        help="Path of the CA certificate that is registered for API servers to trust, as PEM.",
    )
    manage_certificates: bool = flag(
        "--manage-certificates",
        default=False,
        parse=boolean,
        group="TLS",
        help=f"Keep a CA and a serving pair in the Secret {DEFAULT_SECRET} of the pod's namespace, "
        "renew them in time, and write them to --tls-cert-file, --tls-private-key and "
        "--client-ca-file.",
    )
    reload_cert: bool = flag(
        "--reload-cert",
        default=False,
        parse=boolean,
        group="TLS",
        help="Reload the certificate files when they change. --manage-certificates always does.",
    )
    require_client_certificate: bool = flag(
        "--require-client-certificate",
        default=False,
        parse=boolean,
        group="TLS",
        help="Refuse callers without a client certificate that a CA in --caller-ca-file has "
        "signed. API servers need one first: --admission-control-config-file.",
    )
    caller_ca_file: str = flag(
        "--caller-ca-file",
        default="",
        parse=str,
        group="TLS",
        metavar="FILE",
        help="Path of the CA certificates that sign client certificates, as PEM. Empty: "
        "--client-ca-file.",
    )
    min_tls_version: str = flag(
        "--min-tls-version",
        default="tls1_2",
        parse=str,
        group="TLS",
        metavar="VERSION",
        help="Minimum TLS version: tls1_2 or tls1_3.",
    )
    tls_ciphers: str = flag(
        "--tls-ciphers",
        default="",
        parse=str,
        group="TLS",
        metavar="NAMES",
        help="Cipher suites of TLS 1.2 by IANA name, separated by commas or colons. Unknown names "
        "are ignored. Empty: the defaults of the TLS library.",
    )
    register_webhook: bool = flag(
        "--register-webhook",
        default=True,
        parse=boolean,
        group="Registration",
        help="Create the webhook configuration vpa-webhook-config, and restore it when it is "
        "changed.",
    )
    webhook_service: str = flag(
        "--webhook-service",
        default="vpa-webhook",
        parse=str,
        group="Registration",
        metavar="NAME",
        help="Register the webhook under this Service.",
    )
    register_by_url: bool = flag(
        "--register-by-url",
        default=False,
        parse=boolean,
        group="Registration",
        help="Register the webhook by --webhook-address and --webhook-port instead of by Service.",
    )
    webhook_address: str = flag(
        "--webhook-address",
        default="",
        parse=str,
        group="Registration",
        metavar="URL",
        help="Address of the webhook for --register-by-url, as in https://vpa.example.com.",
    )
    webhook_port: str = flag(
        "--webhook-port",
        default="",
        parse=str,
        group="Registration",
        metavar="PORT",
        help="Port of the webhook for --register-by-url.",
    )
    webhook_timeout_seconds: int = flag(
        "--webhook-timeout-seconds",
        default=30,
        parse=whole(least=1, most=_LONGEST_TIMEOUT),
        group="Registration",
        metavar="SECONDS",
        help="Let API servers wait this long for an answer, from 1 to 30 seconds.",
    )
    webhook_failure_policy_fail: bool = flag(
        "--webhook-failure-policy-fail",
        default=False,
        parse=boolean,
        group="Registration",
        help="Refuse pods and VPAs while the webhook is unreachable, instead of admitting them "
        "unchanged.",
    )
    webhook_labels: str = flag(
        "--webhook-labels",
        default="",
        parse=str,
        group="Registration",
        metavar="LABELS",
        help="Label the webhook configuration, as in key1:value1,key2:value2.",
    )
    status_lease_name: str = flag(
        "--status-lease-name",
        default="vpa-admission-controller",
        parse=str,
        group="Status Lease",
        metavar="NAME",
        help="Set the name of the Lease that reports to the updater that admission works.",
    )
    status_lease_namespace: str = flag(
        "--status-lease-namespace",
        default="",
        parse=namespace,
        env="NAMESPACE",
        group="Status Lease",
        help="Set the namespace of the status Lease. Empty: the environment variable NAMESPACE, or"
        " kube-system.",
    )
    status_lease_update_interval: timedelta = flag(
        "--status-lease-update-interval",
        default=timedelta(seconds=10),
        parse=positive_duration,
        group="Status Lease",
        help="Renew the status Lease at this interval.",
    )
    address: str = address_flag(":8944")
    debug_endpoints: bool = debug_flag(
        "POST /debug/explain on --address, which explains the answer to a pod."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.register_by_url and "https://" not in self.webhook_address:
            raise ConfigError("--register-by-url needs an https:// address in --webhook-address")
        if self.register_by_url and not self.webhook_port:
            raise ConfigError("--register-by-url needs --webhook-port")
        if self.manage_certificates and self.require_client_certificate and not self.caller_ca_file:
            raise ConfigError(
                "--require-client-certificate with --manage-certificates needs --caller-ca-file"
            )

    @property
    def callers_authority(self) -> str:
        """Return the file of the CA certificates that sign client certificates."""
        return self.caller_ca_file or self.client_ca_file

    @property
    def reloads_certificates(self) -> bool:
        """Return whether changed certificate files are loaded while the process runs."""
        return self.reload_cert or self.manage_certificates

    @property
    def lookup_timeout(self) -> float:
        """Seconds that finding a pod's VPA may take; far below what API servers wait."""
        return min(_LONGEST_LOOKUP, self.webhook_timeout_seconds / 4)
