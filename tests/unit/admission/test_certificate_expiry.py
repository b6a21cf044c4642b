"""When the webhook's certificates end: what is warned of, and what the metric says."""

import logging
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from prometheus_client import CollectorRegistry

from admission.certificate_expiry import (
    AUTHORITY,
    SERVING,
    CertificateExpiry,
    ExpiryStage,
    issuer,
    stage,
)
from admission.metrics import AdmissionMetrics
from certs import authority

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LIFE = timedelta(days=90)


def made(lifetime: timedelta = LIFE) -> authority.Bundle:
    return authority.create(
        ["127.0.0.1"],
        make_key=lambda: ec.generate_private_key(ec.SECP256R1()),
        now=NOW,
        lifetime=lifetime,
    )


def certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def of_an_unknown_kind(pem: bytes) -> bytes:
    """The certificate with a key of an algorithm that nobody has yet."""
    der = certificate(pem).public_bytes(Encoding.DER)
    elliptic, unknown = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d027f")
    assert elliptic in der
    changed = x509.load_der_x509_certificate(der.replace(elliptic, unknown))
    return changed.public_bytes(Encoding.PEM)


ONE, OTHER, LONG = made(), made(), made(2 * LIFE)
SHOWN = certificate(ONE.server.certificate)


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        pytest.param(timedelta(), ExpiryStage.FINE, id="new"),
        pytest.param(timedelta(days=59, hours=23), ExpiryStage.FINE, id="more than a third left"),
        pytest.param(timedelta(days=60), ExpiryStage.LAST_THIRD, id="a third left"),
        pytest.param(
            timedelta(days=80, hours=23), ExpiryStage.LAST_THIRD, id="more than a tenth left"
        ),
        pytest.param(timedelta(days=81), ExpiryStage.LAST_TENTH, id="a tenth left"),
        pytest.param(LIFE - timedelta(seconds=1), ExpiryStage.LAST_TENTH, id="the last second"),
        pytest.param(LIFE, ExpiryStage.EXPIRED, id="the second after"),
    ],
)
def test_stage(after: timedelta, wanted: ExpiryStage) -> None:
    assert stage(SHOWN, NOW + after) is wanted


@pytest.mark.parametrize(
    ("bundle", "wanted"),
    [
        pytest.param(ONE.authority.certificate, ONE, id="the only one"),
        pytest.param(OTHER.authority.certificate + ONE.authority.certificate, ONE, id="who signed"),
        pytest.param(
            OTHER.authority.certificate + LONG.authority.certificate,
            LONG,
            id="a chain: who expires last",
        ),
        pytest.param(
            of_an_unknown_kind(OTHER.authority.certificate) + ONE.authority.certificate,
            ONE,
            id="beside one with a key from the future",
        ),
        pytest.param(b"", None, id="an empty file"),
        pytest.param(b"no PEM", None, id="garbage"),
    ],
)
def test_issuer(bundle: bytes, wanted: authority.Bundle | None) -> None:
    found = issuer(SHOWN, bundle)
    assert found == (wanted and certificate(wanted.authority.certificate))


@dataclass
class Watched:
    """Certificates that a test replaces, and a clock that it turns."""

    bundle: authority.Bundle = ONE
    time: datetime = NOW
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.expiry = CertificateExpiry(
            lambda: certificate(self.bundle.server.certificate),
            lambda: self.bundle.authority.certificate,
            self,
            AdmissionMetrics(self.registry),
        )

    def now(self) -> datetime:
        return self.time

    def remaining(self, name: str) -> float | None:
        sample = "vpa_admission_controller_certificate_remaining_seconds"
        return self.registry.get_sample_value(sample, {"certificate": name})


def test_the_metric_is_what_is_left_at_the_moment_of_the_scrape() -> None:
    it = Watched()
    assert it.remaining(SERVING) == LIFE.total_seconds()
    it.time += LIFE + timedelta(seconds=5)
    assert (it.remaining(SERVING), it.remaining(AUTHORITY)) == (-5, -5)
    it.bundle = LONG
    assert it.remaining(AUTHORITY) == LIFE.total_seconds() - 5


def test_without_a_ca_file_there_is_no_number() -> None:
    it = Watched(
        authority.Bundle(authority=authority.Pair(key=b"", certificate=b""), server=ONE.server)
    )
    it.expiry.look()
    assert math.isnan(it.remaining(AUTHORITY) or 0)
    assert it.remaining(SERVING) == LIFE.total_seconds()


def test_each_certificate_is_warned_of_once_at_each_stage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Watched()
    told: list[list[int]] = []
    for days in (0, 59, 60, 61, 81, 82, 90, 91):
        caplog.clear()
        it.time = NOW + timedelta(days=days)
        it.expiry.look()
        told.append([record.levelno for record in caplog.records])
    warning, error = [logging.WARNING] * 2, [logging.ERROR] * 2
    assert told == [[], [], warning, [], warning, [], error, []]


def test_a_new_certificate_that_is_old_is_warned_of_too(caplog: pytest.LogCaptureFixture) -> None:
    it = Watched(time=NOW + timedelta(days=60))
    it.expiry.look()
    it.bundle = OTHER
    it.expiry.look()
    it.bundle = LONG
    it.expiry.look()
    told = [(vars(record)["certificate"], vars(record)["days"]) for record in caplog.records]
    assert told == [(SERVING, "30.0"), (AUTHORITY, "30.0")] * 2
