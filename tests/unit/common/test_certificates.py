"""Certificates that ``common.certificates`` creates.

tests/unit/certs/test_authority.py tests the webhook's serving certificate.
"""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.certificates import distinguished, extension, self_signed, signed

SINCE = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=1)


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


SIGNER = key()
AUTHORITY = self_signed(SIGNER, distinguished("authority"), since=SINCE, until=UNTIL)


def client_of(issuer: x509.Certificate) -> x509.Certificate:
    return signed(
        key(),
        distinguished("jane", ["readers", "writers"]),
        issuer=issuer,
        signing_key=SIGNER,
        purposes=[ExtendedKeyUsageOID.CLIENT_AUTH],
        since=SINCE,
        until=UNTIL,
    )


def test_a_client_certificate_names_user_and_groups_and_no_host() -> None:
    made = client_of(AUTHORITY)
    made.verify_directly_issued_by(AUTHORITY)
    assert made.subject.rfc4514_string() == "CN=jane,O=writers,O=readers"
    assert list(extension(made, x509.ExtendedKeyUsage) or ()) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert extension(made, x509.SubjectAlternativeName) is None
    assert (made.not_valid_before_utc, made.not_valid_after_utc) == (SINCE, UNTIL)


def test_only_the_authority_can_sign() -> None:
    constraints = extension(AUTHORITY, x509.BasicConstraints)
    assert constraints == x509.BasicConstraints(ca=True, path_length=0)
    assert extension(client_of(AUTHORITY), x509.BasicConstraints) == x509.BasicConstraints(
        ca=False, path_length=None
    )


@pytest.mark.parametrize(
    "named",
    [True, False],
    ids=["authority with a subject key identifier", "authority without a subject key identifier"],
)
def test_a_certificate_contains_the_authority_key_identifier(*, named: bool) -> None:
    """It is computed from the key if another client's authority has no subject key identifier."""
    plain = (
        x509.CertificateBuilder()
        .subject_name(AUTHORITY.subject)
        .issuer_name(AUTHORITY.subject)
        .public_key(SIGNER.public_key())
        .serial_number(1)
        .not_valid_before(SINCE)
        .not_valid_after(UNTIL)
        .sign(SIGNER, hashes.SHA256())
    )
    authority_key = extension(client_of(AUTHORITY if named else plain), x509.AuthorityKeyIdentifier)
    own = extension(AUTHORITY, x509.SubjectKeyIdentifier)
    assert authority_key is not None
    assert own is not None
    assert authority_key.key_identifier == own.digest


def test_a_name_that_is_too_long_is_truncated() -> None:
    assert distinguished("x" * 70) == distinguished("x" * 64)
