"""Certificates that ``certs.authority`` creates, and errors of invalid ones."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import authority
from certs.authority import Bundle, Pair
from common.certificates import distinguished, forbidden, self_signed

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LIFE = timedelta(days=100)
HOSTS = ["vpa-webhook.kube-system.svc", "127.0.0.1", "::1"]
KEYS = [authority.rsa_key() for _ in range(4)]  # generated once, because it is slow


def bundle(first: int = 0, hosts: list[str] | None = None) -> Bundle:
    keys = iter(KEYS[first : first + 2])
    return authority.create(
        HOSTS if hosts is None else hosts, make_key=lambda: next(keys), now=NOW, lifetime=LIFE
    )


BUNDLE = bundle()
CA = x509.load_pem_x509_certificate(BUNDLE.authority.certificate)
SERVER = x509.load_pem_x509_certificate(BUNDLE.server.certificate)


def test_names_and_addresses_are_alternative_names() -> None:
    names = SERVER.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["vpa-webhook.kube-system.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]


def test_names_of_the_certificates() -> None:
    assert common_name(CA) == "vpa_webhook_ca"
    assert common_name(SERVER) == "vpa-webhook.kube-system.svc"
    assert SERVER.issuer == CA.subject


def common_name(certificate: x509.Certificate) -> str:
    (attribute,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attribute.value)


def test_a_long_host_name_is_truncated_in_the_common_name_only() -> None:
    host = "x" * 60 + ".kube-system.svc"
    server = x509.load_pem_x509_certificate(bundle(hosts=[host]).server.certificate)
    assert common_name(server) == host[:64]
    assert authority.lacking(server, [host]) == []


def test_usage() -> None:
    usage = SERVER.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert usage.content_commitment
    assert usage.key_encipherment
    assert not usage.key_cert_sign
    extended = SERVER.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]  # not for clients
    constraints = CA.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert constraints.ca
    SERVER.verify_directly_issued_by(CA)


def accepts(authority_pem: bytes, server: Pair, host: str, folder: Path) -> bool:
    """Return True if a TLS client that trusts the authority accepts the server."""
    (folder / "server.pem").write_bytes(server.key + server.certificate)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "server.pem")
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.load_verify_locations(cadata=authority_pem.decode())
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there, server_hostname=host)
    peer = serving.wrap_bio(there, back, server_side=True)
    for side in (client, peer, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


@pytest.mark.parametrize(
    ("own", "host", "accepted"),
    [
        pytest.param(HOSTS[:1], HOSTS[0], True, id="its own name"),
        pytest.param(HOSTS[:1], f"a.{HOSTS[0]}", True, id="a subdomain"),
        pytest.param(HOSTS[:1], "kubernetes.default.svc", False, id="another Service"),
        pytest.param(HOSTS[:1], f"x{HOSTS[0]}", False, id="another name with the same suffix"),
        pytest.param(HOSTS[:1], "127.0.0.1", False, id="an address, the authority is for a name"),
        pytest.param(["127.0.0.1"], "127.0.0.1", True, id="its own address"),
        pytest.param(["127.0.0.1"], "127.0.0.2", False, id="another address"),
        pytest.param(
            ["127.0.0.1"], "localhost", True, id="a name, the authority is for an address"
        ),
        pytest.param(HOSTS, "localhost", False, id="another name beside an address"),
        pytest.param(["*.example.com"], "a.example.com", True, id="a wildcard"),
        pytest.param(["::1"], "::1", True, id="its own IPv6 address"),
    ],
)
def test_an_authority_signs_only_for_its_hosts(
    own: list[str], host: str, *, accepted: bool, tmp_path: Path
) -> None:
    now = datetime.now(UTC)  # noqa: TID251 - OpenSSL reads the clock as well
    made = authority.create_authority(own, make_key=lambda: KEYS[0], now=now, lifetime=LIFE)
    server = authority.issue(made, [host], make_key=lambda: KEYS[1], now=now, lifetime=LIFE)
    assert accepts(made.certificate, server, host, tmp_path) == accepted
    (certificate,) = authority.read_certificates(made.certificate)
    assert (forbidden(certificate, [host]) == []) == accepted


def test_an_authority_without_constraints_signs_for_all_hosts() -> None:
    name = distinguished("theirs")
    theirs = self_signed(KEYS[0], name, since=NOW, until=NOW + LIFE)
    assert forbidden(theirs, HOSTS) == []


def test_validity_starts_a_little_early() -> None:
    assert SERVER.not_valid_before_utc == NOW - timedelta(minutes=5)
    assert SERVER.not_valid_after_utc == NOW + LIFE


def test_the_references_hundred_thousand_days_are_possible() -> None:
    keys = iter(KEYS)
    made = authority.create(
        HOSTS, make_key=lambda: next(keys), now=NOW, lifetime=timedelta(days=100_000)
    )
    server = x509.load_pem_x509_certificate(made.server.certificate)
    assert server.not_valid_after_utc == NOW + timedelta(days=100_000)


@pytest.mark.parametrize("hosts", [[], ["grüße.example"]], ids=["none", "an invalid DNS name"])
def test_invalid_hosts(hosts: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        bundle(hosts=hosts)


OTHER = bundle(2)
OTHER_CA = x509.load_pem_x509_certificate(OTHER.authority.certificate)


@pytest.mark.parametrize(
    ("hosts", "lacking"),
    [
        pytest.param(HOSTS, [], id="the same hosts"),
        pytest.param(HOSTS[:1], [], id="fewer hosts"),
        pytest.param(
            [*HOSTS, "other", "10.0.0.1"], ["other", "10.0.0.1"], id="two additional hosts"
        ),
    ],
)
def test_hosts_that_a_certificate_lacks(hosts: list[str], lacking: list[str]) -> None:
    assert authority.lacking(SERVER, hosts) == lacking
    assert authority.lacking(CA, hosts) == hosts


def test_the_signature_identifies_the_issuer_not_the_name() -> None:
    assert authority.signed_by(SERVER, CA)
    assert OTHER_CA.subject == CA.subject
    assert not authority.signed_by(SERVER, OTHER_CA)


def test_no_certificate_is_valid_longer_than_its_authority() -> None:
    late = authority.issue(
        BUNDLE.authority,
        HOSTS,
        make_key=lambda: KEYS[2],
        now=NOW + timedelta(days=60),
        lifetime=LIFE,
    )
    server = x509.load_pem_x509_certificate(late.certificate)
    assert server.not_valid_after_utc == CA.not_valid_after_utc
    assert authority.signed_by(server, CA)


def test_a_certificate_contains_the_key_identifier_of_its_authority() -> None:
    """Clients use it to choose between authorities of the same name."""
    named = SERVER.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    own = CA.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert named.key_identifier == own.digest


@pytest.mark.parametrize("pem", [b"", b"no PEM", CA.public_bytes(Encoding.DER)], ids=len)
def test_invalid_pem_raises_a_value_error(pem: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        authority.read_certificates(pem)
    with pytest.raises(ValueError, match=r".+"):
        authority.read_key(pem)


def test_an_encrypted_or_unsupported_key_raises_a_value_error() -> None:
    form = (Encoding.PEM, PrivateFormat.PKCS8)
    with pytest.raises(ValueError, match="encrypted"):
        authority.read_key(KEYS[0].private_bytes(*form, BestAvailableEncryption(b"secret")))
    with pytest.raises(ValueError, match="not supported"):
        authority.read_key(Ed25519PrivateKey.generate().private_bytes(*form, NoEncryption()))
