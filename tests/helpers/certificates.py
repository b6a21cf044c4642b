"""Certificates of servers on loopback."""

from datetime import datetime, timedelta
from pathlib import Path

from certs import authority
from common.runtime.clock import SystemClock


def new_bundle(*, valid_from: datetime | None = None, days: int = 1) -> authority.Bundle:
    """Return a new authority, and a certificate for 127.0.0.1 that it signed.

    By default they are valid from now on by the computer's clock, which TLS uses.
    """
    return authority.create(
        ["127.0.0.1"],
        make_key=authority.rsa_key,
        now=valid_from or SystemClock().now(),
        lifetime=timedelta(days=days),
    )


def write_pair(folder: Path, pair: authority.Pair) -> tuple[Path, Path]:
    """Write certificate and key to a folder; return the paths of the files."""
    certificate, key = folder / "serverCert.pem", folder / "serverKey.pem"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key
