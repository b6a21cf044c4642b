"""Calls of admission webhooks over HTTPS.

Source: k8s.io/apiserver pkg/util/webhook/client.go and the mutating and validating dispatchers;
kubernetes-resize.md section 6.
"""

import asyncio
import base64
import ssl
import uuid
from collections.abc import Sequence
from functools import lru_cache

import aiohttp
import msgspec

from sandbox.admission.request import AdmissionRequest
from sandbox.admission.webhook_answers import Answer, failed_call, read_answer
from sandbox.admission.webhook_rules import Webhook, review

_HEADERS = {
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
    "Accept-Encoding": "gzip",
}
_LARGEST_ANSWER = 3 * 1024 * 1024  # bytes; as large as a request to the API server may be


class WebhookCaller:
    """Keeps connections to webhooks. ``close`` closes them."""

    def __init__(self, *, minor: int) -> None:
        self._minor = minor
        self._session: aiohttp.ClientSession | None = None

    async def call(self, hook: Webhook, request: AdmissionRequest) -> Answer:
        """Call one webhook.

        Raises:
            CallError: there was no valid response in time.
            ApiError: the webhook refused.
        """
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(review(request, uid, minor=self._minor))
        url = _url(hook)
        try:
            async with (
                asyncio.timeout(hook.timeout),
                self._open().post(
                    url, data=body, headers=_HEADERS, ssl=_context(hook.client.get("caBundle"))
                ) as response,
            ):
                answer = await response.content.read(_LARGEST_ANSWER)
                while not response.content.at_eof() and len(answer) < _LARGEST_ANSWER:
                    answer += await response.content.read(_LARGEST_ANSWER - len(answer))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            text = f'failed to call webhook: Post "{url}": {_reason(error)}'
            raise failed_call(hook.name, text) from error
        return read_answer(hook.name, response.status, answer, uid)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session


def _url(hook: Webhook) -> str:
    """Return the URL of the call.

    Raises:
        CallError: the webhook names a Service, which the sandbox doesn't have.
    """
    url = hook.client.get("url")
    if not url:
        raise failed_call(hook.name, "failed to call webhook: the sandbox calls URLs only")
    return f"{url}{'&' if '?' in url else '?'}timeout={hook.timeout}s"


@lru_cache(maxsize=64)
def _context(ca_bundle: str | None) -> ssl.SSLContext:
    """Return a context that trusts the bundle alone, or the system's authorities without one.

    Raises:
        ValueError: the bundle isn't base64 of PEM.
    """
    if not ca_bundle:
        return ssl.create_default_context()
    try:
        pem = base64.b64decode(ca_bundle, validate=True).decode("ascii")
        return ssl.create_default_context(cadata=pem)
    except ssl.SSLError as error:
        raise ValueError("unable to load root certificates: unable to parse bytes") from error


def _reason(error: Exception) -> str:
    """Return the text of an error, in Go's words if operators know them."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = isinstance(error.os_error, ConnectionRefusedError)
        text = "connection refused" if refused else str(error.os_error)
        return f"dial tcp {error.host}:{error.port}: connect: {text}"
    return str(error) or type(error).__name__


def _certificate_problem(error: Exception) -> str:
    cause = getattr(error, "certificate_error", error)
    if getattr(cause, "verify_code", 0) in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    return str(getattr(cause, "verify_message", cause))


_UNKNOWN_AUTHORITY: Sequence[int] = (18, 19, 20, 21)  # OpenSSL: self-signed, no issuer, no chain
