"""A certificate authority and what it signs, made in a millisecond for loopback."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_EARLIER = timedelta(hours=1)
_LIFETIME = timedelta(days=3650)
_PEM = serialization.Encoding.PEM
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What one side of TLS shows, and the authority that the other side trusts; all PEM."""

    authority: str
    certificate: str
    key: str

    def server_context(self) -> ssl.SSLContext:
        """A context for the server; HTTP/1.1 only."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        with TemporaryDirectory() as folder:  # the ssl module reads files only
            path = Path(folder, "serving.pem")
            path.touch(mode=0o600)
            path.write_text(self.key + self.certificate)
            context.load_cert_chain(path)
        return context


class Authority:
    """A certificate authority that lives as long as the cluster that it was made for."""

    def __init__(self, now: datetime, *, name: str = "sandbox-authority") -> None:
        self._now = now
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = (
            _builder(self._name, self._name, self._key, now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = own.public_bytes(_PEM).decode()
        self.key = private_text(self._key)

    def serving(self, name: str, *, hosts: Iterable[str]) -> Credentials:
        """A certificate of a server that is reached by ``hosts``: names and addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(_name(name), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, *, groups: Iterable[str] = ()) -> Credentials:
        """A certificate by which an API server knows ``user`` as a member of ``groups``."""
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key, self._now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credentials(
            authority=self.certificate,
            certificate=certificate.public_bytes(_PEM).decode(),
            key=private_text(key),
        )


def make_credentials(now: datetime, *, names: tuple[str, ...] = NAMES) -> Credentials:
    """Make a new authority and a certificate for loopback addresses and ``names``."""
    return Authority(now).serving("sandbox", hosts=(*names, *ADDRESSES))


def make_key_pair() -> tuple[str, str]:
    """A private key and its public one, PEM, as ServiceAccount tokens are signed with."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private_text(key), public.decode()


def private_text(key: ec.EllipticCurvePrivateKey) -> str:
    """The key as PEM, not encrypted."""
    return key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str, organizations: Iterable[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, text),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
