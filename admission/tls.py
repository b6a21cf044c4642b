"""The webhook's key pair, which can be reloaded while the server runs.

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
# OpenSSL's names by IANA's. As in the reference, the suites of TLS 1.3 are not configurable.
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
    """The key pair of new handshakes, and its ``certificate``; open connections keep theirs.

    ``context`` belongs to the listening socket and never changes. Each handshake switches to the
    context of the last pair that was loaded without an error. So a partial or unusable pair is
    never used. Before the first one, handshakes fail, and ``loaded`` isn't set.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        min_version: str = "",
        ciphers: str = "",
        client_authority: Path | None = None,
        created_later: bool = False,
    ) -> None:
        """Load the pair, unless it is ``created_later``; then ``reload`` loads it.

        With ``client_authority``, the file of a CA, the handshake requests a client certificate. It
        fails if the CA did not sign the certificate, but not if there is none.

        Raises:
            ConfigError: a file can't be used, or the version or the ciphers are invalid.
        """
        self._pair = (certificate, key)
        self._client_authority = client_authority
        self._version = _version(min_version)
        self._ciphers = _openssl_names(ciphers)
        self._current: ssl.SSLContext | None = None
        self.certificate: x509.Certificate | None = None
        self.loaded = asyncio.Event()
        if not created_later:
            self.reload()
        self.context = self._without_pair()
        self.context.sni_callback = self._hand_over

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files to reload when they change."""
        return (
            self._pair if self._client_authority is None else (*self._pair, self._client_authority)
        )

    def reload(self) -> None:
        """Load the files again.

        Raises:
            ConfigError: a file can't be used. The old pair stays in use.
        """
        self._current, self.certificate = self._load()
        self.loaded.set()

    def valid_at(self, now: datetime) -> bool:
        """Return whether there is a certificate that is valid at ``now``."""
        found = self.certificate
        return found is not None and found.not_valid_before_utc <= now < found.not_valid_after_utc

    def _load(self) -> tuple[ssl.SSLContext, x509.Certificate]:
        certificate, key = self._pair
        context = self._without_pair()
        try:
            context.load_cert_chain(certificate, key, password=_no_passphrase)
            parsed = x509.load_pem_x509_certificate(certificate.read_bytes())
        except ssl.SSLError as error:
            raise ConfigError(f"can't use {certificate} with {key}: {_reason(error)}") from error
        except ValueError as error:
            raise ConfigError(f"can't use {certificate}: {error}") from error
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"can't read {certificate} or {key}: {reason}") from error
        return context, parsed

    def _without_pair(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._version
        # API servers use HTTP/1.1 for webhooks. ALPN keeps other clients from trying HTTP/2.
        context.set_alpn_protocols(["http/1.1"])
        if self._ciphers:
            context.set_ciphers(self._ciphers)
        if self._client_authority is not None:
            _request_client_certificate(context, self._client_authority)
        return context

    def _hand_over(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _own: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


class FileWatch:
    """Detects replaced files, also behind the symbolic links of a mounted Secret."""

    def __init__(self, *files: Path) -> None:
        self._files = files
        self._seen = tuple(map(_state, files))

    def changed(self) -> bool:
        """Return whether any file has changed since the last call."""
        before, self._seen = self._seen, tuple(map(_state, self._files))
        return self._seen != before


async def follow(pair: KeyPair) -> None:
    """Reload the pair whenever one of its files is replaced; never return.

    Retry unusable files every second: they may be replaced one by one, or become usable without a
    visible change. Each error is logged once. Wait for files that are created later.
    """
    watch = FileWatch(*pair.files)
    behind, logged = True, ""  # the files may have changed since the start
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        if not pair.loaded.is_set() and not all(file.exists() for file in pair.files):
            continue
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


async def follow_authority(file: Path, patch: Callable[[], Awaitable[None]]) -> None:
    """Call ``patch`` when the CA file has new content; never return.

    Ignore an empty file, because it is being written.
    """
    watch = FileWatch(file)
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        if watch.changed() and read_bundle(file):
            logger.info("New client CA found, reloading and patching webhook")
            await patch()


def read_bundle(file: Path, *, quiet: bool = False) -> bytes:
    """Return the content of the CA file; if it is unreadable, log a warning and return b"".

    ``quiet`` omits the warning, for callers that read the file often.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        if not quiet:
            reason = error.strerror or str(error)
            logger.warning("can't read the client CA", extra={"file": file, "error": reason})
        return b""


def _request_client_certificate(context: ssl.SSLContext, authority: Path) -> None:
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
    """Return the ciphers in OpenSSL's notation, without unknown ones."""
    names = (name.strip() for name in re.split("[,:]", text))
    return ":".join(_CIPHERS[name] for name in names if name in _CIPHERS)


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return values that change with the file: inode, modification time, size; None without it."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _no_passphrase() -> str:
    """Refuse an encrypted key, for which OpenSSL would prompt on the terminal."""
    raise ConfigError("the private key is encrypted, which is not supported")


def _reason(error: ssl.SSLError) -> str:
    return str(error.reason or error).replace("_", " ").lower()
