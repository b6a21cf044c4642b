"""Certificates of ``certs.authority``: what a client sees in them, and what is wrong with them."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import authority
from certs.authority import Bundle, Pair

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LIFE = timedelta(days=100)
HOSTS = ["vpa-webhook.kube-system.svc", "127.0.0.1", "::1"]
KEYS = [authority.rsa_key() for _ in range(4)]  # made once: making them is what takes time


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


def test_a_common_name_has_room_for_64_characters_and_the_alternative_name_for_all() -> None:
    host = "x" * 60 + ".kube-system.svc"
    server = x509.load_pem_x509_certificate(bundle(hosts=[host]).server.certificate)
    assert common_name(server) == host[:64]
    assert authority.problem_with(bundle(hosts=[host]), [host], NOW) is None


def test_usage() -> None:
    usage = SERVER.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert usage.content_commitment
    assert usage.key_encipherment
    assert not usage.key_cert_sign
    extended = SERVER.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(extended) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    constraints = CA.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert constraints.ca
    SERVER.verify_directly_issued_by(CA)


def test_validity_starts_a_little_early() -> None:
    assert SERVER.not_valid_before_utc == NOW - timedelta(minutes=5)
    assert SERVER.not_valid_after_utc == NOW + LIFE


def test_the_references_hundred_thousand_days_are_possible() -> None:
    keys = iter(KEYS)
    made = authority.create(
        HOSTS, make_key=lambda: next(keys), now=NOW, lifetime=timedelta(days=100_000)
    )
    assert authority.problem_with(made, HOSTS, NOW + timedelta(days=99_999)) is None


@pytest.mark.parametrize("hosts", [[], ["grüße.example"]], ids=["none", "no DNS name"])
def test_hosts_that_cannot_be(hosts: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        bundle(hosts=hosts)


OTHER = bundle(2)


@pytest.mark.parametrize(
    ("made", "hosts", "now", "problem"),
    [
        pytest.param(BUNDLE, HOSTS, NOW, None, id="a good one"),
        pytest.param(BUNDLE, HOSTS[:1], NOW, None, id="more names than needed"),
        pytest.param(BUNDLE, [*HOSTS, "other"], NOW, "lacks other", id="a name is missing"),
        pytest.param(
            BUNDLE, HOSTS, NOW - timedelta(minutes=6), "is not valid before", id="too early"
        ),
        pytest.param(
            BUNDLE, HOSTS, NOW + LIFE - timedelta(seconds=1), None, id="in the last second"
        ),
        pytest.param(BUNDLE, HOSTS, NOW + LIFE, "has expired", id="in the second after"),
        pytest.param(
            Bundle(authority=OTHER.authority, server=BUNDLE.server),
            HOSTS,
            NOW,
            "not signed by",
            id="another authority of the same name",
        ),
        pytest.param(
            Bundle(
                authority=BUNDLE.authority,
                server=Pair(key=OTHER.server.key, certificate=BUNDLE.server.certificate),
            ),
            HOSTS,
            NOW,
            "does not belong",
            id="another key",
        ),
        pytest.param(
            Bundle(authority=BUNDLE.authority, server=Pair(key=b"", certificate=b"")),
            HOSTS,
            NOW,
            "can't be read",
            id="empty",
        ),
    ],
)
def test_problems(made: Bundle, hosts: list[str], now: datetime, problem: str | None) -> None:
    found = authority.problem_with(made, hosts, now)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert problem in found
