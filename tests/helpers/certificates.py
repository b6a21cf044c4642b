"""Certificates for servers on loopback."""

from datetime import datetime, timedelta
from pathlib import Path

from certs import authority
from common.runtime.clock import SystemClock


def new_bundle(*, valid_from: datetime | None = None, days: int = 1) -> authority.Bundle:
    """An authority of its own, and what it vouches for: a server on 127.0.0.1.

    Handshakes check dates against the computer's clock: valid from now on, unless told.
    """
    return authority.create(
        ["127.0.0.1"],
        make_key=authority.rsa_key,
        now=valid_from or SystemClock().now(),
        lifetime=timedelta(days=days),
    )


def write_pair(folder: Path, pair: authority.Pair) -> tuple[Path, Path]:
    """The files of certificate and key, by the names that admission is told of."""
    certificate, key = folder / "serverCert.pem", folder / "serverKey.pem"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key
