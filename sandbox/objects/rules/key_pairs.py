"""What a real API server warns of when a Secret's certificate and key don't go together.

Source: ``warningsForSecret``, k8s.io/kubernetes pkg/registry/core/secret/strategy.go, and
``X509KeyPair``, crypto/tls of Go.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate

Json = Mapping[str, Any]

_BLOCK: Final = re.compile(rb"-----BEGIN ([^-]+)-----.+?-----END \1-----", re.DOTALL)
_CERTIFICATE: Final = "CERTIFICATE"
_KEY: Final = "PRIVATE KEY"
_SWITCHED: Final = (
    "failed to find certificate PEM data in certificate input, but did find a private key; PEM "
    "inputs may have been switched"
)


def key_pair_warnings(secret: Json) -> Iterator[str]:
    """Why nobody can serve TLS with a Secret of that type."""
    if secret.get("type") != "kubernetes.io/tls":
        return
    data = secret.get("data") or {}
    certificates, key = b64decode(data.get("tls.crt", "")), b64decode(data.get("tls.key", ""))
    if problem := _problem(certificates, key):
        yield f"tls: {problem}"


def _problem(certificates: bytes, key: bytes) -> str:
    found = [match[1].decode(errors="replace") for match in _BLOCK.finditer(certificates)]
    if not found:
        return "failed to find any PEM data in certificate input"
    if _CERTIFICATE not in found:
        if len(found) == 1 and found[0].endswith(_KEY):
            return _SWITCHED
        return (
            'failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks '
            f"of the following types: [{' '.join(found)}]"
        )
    kinds = [match[1].decode(errors="replace") for match in _BLOCK.finditer(key)]
    if not kinds:
        return "failed to find any PEM data in key input"
    if not any(kind.endswith(_KEY) for kind in kinds):
        if kinds == [_CERTIFICATE]:
            return "found a certificate rather than a key in the PEM for the private key"
        return (
            'failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
            f"skipping PEM blocks of the following types: [{' '.join(kinds)}]"
        )
    return _mismatch(certificates, key)


def _mismatch(certificates: bytes, key: bytes) -> str:
    """Whether the key is that of the first certificate, or why nobody can say."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        public = load_pem_x509_certificate(certificates).public_key()
        private = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError) as error:
        return str(error)
    if type(public) is not type(private):
        return "private key type does not match public key type"
    same = public.public_bytes(*form) == private.public_bytes(*form)
    return "" if same else "private key does not match public key"
