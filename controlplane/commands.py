"""Command lines of the servers."""

from dataclasses import dataclass

from controlplane.binaries import Binaries
from controlplane.files import FRONT_PROXY, Files

HOST = "127.0.0.1"
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_SERVICES = "10.96.0.0/16"
# An address that reaches no host (RFC 5737). Otherwise the server looks for the machine's address,
# and doesn't start on a machine without a network. No client uses it.
_ADVERTISED = "192.0.2.1"
_QPS = 2000  # a benchmark would measure the controllers' defaults, 20 to 50
_NEVER_ROTATE = 1_000_000  # MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of the servers on loopback."""

    etcd: int
    etcd_peers: int
    api_server: int
    controller_manager: int
    scheduler: int

    @property
    def etcd_url(self) -> str:
        return f"http://{HOST}:{self.etcd}"

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{HOST}:{self.api_server}"


def etcd(binaries: Binaries, files: Files, ports: Ports) -> list[str]:
    """Return the command of etcd. Its data is temporary, so it never waits for the disk."""
    peers = f"http://{HOST}:{ports.etcd_peers}"
    return [
        str(binaries.path("etcd")),
        f"--data-dir={files.data}",
        f"--listen-client-urls={ports.etcd_url}",
        f"--advertise-client-urls={ports.etcd_url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={4 * 1024**3}",
        "--log-level=warn",
    ]


def api_server(
    binaries: Binaries, files: Files, ports: Ports, *, dial_endpoints: bool = False
) -> list[str]:
    """Return the command of kube-apiserver, with RBAC, tokens, aggregation and an audit log.

    The admission plugins are the default ones. There is no kube-proxy, so nothing answers on the
    address of a Service. The server reaches webhooks and aggregated APIs by the name of a Service
    of type ExternalName; with ``dial_endpoints`` by the endpoints of a Service of type ClusterIP.
    """
    return [
        str(binaries.path("kube-apiserver")),
        f"--bind-address={HOST}",
        f"--secure-port={ports.api_server}",
        f"--advertise-address={_ADVERTISED}",
        "--endpoint-reconciler-type=none",
        f"--etcd-servers={ports.etcd_url}",
        f"--service-cluster-ip-range={_SERVICES}",
        f"--tls-cert-file={files.certificate('kube-apiserver')}",
        f"--tls-private-key-file={files.key('kube-apiserver')}",
        f"--client-ca-file={files.certificate('ca')}",
        "--authorization-mode=Node,RBAC",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={files.service_account_public_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        f"--requestheader-client-ca-file={files.certificate('front-proxy-ca')}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={files.certificate('front-proxy')}",
        f"--proxy-client-key-file={files.key('front-proxy')}",
        f"--enable-aggregator-routing={str(dial_endpoints).lower()}",
        f"--kubelet-client-certificate={files.certificate('kubelet-client')}",
        f"--kubelet-client-key={files.key('kubelet-client')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--admission-control-config-file={files.admission_configuration}",
        f"--audit-policy-file={files.audit_policy}",
        f"--audit-log-path={files.audit_log}",
        f"--audit-log-maxsize={_NEVER_ROTATE}",
        "--audit-log-mode=blocking",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def controller_manager(binaries: Binaries, files: Files, ports: Ports) -> list[str]:
    """Return the command of kube-controller-manager. Each controller has its own user."""
    return [
        *_client(binaries, files, "kube-controller-manager", ports.controller_manager),
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={files.certificate('ca')}",
        f"--cluster-signing-cert-file={files.certificate('ca')}",
        f"--cluster-signing-key-file={files.key('ca')}",
        "--use-service-account-credentials=true",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
    ]


def scheduler(binaries: Binaries, files: Files, ports: Ports) -> list[str]:
    """Return the command of kube-scheduler, with high rate limits."""
    return _client(binaries, files, "kube-scheduler", ports.scheduler)


def _client(binaries: Binaries, files: Files, name: str, port: int) -> list[str]:
    kubeconfig = files.kubeconfig(name)
    return [
        str(binaries.path(name)),
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={2 * _QPS}",
    ]
