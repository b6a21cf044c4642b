"""A certificate authority and a serving certificate, made in a millisecond for loopback."""

import ssl
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
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a TLS server needs, and what its clients trust; all PEM."""

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


def make_credentials(now: datetime, *, names: tuple[str, ...] = NAMES) -> Credentials:
    """Make a new authority and a certificate for loopback addresses and ``names``."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("sandbox-authority")
    authority = (
        _builder(authority_name, authority_name, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = [*map(x509.DNSName, names)]
    addresses = [x509.IPAddress(ip_address(text)) for text in _ADDRESSES]
    certificate = (
        _builder(_name("sandbox"), authority_name, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*hosts, *addresses]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Credentials(
        authority=authority.public_bytes(pem).decode(),
        certificate=certificate.public_bytes(pem).decode(),
        key=key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


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


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


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
