"""Functions that create and check a certificate authority and a serving pair.

They use no files, clock or cluster; the only randomness is that of the key maker.

Source: vertical-pod-autoscaler/pkg/admission-controller/gencerts.sh.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from common import certificates
from common.certificates import PrivateKey, alternative_name, extension

KeyMaker = Callable[[], PrivateKey]

CA_NAME = "vpa_webhook_ca"
SKEW = timedelta(minutes=5)  # certificates start so long before ``now``, because clocks differ
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
    """The webhook's certificates: the authority that API servers trust, and the serving pair.

    The authority's ``certificate`` may hold several certificates. The first one belongs to the
    key. The others are older; they stay trusted while pairs that they signed may be in use.
    """

    authority: Pair
    server: Pair


def rsa_key() -> PrivateKey:
    """Generate an RSA key of 2048 bits, the size that the reference uses."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def create(
    hosts: Sequence[str], *, make_key: KeyMaker, now: datetime, lifetime: timedelta
) -> Bundle:
    """Create an authority, and a serving certificate for ``hosts`` that it signs.

    Both certificates are valid from ``SKEW`` before ``now`` until ``lifetime`` after it.

    Raises:
        ValueError: as ``issue`` does.
    """
    authority = create_authority(hosts, make_key=make_key, now=now, lifetime=lifetime)
    server = issue(authority, hosts, make_key=make_key, now=now, lifetime=lifetime)
    return Bundle(authority=authority, server=server)


def create_authority(
    hosts: Sequence[str], *, make_key: KeyMaker, now: datetime, lifetime: timedelta
) -> Pair:
    """Create an authority that can sign only for ``hosts``.

    It is valid from ``SKEW`` before ``now`` until ``lifetime`` after it.

    Raises:
        ValueError: a host is neither a DNS name nor an address.
    """
    key = make_key()
    made = certificates.self_signed(
        key,
        certificates.distinguished(CA_NAME),
        since=now - SKEW,
        until=now + lifetime,
        hosts=hosts,
    )
    return _pair(key, made)


def issue(
    authority: Pair,
    hosts: Sequence[str],
    *,
    make_key: KeyMaker,
    now: datetime,
    lifetime: timedelta,
) -> Pair:
    """Issue a serving certificate for ``hosts``, signed by the first one of ``authority``.

    ``hosts`` are DNS names and IP addresses. All of them become subject alternative names,
    because clients check nothing else. The first one is also the common name. The certificate
    is valid from ``SKEW`` before ``now`` until ``lifetime`` after it, but no longer than its
    authority.

    Raises:
        ValueError: there is no host, one is neither a DNS name nor an address, or the
            authority can't be read.
    """
    if not hosts:
        raise ValueError("a serving certificate needs at least one host")
    issuer = read_certificates(authority.certificate)[0]
    key = make_key()
    server = certificates.signed(
        key,
        certificates.distinguished(hosts[0]),
        issuer=issuer,
        signing_key=read_key(authority.key),
        purposes=[ExtendedKeyUsageOID.SERVER_AUTH],
        hosts=hosts,
        since=now - SKEW,
        until=min(now + lifetime, issuer.not_valid_after_utc),
    )
    return _pair(key, server)


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """Return the certificates of a PEM file.

    Raises:
        ValueError: there is none, or one can't be parsed completely. The library parses most
            parts on first access, and raises errors of other types there.
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
    """Return the private key of a PEM file.

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
        raise ValueError("the key is of a kind that is not supported")  # noqa: TRY004 - as the docstring says
    return key


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether ``authority`` signed ``certificate`` and is allowed to sign."""
    return certificates.is_issued_by(certificate, authority) and may_sign(authority)


def may_sign(certificate: x509.Certificate) -> bool:
    """Return whether API servers accept certificates that ``certificate`` signs.

    Source: ``Certificate.CheckSignatureFrom``, go crypto/x509/x509.go.
    """
    constraints = extension(certificate, x509.BasicConstraints)
    usage = extension(certificate, x509.KeyUsage)
    is_authority = constraints is not None and constraints.ca
    return is_authority and (usage is None or usage.key_cert_sign)


def may_serve(certificate: x509.Certificate) -> bool:
    """Return whether the extended key usages allow ``certificate`` to authenticate a server."""
    purposes = extension(certificate, x509.ExtendedKeyUsage)
    return purposes is None or not _SERVING.isdisjoint(purposes)


def lacking(certificate: x509.Certificate, hosts: Iterable[str]) -> list[str]:
    """Return those of ``hosts`` that a serving certificate doesn't cover.

    Raises:
        ValueError: one of them is neither a DNS name nor an address.
    """
    found = extension(certificate, x509.SubjectAlternativeName) or ()
    return [host for host in hosts if alternative_name(host) not in found]


def _pair(key: PrivateKey, certificate: x509.Certificate) -> Pair:
    return Pair(key=certificates.private_pem(key), certificate=certificates.as_pem([certificate]))
