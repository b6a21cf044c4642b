"""A certificate authority and its certificates, for loopback."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from common import certificates
from common.runtime.clock import SystemClock

_EARLIER = timedelta(hours=1)
_LIFETIME = timedelta(days=3650)
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Certificate and key of one side of TLS, and the authority of the other side; all PEM."""

    authority: str
    certificate: str
    key: str = field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        """Return a context for a server; HTTP/1.1 only."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        with TemporaryDirectory() as folder:  # the ssl module reads files only
            path = Path(folder, "serving.pem")
            path.touch(mode=0o600)
            path.write_text(self.key + self.certificate)
            context.load_cert_chain(path)
        return context


class Authority:
    """A certificate authority of one cluster."""

    def __init__(self, now: datetime, *, name: str = "sandbox-authority") -> None:
        self._since, self._until = now - _EARLIER, now + _LIFETIME
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._own = certificates.self_signed(
            self._key, certificates.distinguished(name), since=self._since, until=self._until
        )
        self.certificate = certificates.as_pem([self._own]).decode()
        self.key = private_text(self._key)

    def serving(self, name: str, *, hosts: Iterable[str]) -> Credentials:
        """Return a certificate for a server that is reached by ``hosts``: names and addresses."""
        subject = certificates.distinguished(name)
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def client(self, user: str, *, groups: Iterable[str] = ()) -> Credentials:
        """Return a client certificate for ``user`` as a member of ``groups``."""
        subject = certificates.distinguished(user, groups)
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, subject: x509.Name, purpose: x509.ObjectIdentifier, hosts: Iterable[str] = ()
    ) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificates.signed(
            key,
            subject,
            issuer=self._own,
            signing_key=self._key,
            purposes=[purpose],
            hosts=hosts,
            since=self._since,
            until=self._until,
        )
        return Credentials(
            authority=self.certificate,
            certificate=certificates.as_pem([made]).decode(),
            key=private_text(key),
        )


def make_credentials() -> Credentials:
    """Create an authority and a certificate for loopback.

    Certificates are verified against the clock of the machine, so that clock issues them.
    """
    return Authority(SystemClock().now()).serving("sandbox", hosts=(*NAMES, *ADDRESSES))


def private_text(key: ec.EllipticCurvePrivateKey) -> str:
    """Return the key as PEM, not encrypted."""
    return certificates.private_pem(key).decode()
