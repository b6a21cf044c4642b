"""The files of the servers: certificates, keys, kubeconfigs, audit policy, admission."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sandbox.kubeconfigs import encoded, kubeconfig_text
from sandbox.tls import ADDRESSES, NAMES, Authority, Credentials, private_text

ADMIN = "kubernetes-admin"
MASTERS = "system:masters"  # the group with all rights in RBAC
KUBELETS = "system:node:sandbox"  # the same user as in the sandbox
FRONT_PROXY = "front-proxy-client"
WEBHOOK_CLIENT = "webhook-client"  # the API server as a client of webhooks
WEBHOOK_CLIENT_CA = f"{WEBHOOK_CLIENT}-ca"
_FIRST_SERVICE = "10.96.0.1"  # the address of the Service kubernetes

# Every request, without its body, after its response; watches also when they start.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class Files:
    """A folder with the path of every file."""

    folder: Path  # absolute: the servers have another working directory

    @classmethod
    def within(cls, folder: Path) -> "Files":
        return cls(folder.absolute())

    def certificate(self, name: str) -> Path:
        return self.folder / "pki" / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / "pki" / f"{name}.key"

    def kubeconfig(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    @property
    def data(self) -> Path:
        """The data of etcd."""
        return self.folder / "etcd"

    @property
    def service_account_key(self) -> Path:
        return self.key("service-accounts")

    @property
    def service_account_public_key(self) -> Path:
        return self.folder / "pki" / "service-accounts.pub"

    @property
    def admission_configuration(self) -> Path:
        return self.folder / "admission.yaml"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The written values that the rest of the program needs."""

    authority: str  # PEM
    kubeconfig: str  # YAML, the administrator's
    kubelets: Credentials  # of the servers that run beside the API server


def write_files(
    files: Files,
    *,
    url: str,
    now: datetime,
    hosts: tuple[str, ...] = (),
    webhooks: Sequence[str] = (),
) -> Written:
    """Create keys and certificates for an API server at ``url`` and write all files.

    ``hosts`` are names of Services whose servers run in this process. ``webhooks`` are host names
    of webhooks to which the API server shows a client certificate.
    """
    (files.folder / "pki").mkdir(parents=True, exist_ok=True)
    authority = Authority(now, name="kubernetes-ca")
    front = Authority(now, name="front-proxy-ca")
    _write(files.certificate("ca"), authority.certificate)
    _write(files.key("ca"), authority.key)
    _write(files.certificate("front-proxy-ca"), front.certificate)
    own = authority.serving("kube-apiserver", hosts=(*NAMES, *ADDRESSES, _FIRST_SERVICE))
    _write_pair(files, "kube-apiserver", own)
    _write_pair(files, "front-proxy", front.client(FRONT_PROXY))
    private, public = _key_pair()
    _write(files.service_account_key, private)
    _write(files.service_account_public_key, public)
    users = {
        "admin": authority.client(ADMIN, groups=[MASTERS]),
        "kubelets": authority.client(KUBELETS, groups=[MASTERS]),
        "kubelet-client": authority.client("kube-apiserver-kubelet-client", groups=[MASTERS]),
        "kube-controller-manager": authority.client("system:kube-controller-manager"),
        "kube-scheduler": authority.client("system:kube-scheduler"),
    }
    texts: dict[str, str] = {}
    for name, credentials in users.items():
        _write_pair(files, name, credentials)
        texts[name] = kubeconfig_text(
            url,
            credentials.authority,
            _certificate_user(credentials),
        )
        _write(files.kubeconfig(name), texts[name])
    _write(files.audit_policy, yaml.safe_dump(AUDIT_POLICY))
    _write_admission(files, webhooks, now)
    return Written(
        authority=authority.certificate,
        kubeconfig=texts["admin"],
        kubelets=authority.serving("kubelets", hosts=("localhost", *ADDRESSES, *hosts)),
    )


def _write_admission(files: Files, webhooks: Sequence[str], now: datetime) -> None:
    """Write the client certificate for webhooks; its authority signs nothing else."""
    authority = Authority(now, name=WEBHOOK_CLIENT_CA)
    _write(files.certificate(WEBHOOK_CLIENT_CA), authority.certificate)
    _write_pair(files, WEBHOOK_CLIENT, authority.client("kube-apiserver-webhook-client"))
    pair = {
        "client-certificate": str(files.certificate(WEBHOOK_CLIENT)),
        "client-key": str(files.key(WEBHOOK_CLIENT)),
    }
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": name, "user": pair} for name in webhooks],
    }
    plugin = {
        "name": "MutatingAdmissionWebhook",
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(files.kubeconfig(WEBHOOK_CLIENT)),
        },
    }
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [plugin],
    }
    _write(files.kubeconfig(WEBHOOK_CLIENT), yaml.safe_dump(kubeconfig))
    _write(files.admission_configuration, yaml.safe_dump(configuration))


def _write_pair(files: Files, name: str, credentials: Credentials) -> None:
    _write(files.certificate(name), credentials.certificate)
    _write(files.key(name), credentials.key)


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _certificate_user(credentials: Credentials) -> dict[str, str]:
    """Return the user of a kubeconfig that authenticates by a certificate."""
    return {
        "client-certificate-data": encoded(credentials.certificate),
        "client-key-data": encoded(credentials.key),
    }


def _key_pair() -> tuple[str, str]:
    """Return a private and a public key, PEM, for signing ServiceAccount tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_text(key), public.decode()
