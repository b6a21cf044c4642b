"""The webhook's key pair: loaded at start, replaced while it serves.

Source: vertical-pod-autoscaler/pkg/admission-controller/certs.go; admission.md 1 and 9.1.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from cryptography import x509

from common.errors import ConfigError

logger = logging.getLogger(__name__)

_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "tls1_2": ssl.TLSVersion.TLSv1_2,
    "tls1_3": ssl.TLSVersion.TLSv1_3,
}
# IANA's names and OpenSSL's. The suites of TLS 1.3 are not configurable, as in the reference.
_CIPHERS = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_POLL_SECONDS = 1.0


class KeyPair:
    """The pair that new handshakes get; connections that are open keep the one they have.

    ``context`` belongs to the listening socket and stays the same. Each handshake is handed
    to the context of the latest good pair, which is made whole before it is used: a pair that
    can't be loaded, or that is half written, never gets near a client.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        min_version: str = "",
        ciphers: str = "",
        client_authority: Path | None = None,
    ) -> None:
        """Load the pair.

        With ``client_authority``, the file of a CA, clients are asked for a certificate. One that
        this CA did not sign ends the handshake; having none doesn't.

        Raises:
            ConfigError: a file can't be used, or the version or the ciphers make no sense.
        """
        self._pair = (certificate, key)
        self._client_authority = client_authority
        self._version = _version(min_version)
        self._ciphers = _openssl_names(ciphers)
        self._current, self._certificate = self._load()
        self.context, _ = self._load()
        self.context.sni_callback = self._hand_over

    @property
    def files(self) -> tuple[Path, ...]:
        """Return what is loaded again when it changes."""
        return (
            self._pair if self._client_authority is None else (*self._pair, self._client_authority)
        )

    def reload(self) -> None:
        """Load the files again.

        Raises:
            ConfigError: they can't be used; the old pair stays in use.
        """
        self._current, self._certificate = self._load()

    @property
    def certificate(self) -> x509.Certificate:
        """Return what new handshakes are shown."""
        return self._certificate

    def valid_at(self, now: datetime) -> bool:
        """Return whether ``now`` is within the dates of the certificate."""
        shown = self._certificate
        return shown.not_valid_before_utc <= now < shown.not_valid_after_utc

    def _load(self) -> tuple[ssl.SSLContext, x509.Certificate]:
        certificate, key = self._pair
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._version
        # API servers speak HTTP/1.1 to webhooks; saying so keeps others from trying HTTP/2.
        context.set_alpn_protocols(["http/1.1"])
        try:
            if self._ciphers:
                context.set_ciphers(self._ciphers)
            context.load_cert_chain(certificate, key, password=_no_passphrase)
            shown = x509.load_pem_x509_certificate(certificate.read_bytes())
        except ssl.SSLError as error:
            raise ConfigError(f"can't use {certificate} with {key}: {_reason(error)}") from error
        except ValueError as error:
            raise ConfigError(f"can't use {certificate}: {error}") from error
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"can't read {certificate} or {key}: {reason}") from error
        if self._client_authority is not None:
            _ask_clients(context, self._client_authority)
        return context, shown

    def _hand_over(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _own: ssl.SSLContext
    ) -> None:
        connection.context = self._current


class FileWatch:
    """Notices that files were replaced, also through the symbolic links of a mounted Secret."""

    def __init__(self, *files: Path) -> None:
        self._files = files
        self._seen = self._look()

    def changed(self) -> bool:
        """Return whether any file differs from what it was when this was asked last."""
        now = self._look()
        changed = now != self._seen
        self._seen = now
        return changed

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_state, self._files))


async def follow(pair: KeyPair) -> None:
    """Reload the pair whenever one of its files is replaced; an endless background task.

    Files that can't be used are tried until they can: they may be replaced one by one, or lack
    something that a changed file would not show. Each error is logged once.
    """
    watch = FileWatch(*pair.files)
    behind, logged = True, ""  # the files may have changed since they were loaded
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        if watch.changed():
            logger.info("New certificate found, reloading")
            behind = True
        if not behind:
            continue
        try:
            pair.reload()
        except ConfigError as error:
            if str(error) != logged:
                logged = str(error)
                logger.error("keeping the old certificate", extra={"error": logged})  # noqa: TRY400 - the file is at fault, not the code
        else:
            behind, logged = False, ""


async def follow_authority(file: Path, patch: Callable[[bytes], Awaitable[None]]) -> None:
    """Call ``patch`` with each new content of the CA file; an endless background task.

    An empty file is one that is being written, and is ignored.
    """
    watch = FileWatch(file)
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        if not watch.changed():
            continue
        content = read_bundle(file)
        if content:
            logger.info("New client CA found, reloading and patching webhook")
            await patch(content)


def read_bundle(file: Path) -> bytes:
    """Return the CA file's content; an unreadable one is only logged, and empty."""
    try:
        return file.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        logger.warning("can't read the client CA", extra={"file": file, "error": reason})
        return b""


def _ask_clients(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise ConfigError(f"can't use {authority}: {_reason(error)}") from error
    except OSError as error:
        raise ConfigError(f"can't read {authority}: {error.strerror or error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL


def _version(name: str) -> ssl.TLSVersion:
    if name not in _VERSIONS:
        raise ConfigError(f"--min-tls-version: {name!r} is not tls1_2 or tls1_3")
    return _VERSIONS[name]


def _openssl_names(text: str) -> str:
    """Return the ciphers in OpenSSL's notation; unknown names don't count."""
    names = (name.strip() for name in re.split("[,:]", text))
    return ":".join(_CIPHERS[name] for name in names if name in _CIPHERS)


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return what distinguishes the versions of a file; None while there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _no_passphrase() -> str:
    """Refuse an encrypted key: OpenSSL would ask the terminal for its passphrase, and wait."""
    raise ConfigError("the private key is encrypted, which is not supported")


def _reason(error: ssl.SSLError) -> str:
    return str(error.reason or error).replace("_", " ").lower()
