"""How long the webhook's certificates are still valid: a metric, and a warning in time.

``certs``, cert-manager or a person renews them earlier; so the warning means that this has stopped.
"""

import asyncio
import enum
import functools
import logging
import math
from collections.abc import Callable, Mapping
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from admission.metrics import AdmissionMetrics
from common.runtime.clock import Clock

logger = logging.getLogger(__name__)

SERVING, AUTHORITY = "serving", "authority"

_LOOK_SECONDS = 600.0
_DAY = 86400.0  # seconds

Find = Callable[[], x509.Certificate | None]


class ExpiryStage(enum.IntEnum):
    """How near the end of its life a certificate is."""

    FINE = 0
    LAST_THIRD = 1
    LAST_TENTH = 2
    EXPIRED = 3


def stage(certificate: x509.Certificate, now: datetime) -> ExpiryStage:
    """Decide how near the end of its life ``certificate`` is at ``now``."""
    end = certificate.not_valid_after_utc
    left, life = end - now, end - certificate.not_valid_before_utc
    if now >= end:
        return ExpiryStage.EXPIRED
    if left <= life / 10:
        return ExpiryStage.LAST_TENTH
    return ExpiryStage.LAST_THIRD if left <= life / 3 else ExpiryStage.FINE


def issuer(certificate: x509.Certificate, bundle: bytes) -> x509.Certificate | None:
    """Find the authority in a CA file that signed ``certificate``.

    Where none did (a chain has certificates in between), it is the one that expires last; None
    of a file that can't be read.
    """
    try:
        authorities = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return None
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
            continue
        return authority
    return max(authorities, key=lambda each: each.not_valid_after_utc)


class CertificateExpiry:
    """Watches the certificate that is shown, and the authority that is registered."""

    def __init__(
        self,
        serving: Callable[[], x509.Certificate],
        authority_file: Callable[[], bytes],
        clock: Clock,
        metrics: AdmissionMetrics,
    ) -> None:
        """``authority_file`` is the CA file's content; an unreadable one is empty."""
        self._clock = clock
        self._found: Mapping[str, Find] = {
            SERVING: serving,
            AUTHORITY: lambda: issuer(serving(), authority_file()),
        }
        self._warned: dict[str, tuple[x509.Certificate, ExpiryStage]] = {}
        for name, find in self._found.items():
            metrics.remains(name, functools.partial(self._remaining, find))

    async def run(self) -> None:
        """Look every ten minutes, the first time at once, and never return."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Warn of each certificate once when a third of its life is left, and as it gets worse."""
        now = self._clock.now()
        for name, find in self._found.items():
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
        """Return seconds; not a number where there is no certificate."""
        certificate = find()
        if certificate is None:
            return math.nan
        return (certificate.not_valid_after_utc - self._clock.now()).total_seconds()
