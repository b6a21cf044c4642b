"""Secrets of type TLS: what Go's ``X509KeyPair`` says of pairs that are none."""

from base64 import b64encode
from datetime import timedelta

import pytest

from certs.authority import create, rsa_key
from common.runtime.clock import SystemClock
from sandbox.objects.rules.key_pairs import key_pair_warnings

BUNDLE = create(
    ["127.0.0.1"], make_key=rsa_key, now=SystemClock().now(), lifetime=timedelta(days=1)
)
CERTIFICATE, KEY = BUNDLE.server.certificate, BUNDLE.server.key


@pytest.mark.parametrize(
    ("certificate", "key", "want"),
    [
        pytest.param(CERTIFICATE, KEY, [], id="a pair"),
        pytest.param(
            b"a", KEY, ["tls: failed to find any PEM data in certificate input"], id="no PEM"
        ),
        pytest.param(
            CERTIFICATE, b"", ["tls: failed to find any PEM data in key input"], id="no key"
        ),
        pytest.param(
            CERTIFICATE,
            CERTIFICATE,
            ["tls: found a certificate rather than a key in the PEM for the private key"],
            id="a certificate for a key",
        ),
        pytest.param(
            BUNDLE.authority.certificate,
            KEY,
            ["tls: private key does not match public key"],
            id="the key of another certificate",
        ),
    ],
)
def test_key_pairs(certificate: bytes, key: bytes, want: list[str]) -> None:
    data = {"tls.crt": b64encode(certificate).decode(), "tls.key": b64encode(key).decode()}
    assert list(key_pair_warnings({"type": "kubernetes.io/tls", "data": data})) == want


def test_switched_inputs_are_told() -> None:
    data = {"tls.crt": b64encode(KEY).decode(), "tls.key": b64encode(CERTIFICATE).decode()}
    [warning] = key_pair_warnings({"type": "kubernetes.io/tls", "data": data})
    assert warning.endswith("PEM inputs may have been switched")


def test_other_secrets_may_hold_anything() -> None:
    assert list(key_pair_warnings({"type": "Opaque", "data": {"tls.crt": "YQ=="}})) == []
