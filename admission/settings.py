"""The flags of the admission controller."""

from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, flag, namespace, port_number, positive_duration, whole
from common.quantity import ZERO, Quantity, parse_unsigned
from common.recommendation.pod_level import PodLevelMode
from common.runtime.settings import CommonSettings, debug_flag

_LONGEST_LOOKUP = 2.0  # seconds
_LONGEST_TIMEOUT = 30  # seconds; API servers take no more


@dataclass(frozen=True, kw_only=True)
class AdmissionSettings(CommonSettings):
    """The webhook that right-sizes pods as they are created, and validates VPA objects.

    Names and defaults are upstream's: pkg/admission-controller/main.go and config.go;
    admission.md 12.
    """

    port: int = flag(
        "--port",
        default=8000,
        parse=port_number,
        help="Port of the webhook, on all addresses; HTTPS only.",
    )
    address: str = flag(
        "--address",
        default=":8944",
        parse=str,
        help="Where to serve /metrics, /health-check and /readyz, in plain HTTP.",
    )
    client_ca_file: str = flag(
        "--client-ca-file",
        default="/etc/tls-certs/caCert.pem",
        parse=str,
        help="Certificate of the authority that API servers are to trust.",
    )
    require_client_certificate: bool = flag(
        "--require-client-certificate",
        default=False,
        parse=boolean,
        help=(
            "Refuse reviews from callers without a client certificate signed by an authority in "
            "--client-ca-file. API servers need one first: --admission-control-config-file."
        ),
    )
    tls_cert_file: str = flag(
        "--tls-cert-file",
        default="/etc/tls-certs/serverCert.pem",
        parse=str,
        help="Certificate that the webhook shows.",
    )
    tls_private_key: str = flag(
        "--tls-private-key",
        default="/etc/tls-certs/serverKey.pem",
        parse=str,
        help="Private key of that certificate.",
    )
    reload_cert: bool = flag(
        "--reload-cert",
        default=False,
        parse=boolean,
        help="Follow changes of the certificate files without a restart.",
    )
    min_tls_version: str = flag(
        "--min-tls-version",
        default="tls1_2",
        parse=str,
        help="Minimum TLS version: tls1_2 or tls1_3.",
    )
    tls_ciphers: str = flag(
        "--tls-ciphers",
        default="",
        parse=str,
        help="Cipher suites of TLS 1.2, by IANA name, separated by commas or colons; "
        "unknown names are ignored, and none at all means the library's own.",
    )
    register_webhook: bool = flag(
        "--register-webhook",
        default=True,
        parse=boolean,
        help="Create the webhook configuration vpa-webhook-config, and restore it when it changes.",
    )
    register_by_url: bool = flag(
        "--register-by-url",
        default=False,
        parse=boolean,
        help="Register by --webhook-address and --webhook-port instead of by Service.",
    )
    webhook_address: str = flag(
        "--webhook-address",
        default="",
        parse=str,
        help="https:// and the host under which API servers reach the webhook.",
    )
    webhook_port: str = flag(
        "--webhook-port",
        default="",
        parse=str,
        help="Port under which API servers reach the webhook.",
    )
    webhook_service: str = flag(
        "--webhook-service",
        default="vpa-webhook",
        parse=str,
        help="Service under which API servers reach the webhook.",
    )
    webhook_timeout_seconds: int = flag(
        "--webhook-timeout-seconds",
        default=30,
        parse=whole(least=1, most=_LONGEST_TIMEOUT),
        help="How long API servers wait for an answer; 1 to 30.",
    )
    webhook_failure_policy_fail: bool = flag(
        "--webhook-failure-policy-fail",
        default=False,
        parse=boolean,
        help="Refuse pods and VPAs while the webhook can't be reached, instead of ignoring it.",
    )
    webhook_labels: str = flag(
        "--webhook-labels",
        default="",
        parse=str,
        help="Labels of the webhook configuration: key1:value1,key2:value2.",
    )
    status_lease_name: str = flag(
        "--status-lease-name",
        default="vpa-admission-controller",
        parse=str,
        help="Lease that shows the updater that pods get their resources.",
    )
    status_lease_namespace: str = flag(
        "--status-lease-namespace",
        default="",
        parse=namespace,
        env="NAMESPACE",
        help="Namespace of that Lease; else the environment variable NAMESPACE, else kube-system.",
    )
    status_lease_update_interval: timedelta = flag(
        "--status-lease-update-interval",
        default=timedelta(seconds=10),
        parse=positive_duration,
        help="How often the Lease is renewed.",
    )
    debug_endpoints: bool = debug_flag(
        "POST /debug/explain on --address: what the webhook answers to a pod, and why."
    )
    max_allowed_cpu_boost: Quantity = flag(
        "--max-allowed-cpu-boost",
        default=ZERO,
        parse=parse_unsigned,
        help="Most CPU that a start-up boost may ask for; 0 is no limit.",
    )
    pod_level_resources: PodLevelMode = flag(
        "--pod-level-resources",
        default=PodLevelMode.KEEP,
        parse=PodLevelMode.parse,
        help="What becomes of spec.resources of a pod: keep fits the containers into it, follow "
        "moves it in proportion to its containers. The updater needs the same value.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.register_by_url and "https://" not in self.webhook_address:
            raise ConfigError("--register-by-url needs an https:// address in --webhook-address")
        if self.register_by_url and not self.webhook_port:
            raise ConfigError("--register-by-url needs --webhook-port")

    @property
    def lookup_timeout(self) -> float:
        """Seconds that finding a pod's VPA may take; far below what API servers wait."""
        return min(_LONGEST_LOOKUP, self.webhook_timeout_seconds / 4)
