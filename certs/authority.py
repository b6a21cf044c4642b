"""A certificate authority and a serving pair, from a key maker and a date.

Pure but for the randomness that the key maker brings: no files, no clock, no cluster.

Source: vertical-pod-autoscaler/pkg/admission-controller/gencerts.sh.
"""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
KeyMaker = Callable[[], PrivateKey]
E = TypeVar("E", bound=x509.ExtensionType)

CA_NAME = "vpa_webhook_ca"
SKEW = timedelta(minutes=5)  # how long a certificate is valid when it is made: clocks differ
_LONGEST_COMMON_NAME = 64  # X.520's upper bound
_SERVING = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_UNREADABLE = (
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
    TypeError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A private key and its certificate, both as PEM."""

    key: bytes = field(repr=False)
    certificate: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What the webhook needs: the authority that API servers trust, and what it signed.

    The authority's ``certificate`` may hold several: first the one that the key belongs to, then
    older ones, which are trusted as long as something that they signed may be in use.
    """

    authority: Pair
    server: Pair


def rsa_key() -> PrivateKey:
    """Make an RSA key of 2048 bits, the reference's size."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def create(
    hosts: Sequence[str], *, make_key: KeyMaker, now: datetime, lifetime: timedelta
) -> Bundle:
    """Make a new authority, and a serving certificate for ``hosts`` that it signed.

    Both certificates are valid for ``lifetime`` from a little before ``now``.

    Raises:
        ValueError: as ``issue`` does.
    """
    authority = create_authority(make_key=make_key, now=now, lifetime=lifetime)
    server = issue(authority, hosts, make_key=make_key, now=now, lifetime=lifetime)
    return Bundle(authority=authority, server=server)


def create_authority(*, make_key: KeyMaker, now: datetime, lifetime: timedelta) -> Pair:
    """Make a new authority, valid for ``lifetime`` from a little before ``now``."""
    key, name = make_key(), _common_name(CA_NAME)
    authority = (
        _builder(key, name, name, now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pem(key, authority)


def issue(
    authority: Pair,
    hosts: Sequence[str],
    *,
    make_key: KeyMaker,
    now: datetime,
    lifetime: timedelta,
) -> Pair:
    """Make a serving certificate for ``hosts``, signed by the first certificate of ``authority``.

    ``hosts`` are DNS names and IP addresses; all of them become subject alternative names,
    because clients look at nothing else, and the first one is the common name too. It is valid
    for ``lifetime`` from a little before ``now``, but no longer than its authority.

    Raises:
        ValueError: there is no host, one is neither a DNS name nor an address, or the
            authority can't be read.
    """
    if not hosts:
        raise ValueError("a serving certificate needs at least one host")
    names = [_alternative_name(host) for host in hosts]
    issuer, signing_key = read_certificates(authority.certificate)[0], read_key(authority.key)
    key = make_key()
    until = min(now + lifetime, issuer.not_valid_after_utc)
    server = (
        _builder(key, _common_name(hosts[0]), issuer.subject, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            ),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(_identifier(issuer, signing_key), critical=False)
        .sign(signing_key, hashes.SHA256())
    )
    return _pem(key, server)


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM file.

    Raises:
        ValueError: there is none, or one can't be read to its end. The library reads most of
            one only when it is asked for, and has errors of its own then.
    """
    try:
        found = x509.load_pem_x509_certificates(pem)
        for each in found:
            each.public_key()
            _parts = each.extensions, each.not_valid_before_utc, each.subject, each.issuer
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error
    return found


def read_key(pem: bytes) -> PrivateKey:
    """The private key of a PEM file.

    Raises:
        ValueError: it can't be read, or is neither an RSA key nor one of an elliptic curve.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError("the key is encrypted") from error
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, PrivateKey):
        raise ValueError("the key is of a kind that is not supported")  # noqa: TRY004 - as told
    return key


def as_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """One PEM file of certificates, in their order."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether ``authority`` signed ``certificate``, and may."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return may_sign(authority)


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether API servers accept what it signs.

    Source: ``Certificate.CheckSignatureFrom``, go crypto/x509/x509.go.
    """
    constraints = _extension(certificate, x509.BasicConstraints)
    usage = _extension(certificate, x509.KeyUsage)
    is_authority = constraints is not None and constraints.ca
    return is_authority and (usage is None or usage.key_cert_sign)


def may_serve(certificate: x509.Certificate) -> bool:
    """Whether API servers accept it from a server, as far as purposes go."""
    purposes = _extension(certificate, x509.ExtendedKeyUsage)
    return purposes is None or not _SERVING.isdisjoint(purposes)


def lacking(certificate: x509.Certificate, hosts: Iterable[str]) -> list[str]:
    """Those of ``hosts`` that a serving certificate is not for.

    Raises:
        ValueError: one of them is neither a DNS name nor an address.
    """
    found = _extension(certificate, x509.SubjectAlternativeName) or ()
    return [host for host in hosts if _alternative_name(host) not in found]


def _builder(
    key: PrivateKey, subject: x509.Name, issuer: x509.Name, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _identifier(issuer: x509.Certificate, key: PrivateKey) -> x509.AuthorityKeyIdentifier:
    """Which of several authorities of the same name it was, as that one is called itself."""
    own = _extension(issuer, x509.SubjectKeyIdentifier)
    if own is None:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


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
        certificate=as_pem([certificate]),
    )
