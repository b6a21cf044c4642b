"""The certificates that admission keeps itself: in a Secret that its replicas share, and in files.

Each replica reads the Secret regularly, takes the steps of a renewal that are due, and copies the
result to the files that its server and its registration read. A renewal waits ten minutes between
two steps, so every replica has made several copies meanwhile.
"""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from certs import certificate_stores
from certs.authority import Bundle, KeyMaker, rsa_key
from certs.certificate_stores import Store, write_certificate, write_key
from certs.renewal import CertificatePolicy, RenewalDecision
from certs.trust import CaBundleStore
from common.errors import ConfigError, KubeError
from common.runtime.clock import Clock

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 20.0
_SHORTEST_PAUSE = 1.0  # seconds between two attempts after a failure
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """The files of the server and of the registration; only their owner can read the key."""

    certificate: Path
    key: Path
    authority: Path

    def write(self, bundle: Bundle) -> None:
        """Write the serving pair and the trusted authorities, without the authority's key.

        Raises:
            ConfigError: a file can't be written.
        """
        try:
            write_certificate(self.authority, bundle.authority.certificate)
            write_key(self.key, bundle.server.key)
            write_certificate(self.certificate, bundle.server.certificate)
        except OSError as error:
            raise ConfigError(
                f"can't write {error.filename or self.certificate}: {error.strerror}; "
                "mount an emptyDir volume there"
            ) from error


class ManagedCertificates:
    """Keeps Secret, CA bundle and files up to date. Others load the files when they change."""

    def __init__(
        self,
        secret: Store,
        trust: CaBundleStore,
        policy: CertificatePolicy,
        files: CertificateFiles,
        clock: Clock,
        *,
        make_key: KeyMaker = rsa_key,
    ) -> None:
        self._secret = secret
        self._trust = trust
        self._policy = policy
        self._files = files
        self._clock = clock
        self._make_key = make_key
        self._written: Bundle | None = None
        self._logged: RenewalDecision | str | None = None

    async def run(self) -> None:
        """Take the steps that are due; never return.

        A failed attempt is repeated, and logged if its error differs from the last one.
        """
        pause = _SHORTEST_PAUSE
        while True:
            try:
                await self._update()
            except (ConfigError, KubeError) as error:
                self._log_failure(str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = _SHORTEST_PAUSE
                await asyncio.sleep(_CHECK_SECONDS)

    async def _update(self) -> None:
        bundle, decision = await certificate_stores.ensure(
            [self._secret],
            self._trust,
            self._policy,
            make_key=self._make_key,
            now=self._clock.now(),
        )
        if decision != self._logged:
            self._logged = decision
            certificate_stores.log_decision(decision)
        if bundle != self._written:
            await asyncio.to_thread(self._files.write, bundle)
            self._written = bundle

    def _log_failure(self, error: str) -> None:
        if error != self._logged:
            self._logged = error
            logger.warning("certificates not kept", extra={"error": error})
