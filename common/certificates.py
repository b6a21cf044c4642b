"""X.509 certificates in the forms that Kubernetes' servers and clients accept.

The functions use no files and no clock. Only serial numbers are random.
"""

import ipaddress
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
E = TypeVar("E", bound=x509.ExtensionType)

_LONGEST_COMMON_NAME = 64  # X.520's upper bound


def self_signed(
    key: PrivateKey,
    name: x509.Name,
    *,
    since: datetime,
    until: datetime,
    hosts: Iterable[str] = (),
) -> x509.Certificate:
    """Create an authority that may not sign other authorities.

    With ``hosts``, clients accept its certificates only for these hosts and their subdomains.

    Raises:
        ValueError: as ``alternative_name`` does.
    """
    builder = (
        _builder(key, name, name, since, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    permitted = [_subtree(host) for host in hosts]
    if permitted:
        builder = builder.add_extension(_constraints(permitted), critical=True)
    return builder.sign(key, hashes.SHA256())


def signed(
    key: PrivateKey,
    subject: x509.Name,
    *,
    issuer: x509.Certificate,
    signing_key: PrivateKey,
    purposes: Iterable[x509.ObjectIdentifier],
    hosts: Iterable[str] = (),
    since: datetime,
    until: datetime,
) -> x509.Certificate:
    """Create the certificate of a client, or of a server for ``hosts``.

    ``hosts`` are DNS names and addresses; ``purposes`` are extended key usages.

    Raises:
        ValueError: as ``alternative_name`` does.
    """
    names = [alternative_name(host) for host in hosts]
    builder = (
        _builder(key, subject, issuer.subject, since, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(_identifier(issuer, signing_key), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signing_key, hashes.SHA256())


def distinguished(name: str, organizations: Iterable[str] = ()) -> x509.Name:
    """Return a subject; organizations are an API server's groups, and long names are cut."""
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_COMMON_NAME]),
        ]
    )


def alternative_name(host: str) -> x509.GeneralName:
    """Return the form of a host in a certificate.

    Raises:
        ValueError: it is neither a DNS name nor an address.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def forbidden(authority: x509.Certificate, hosts: Iterable[str]) -> list[str]:
    """Return those of ``hosts`` for which the authority's name constraints allow no certificate.

    Constraints of other shapes than ``self_signed`` writes permit nothing.

    Source: RFC 5280, 4.2.1.10.
    """
    constraints = extension(authority, x509.NameConstraints)
    if constraints is None:
        return []
    permitted = constraints.permitted_subtrees or ()
    kinds = {type(each) for each in permitted}
    return [
        host
        for host in hosts
        if (type(_subtree(host)) in kinds or x509.DNSName in kinds)
        and not any(_is_within(host, each) for each in permitted)
    ]


def _is_within(host: str, subtree: x509.GeneralName) -> bool:
    own = _subtree(host)
    if isinstance(own, x509.DNSName) and isinstance(subtree, x509.DNSName):
        return own.value == subtree.value or own.value.endswith(f".{subtree.value}")
    return own == subtree


def _subtree(host: str) -> x509.GeneralName:
    """Return the names that a constraint for the host permits."""
    name = alternative_name(host)
    if isinstance(name, x509.IPAddress):
        return x509.IPAddress(ipaddress.ip_network(host))
    return x509.DNSName(host.removeprefix("*.").lower())


def _constraints(permitted: list[x509.GeneralName]) -> x509.NameConstraints:
    """Exclude all addresses if none is permitted: kinds of names without a rule are allowed.

    DNS names stay allowed if only addresses are permitted: OpenSSL treats an address in the
    common name as a DNS name, and would refuse it.
    """
    if any(isinstance(each, x509.IPAddress) for each in permitted):
        return x509.NameConstraints(permitted, None)
    every = [x509.IPAddress(ipaddress.ip_network(each)) for each in ("0.0.0.0/0", "::/0")]
    return x509.NameConstraints(permitted, every)


def extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    """Return the value of a certificate's extension; None without it."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether ``authority`` signed ``certificate``."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True


def private_pem(key: PrivateKey) -> bytes:
    """Return the key as PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def as_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return the certificates in one PEM file, in the given order."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def _builder(
    key: PrivateKey, subject: x509.Name, issuer: x509.Name, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _identifier(issuer: x509.Certificate, key: PrivateKey) -> x509.AuthorityKeyIdentifier:
    """Return the identifier that distinguishes issuers of the same name."""
    own = extension(issuer, x509.SubjectKeyIdentifier)
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
