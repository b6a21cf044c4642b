"""A certificate authority and a serving pair, from a key maker and a date.

Pure but for the randomness that the key maker brings: no files, no clock, no cluster.

Source: vertical-pod-autoscaler/pkg/admission-controller/gencerts.sh.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = rsa.RSAPrivateKey
KeyMaker = Callable[[], PrivateKey]

CA_NAME = "vpa_webhook_ca"
_LONGEST_COMMON_NAME = 64  # X.520's upper bound
_SKEW = timedelta(minutes=5)  # an API server's clock may be behind ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A private key and its certificate, both as PEM."""

    key: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What the webhook needs: the authority that API servers trust, and what it signed."""

    authority: Pair
    server: Pair


def rsa_key() -> PrivateKey:
    """Make an RSA key of 2048 bits, the reference's size."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def create(
    hosts: Sequence[str], *, make_key: KeyMaker, now: datetime, lifetime: timedelta
) -> Bundle:
    """Make a new authority, and a serving certificate for ``hosts`` that it signed.

    ``hosts`` are DNS names and IP addresses; all of them become subject alternative names,
    because clients look at nothing else, and the first one is the common name too.
    Both certificates are valid for ``lifetime`` from a little before ``now``.

    Raises:
        ValueError: there is no host, or one is neither a DNS name nor an address.
    """
    if not hosts:
        raise ValueError("a serving certificate needs at least one host")
    names = [_alternative_name(host) for host in hosts]
    authority_key, server_key = make_key(), make_key()
    authority_name = _common_name(CA_NAME)
    authority = (
        _builder(authority_key, authority_name, authority_name, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _builder(server_key, _common_name(hosts[0]), authority_name, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            ),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    return Bundle(authority=_pem(authority_key, authority), server=_pem(server_key, server))


def problem_with(bundle: Bundle, hosts: Sequence[str], now: datetime) -> str | None:
    """Say why ``bundle`` can't serve ``hosts`` at ``now``; None if it can.

    Total: bytes that are no PEM are a problem like any other.
    """
    try:
        authority = x509.load_pem_x509_certificate(bundle.authority.certificate)
        server = x509.load_pem_x509_certificate(bundle.server.certificate)
        key = serialization.load_pem_private_key(bundle.server.key, password=None)
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        missing = [host for host in hosts if _alternative_name(host) not in names]
        server.verify_directly_issued_by(authority)
    except InvalidSignature:
        return "the serving certificate was not signed by the authority"
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        return f"it can't be read: {error}"
    if key.public_key() != server.public_key():
        return "the serving key does not belong to the serving certificate"
    if missing:
        return f"the serving certificate lacks {', '.join(missing)}"
    for noun, certificate in (("authority", authority), ("serving certificate", server)):
        if now < certificate.not_valid_before_utc:
            return f"the {noun} is not valid before {certificate.not_valid_before_utc:%F %T} UTC"
        if now >= certificate.not_valid_after_utc:
            return f"the {noun} has expired at {certificate.not_valid_after_utc:%F %T} UTC"
    return None


def _builder(
    key: PrivateKey, subject: x509.Name, issuer: x509.Name, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=not signs_certificates,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_COMMON_NAME])])


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: PrivateKey, certificate: x509.Certificate) -> Pair:
    return Pair(
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
    )
