"""Expiry of the webhook's certificates: warnings and the metric."""

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
from fixed_clock import FixedClock

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LIFE = timedelta(days=90)


def new_bundle(lifetime: timedelta = LIFE) -> authority.Bundle:
    return authority.create(
        ["127.0.0.1"],
        make_key=lambda: ec.generate_private_key(ec.SECP256R1()),
        now=NOW,
        lifetime=lifetime,
    )


def certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def with_unknown_algorithm(pem: bytes) -> bytes:
    """Return the certificate with an unknown key algorithm."""
    der = certificate(pem).public_bytes(Encoding.DER)
    elliptic, unknown = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d027f")
    assert elliptic in der
    changed = x509.load_der_x509_certificate(der.replace(elliptic, unknown))
    return changed.public_bytes(Encoding.PEM)


ONE, OTHER, LONG = new_bundle(), new_bundle(), new_bundle(2 * LIFE)
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
        pytest.param(LIFE, ExpiryStage.EXPIRED, id="expired"),
    ],
)
def test_stage(after: timedelta, wanted: ExpiryStage) -> None:
    assert stage(SHOWN, NOW + after) is wanted


@pytest.mark.parametrize(
    ("bundle", "wanted"),
    [
        pytest.param(ONE.authority.certificate, ONE, id="a single certificate"),
        pytest.param(
            OTHER.authority.certificate + ONE.authority.certificate, ONE, id="the one that signed"
        ),
        pytest.param(
            OTHER.authority.certificate + LONG.authority.certificate,
            LONG,
            id="a chain: the one that expires last",
        ),
        pytest.param(
            with_unknown_algorithm(OTHER.authority.certificate) + ONE.authority.certificate,
            ONE,
            id="beside one with an unknown key algorithm",
        ),
        pytest.param(b"", None, id="an empty file"),
        pytest.param(b"no PEM", None, id="not PEM"),
    ],
)
def test_issuer(bundle: bytes, wanted: authority.Bundle | None) -> None:
    found = issuer(SHOWN, bundle)
    assert found == (wanted and certificate(wanted.authority.certificate))


@dataclass
class Watched:
    """Certificates and a clock that a test replaces."""

    bundle: authority.Bundle = ONE
    clock: FixedClock = field(default_factory=lambda: FixedClock(NOW))
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.expiry = CertificateExpiry(
            lambda: certificate(self.bundle.server.certificate),
            lambda: self.bundle.authority.certificate,
            self.clock,
            AdmissionMetrics(self.registry),
        )

    def remaining(self, name: str) -> float | None:
        sample = "vpa_admission_controller_certificate_remaining_seconds"
        return self.registry.get_sample_value(sample, {"certificate": name})


def test_the_metric_is_computed_at_each_scrape() -> None:
    it = Watched()
    assert it.remaining(SERVING) == LIFE.total_seconds()
    it.clock.time += LIFE + timedelta(seconds=5)
    assert (it.remaining(SERVING), it.remaining(AUTHORITY)) == (-5, -5)
    it.bundle = LONG
    assert it.remaining(AUTHORITY) == LIFE.total_seconds() - 5


def test_without_a_ca_file_the_metric_is_nan() -> None:
    it = Watched(
        authority.Bundle(authority=authority.Pair(key=b"", certificate=b""), server=ONE.server)
    )
    it.expiry.check()
    assert math.isnan(it.remaining(AUTHORITY) or 0)
    assert it.remaining(SERVING) == LIFE.total_seconds()


def test_each_certificate_is_logged_once_at_each_stage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Watched()
    logged: list[list[int]] = []
    for days in (0, 59, 60, 61, 81, 82, 90, 91):
        caplog.clear()
        it.clock.time = NOW + timedelta(days=days)
        it.expiry.check()
        logged.append([record.levelno for record in caplog.records])
    warning, error = [logging.WARNING] * 2, [logging.ERROR] * 2
    assert logged == [[], [], warning, [], warning, [], error, []]


def test_a_replaced_certificate_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    it = Watched(clock=FixedClock(NOW + timedelta(days=60)))
    it.expiry.check()
    it.bundle = OTHER
    it.expiry.check()
    it.bundle = LONG
    it.expiry.check()
    logged = [(vars(record)["certificate"], vars(record)["days"]) for record in caplog.records]
    assert logged == [(SERVING, "30.0"), (AUTHORITY, "30.0")] * 2
