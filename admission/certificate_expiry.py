"""The expiry of the webhook's certificates, as a metric and as warnings in the log.

``certs`` and cert-manager renew certificates before the first warning. A warning means that the
renewal has stopped.
"""

import asyncio
import enum
import functools
import logging
import math
from collections.abc import Callable, Mapping
from datetime import datetime

from cryptography import x509

from admission.metrics import AdmissionMetrics
from common.certificates import is_issued_by
from common.runtime.clock import Clock

logger = logging.getLogger(__name__)

SERVING, AUTHORITY = "serving", "authority"

_CHECK_SECONDS = 600.0
_DAY = 86400.0  # seconds

Find = Callable[[], x509.Certificate | None]


class ExpiryStage(enum.IntEnum):
    """The stages of a certificate's lifetime."""

    FINE = 0
    LAST_THIRD = 1
    LAST_TENTH = 2
    EXPIRED = 3


def stage(certificate: x509.Certificate, now: datetime) -> ExpiryStage:
    """Return the stage of ``certificate`` at ``now``."""
    end = certificate.not_valid_after_utc
    left, life = end - now, end - certificate.not_valid_before_utc
    if now >= end:
        return ExpiryStage.EXPIRED
    if left <= life / 10:
        return ExpiryStage.LAST_TENTH
    return ExpiryStage.LAST_THIRD if left <= life / 3 else ExpiryStage.FINE


def issuer(certificate: x509.Certificate | None, bundle: bytes) -> x509.Certificate | None:
    """Return the authority in a CA file that signed ``certificate``.

    If none did, because the chain has intermediate certificates, return the authority that
    expires last. Return None without a certificate, and for a file that can't be parsed.
    """
    if certificate is None:
        return None
    try:
        authorities = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return None
    for authority in authorities:
        if is_issued_by(certificate, authority):
            return authority
    return max(authorities, key=lambda each: each.not_valid_after_utc)


class CertificateExpiry:
    """Reports the expiry of the serving certificate and of the registered authority."""

    def __init__(
        self,
        serving: Find,
        authority_file: Callable[[], bytes],
        clock: Clock,
        metrics: AdmissionMetrics,
    ) -> None:
        """Register the metric. ``authority_file`` returns empty bytes for an unreadable file."""
        self._clock = clock
        self._certificates: Mapping[str, Find] = {
            SERVING: serving,
            AUTHORITY: lambda: issuer(serving(), authority_file()),
        }
        self._warned: dict[str, tuple[x509.Certificate, ExpiryStage]] = {}
        for name, find in self._certificates.items():
            metrics.remains(name, functools.partial(self._remaining, find))

    async def run(self) -> None:
        """Check at once and then every ten minutes; never return."""
        while True:
            self.check()
            await asyncio.sleep(_CHECK_SECONDS)

    def check(self) -> None:
        """Log a warning when a certificate reaches a later stage than the last logged one."""
        now = self._clock.now()
        for name, find in self._certificates.items():
            certificate = find()
            if certificate is None:
                continue
            found = stage(certificate, now)
            before, warned = self._warned.get(name, (certificate, ExpiryStage.FINE))
            self._warned[name] = (certificate, found)
            if found > (warned if before == certificate else ExpiryStage.FINE):
                self._warn(name, certificate, found)

    def _warn(self, name: str, certificate: x509.Certificate, found: ExpiryStage) -> None:
        days = self._remaining(lambda: certificate) / _DAY
        extra = {
            "certificate": name,
            "expires": f"{certificate.not_valid_after_utc:%F %T} UTC",
            "days": f"{days:.1f}",
        }
        if found is ExpiryStage.EXPIRED:
            logger.error("certificate has expired: reviews fail", extra=extra)
        else:
            logger.warning("certificate expires soon: is it being renewed?", extra=extra)

    def _remaining(self, find: Find) -> float:
        """Return the remaining seconds; NaN if there is no certificate."""
        certificate = find()
        if certificate is None:
            return math.nan
        return (certificate.not_valid_after_utc - self._clock.now()).total_seconds()
