"""The self-check: a review over HTTPS, through the port that API servers call.

The updater evicts only while the status Lease is fresh, because replacements have to get their
resources. So the Lease is renewed only while self-checks pass.

Source: admission.md 10 and A16. The reference renews it while the process runs (X40).
"""

import functools
import json
import logging
import ssl
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from admission.app import OUTCOME_HEADER, SELF_CHECK_PATH
from admission.metrics import AdmissionMetrics, ReviewOutcome
from common.errors import VpaError

logger = logging.getLogger(__name__)

IN_A_ROW = 3
"""Successive checks that have to pass after a failed one before the Lease is renewed again.

After a single failure the Lease doesn't become stale: with the default flags it is renewed at an
age of 40 of 60 seconds. If every third check or more fails, it becomes stale and evictions stop,
because too many replacements would get the wrong size.
"""
_LOOPBACK = "127.0.0.1"
_NAME = "self-check"  # of the pod, its container and its namespace
_POD = {
    "metadata": {"name": _NAME, "namespace": _NAME},
    "spec": {"containers": [{"name": _NAME}]},
}

Conditions = Mapping[str, Callable[[], bool]]


class SelfCheckError(VpaError):
    """A self-check failed. The same cause has the same text, so that it is logged once."""


@dataclass(frozen=True, slots=True)
class CheckStreak:
    """The results of the last checks."""

    right: bool = False  # the last check passed
    missing: int = 1  # checks that still have to pass before the streak is steady

    @property
    def steady(self) -> bool:
        return self.missing == 0

    def after(self, *, right: bool) -> "CheckStreak":
        """Return the streak after one more check."""
        if not right:
            return CheckStreak(right=False, missing=IN_A_ROW)
        return CheckStreak(right=True, missing=max(0, self.missing - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A client of the webhook that trusts the same authorities as API servers."""

    port: int
    name: str  # the host in the webhook configuration; empty if another program registers it
    authority: Callable[[], bytes]  # PEM; if empty, every certificate is accepted
    timeout: float  # seconds

    async def request_review(self) -> None:
        """Request the review of a small pod without a VPA, on a new connection.

        Raises:
            SelfCheckError: there was no answer in time, or a wrong one.
        """
        uid = uuid.uuid4().hex
        try:
            context = _context(self.authority(), self.name)
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self.timeout)) as session,
                session.post(
                    f"https://{_LOOPBACK}:{self.port}{SELF_CHECK_PATH}",
                    json=_review_of(uid),
                    ssl=context,
                    server_hostname=self.name or None,
                    allow_redirects=False,
                ) as answer,
            ):
                _check(answer, await answer.read(), uid)
        except TimeoutError as error:
            raise SelfCheckError(f"no answer within {self.timeout:g} seconds") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise SelfCheckError(f"certificate refused: {_reason(error)}") from error
        except aiohttp.ClientConnectorSSLError as error:
            raise SelfCheckError(f"no TLS: {error.strerror or error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise SelfCheckError(f"no connection: {error}") from error


class SelfCheck:
    """Runs checks, records their results, and logs when the result changes."""

    def __init__(self, caller: Caller, conditions: Conditions, metrics: AdmissionMetrics) -> None:
        """Create the check. If one of ``conditions`` is False, it fails without a request."""
        self._caller = caller
        self._conditions = conditions
        self._metrics = metrics
        self._streak = CheckStreak()
        self._logged = ""

    @property
    def right(self) -> bool:
        """Return whether the last check passed."""
        return self._streak.right

    @property
    def steady(self) -> bool:
        """Return whether the last few checks passed."""
        return self._streak.steady

    @property
    def error(self) -> str:
        """Return the failure of the last check; empty if it passed."""
        return self._logged

    async def passed(self) -> bool:
        """Run one check, and return whether it and the last few ones passed."""
        try:
            self._require_conditions()
            await self._caller.request_review()
        except SelfCheckError as error:
            self._streak = self._streak.after(right=False)
            if str(error) != self._logged:
                self._logged = str(error)
                logger.warning("self-check failed", extra={"error": self._logged})
        else:
            self._streak = self._streak.after(right=True)
            if self._logged:
                self._logged = ""
                logger.info("self-check passes again")
        self._metrics.checked(right=self.right)
        return self._streak.steady

    def _require_conditions(self) -> None:
        missing = [name for name, holds in self._conditions.items() if not holds()]
        if missing:
            raise SelfCheckError(f"not ready: {', '.join(missing)}")


@functools.lru_cache(maxsize=1)
def _context(authority: bytes, name: str) -> ssl.SSLContext:
    """Return a client context that verifies certificates as Go does.

    Every certificate in the bundle is a trust anchor, and the name has to be a subject alternative
    name. The context is cached because it is expensive. Each check still makes a full handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(name and authority)
    if not authority:
        context.verify_mode = ssl.CERT_NONE
        return context
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise SelfCheckError(f"client CA can't be used: {error.reason or error}") from error
    return context


def _review_of(uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": _NAME,
            "operation": "CREATE",
            "object": _POD,
        },
    }


def _check(answer: aiohttp.ClientResponse, body: bytes, uid: str) -> None:
    if answer.status != 200:
        raise SelfCheckError(f"answered {answer.status} {answer.reason}")
    outcome = answer.headers.get(OUTCOME_HEADER)
    if outcome != ReviewOutcome.NO_VPA or _response(body) != {"uid": uid, "allowed": True}:
        raise SelfCheckError("a pod without a VPA was not answered as one")


def _response(body: bytes) -> Any:
    try:
        return json.loads(body)["response"]
    except (ValueError, KeyError, TypeError):
        return None


def _reason(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    return cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
