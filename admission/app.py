"""The webhook as an ASGI application: a review comes in, an answer goes out.

It speaks raw ASGI: on the webhook's port every path and every method is a review, so there is
nothing to route, and API servers wait for the answer. What people ask for (/metrics,
/health-check, /readyz) is served on the ops address.

Source: ``AdmissionServer.Serve``,
vertical-pod-autoscaler/pkg/admission-controller/logic/server.go; admission.md 1 to 4.
"""

import asyncio
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from admission import autoscalers, review, vpa_decoding
from admission.autoscalers import VpaVerdict
from admission.field_errors import undecodable
from admission.metrics import AdmissionMetrics, Outcome, Step
from admission.patch_log import log_patched
from admission.pod_reviews import Cluster, LookupFailedError, Match, Policy, Verdict, judge
from admission.remembered import PatchMemory
from admission.review import AdmissionRequest, Subject
from admission.vpa_decoding import BadQuantityError
from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError

__all__ = ["LookupFailedError", "Match", "Policy", "Webhook"]

logger = logging.getLogger(__name__)

LARGEST_BODY = 5 * 1024 * 1024  # bytes
_LARGEST_AT_ONCE = 64 * 1024  # bytes of a VPA and its old state; pods wait some ms at most

SELF_CHECK_PATH = "/self-check"
"""A review like any other, but it is ours: not counted, and told apart by how it ended."""
OUTCOME_HEADER = b"x-review-outcome"

_WAITS = re.compile(rb"(?:^|&)timeout=(\d{1,6})s(?:&|$)")
_LONGEST_WAIT = 30  # seconds that API servers wait at most
_FORBIDDEN = 403
_JSON = b"application/json"
_JSON_HEADERS = ((b"content-type", _JSON),)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The body, and what it is counted as."""

    body: bytes
    subject: Subject
    outcome: Outcome


class Webhook:
    """Answers reviews; an ASGI application for HTTP alone."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        metrics: AdmissionMetrics,
        *,
        callers_need_certificate: bool = False,
    ) -> None:
        self._callers_need_certificate = callers_need_certificate
        self._cluster = cluster
        self._policy = policy
        self._memory = PatchMemory(
            features=policy.features, most_boost=policy.most_boost, pod_level=policy.pod_level
        )
        self._hurried = tuple(_hurried(policy, seconds) for seconds in range(_LONGEST_WAIT + 1))
        self._metrics = metrics
        self._one_by_one = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._callers_need_certificate and not _is_known(scope):
            self._metrics.refused(_FORBIDDEN)
            await _forbid(send)
            return
        started = perf_counter()
        body = await _read(receive)
        if body is None:  # the client has disconnected
            return
        read = perf_counter()
        policy = self._policy_for(scope["query_string"])
        answer = await self.answer(_header(scope, b"content-type"), body, policy)
        answered = perf_counter()
        headers = [*_JSON_HEADERS, (b"content-length", b"%d" % len(answer.body))]
        ours = scope["path"] == SELF_CHECK_PATH
        if ours:
            headers.append((OUTCOME_HEADER, answer.outcome.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        if ours:  # no API server waited for it
            return
        ended = perf_counter()
        metrics = self._metrics
        metrics.spent(Step.READ_REQUEST, read - started)
        metrics.spent(Step.ADMIT, answered - read)
        metrics.spent(Step.WRITE_RESPONSE, ended - answered)
        metrics.spent(Step.TOTAL, ended - started)
        metrics.reviewed(answer.subject, answer.outcome, ended - started)

    def _policy_for(self, query: bytes) -> Policy:
        """API servers tell how long they wait; where somebody else registered us, we don't know."""
        waits = _WAITS.search(query)
        if waits is None:
            return self._policy
        return self._hurried[min(int(waits[1]), _LONGEST_WAIT)]

    async def answer(self, content_type: bytes, body: bytes, policy: Policy) -> _Answer:
        """Answer one body.

        Total: whatever comes in, something goes out, and no pod is ever refused.
        """
        if content_type != _JSON:
            return _Answer(b"", Subject.UNKNOWN, Outcome.CONTENT_TYPE)
        try:
            asked = review.decode(body)
        except DecodeError as error:
            logger.debug("undecodable review", extra={"error": str(error)})
            return _Answer(review.allow(""), Subject.UNKNOWN, Outcome.UNDECODABLE)
        request = asked.request
        if request is None:
            answer = review.in_version_of(asked, review.allow(""))
            return _Answer(answer, Subject.UNKNOWN, Outcome.UNDECODABLE)
        answer, outcome = await self._review(request, policy)
        return _Answer(review.in_version_of(asked, answer), request.subject, outcome)

    async def _review(self, request: AdmissionRequest, policy: Policy) -> tuple[bytes, Outcome]:
        try:
            if request.subject is Subject.POD:
                return await self._pod(request, policy)
            if request.subject is Subject.VPA:
                return await self._vpa(request)
        # The one broad except of the project. Nothing that goes wrong in here, a bug of ours
        # included, may keep a pod from being created: it passes unchanged, and is counted.
        except Exception:
            logger.exception("review failed, the object passes unchanged", extra=_named(request))
            return review.allow(request.uid), Outcome.ERROR
        return review.allow(request.uid), Outcome.UNSUPPORTED

    async def _pod(self, request: AdmissionRequest, policy: Policy) -> tuple[bytes, Outcome]:
        verdict = await judge(request, self._cluster, policy, memory=self._memory)
        if verdict.problem:
            told = {"vpa": verdict.vpa_name} if verdict.vpa_name else {}
            told |= {"error": verdict.error} if verdict.error else {}
            logger.warning(verdict.problem, extra=_named(request) | told)
        if verdict.outcome is not Outcome.PATCHED:
            return review.allow(request.uid), verdict.outcome
        log_patched(request, verdict)
        return self._allowed(request, verdict.patches), verdict.outcome

    async def judge(self, request: AdmissionRequest) -> Verdict:
        """What becomes of the pod of a request."""
        return await judge(request, self._cluster, self._policy, memory=self._memory)

    async def _vpa(self, request: AdmissionRequest) -> tuple[bytes, Outcome]:
        if request.operation in ("DELETE", "CONNECT"):  # nothing is written, so nothing is wrong
            return review.allow(request.uid), Outcome.UNSUPPORTED
        try:
            if request.size <= _LARGEST_AT_ONCE:
                verdict = self._verdict(request)
            else:
                async with self._one_by_one:  # of many threads each would take its share of time
                    verdict = await asyncio.to_thread(self._verdict, request)
        except BadQuantityError as error:
            return review.deny(request, [undecodable(error)], [error.warning]), Outcome.DENIED
        except DecodeError as error:
            return review.deny(request, [undecodable(error)]), Outcome.DENIED
        if verdict.errors:
            return review.deny(request, verdict.errors, verdict.warnings), Outcome.DENIED
        outcome = Outcome.PATCHED if verdict.patches else Outcome.ALLOWED
        return self._allowed(request, verdict.patches, verdict.warnings), outcome

    def _verdict(self, request: AdmissionRequest) -> VpaVerdict:
        vpa_decoding.check_size(request.object)
        new = vpa_decoding.decode(request.object)
        return autoscalers.admit_vpa(new, _before(request), self._policy.features)

    def _allowed(
        self, request: AdmissionRequest, patches: Sequence[Any], warnings: Sequence[str] = ()
    ) -> bytes:
        started = perf_counter()
        body = review.allow(request.uid, patches, warnings)
        self._metrics.spent(Step.BUILD_RESPONSE, perf_counter() - started)
        return body


def _before(request: AdmissionRequest) -> VerticalPodAutoscaler | None:
    """The object that is replaced; None if it can't be read, so that it can be mended (X126)."""
    if request.operation != "UPDATE":
        return None
    try:
        return vpa_decoding.decode(request.old_object)
    except DecodeError:
        return None


def _is_known(scope: Scope) -> bool:
    """Whether the caller showed a certificate, or is this process checking itself."""
    if "tls" in scope["extensions"]:
        return True
    address = ipaddress.ip_address(scope["client"][0])
    return scope["path"] == SELF_CHECK_PATH and _without_mapping(address).is_loopback


def _without_mapping(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that a socket for both shows as one of IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


async def _forbid(send: Send) -> None:
    text = b"no client certificate\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(text)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": _FORBIDDEN, "headers": headers})
    await send({"type": "http.response.body", "body": text})


async def _read(receive: Receive) -> bytes | None:
    """The whole body, which the server bounds; None if the client went away."""
    message = await receive()
    if not message.get("more_body"):  # nearly always the body comes in one piece
        return message.get("body") if message["type"] == "http.request" else None
    parts: list[bytes] = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    return None


def _hurried(policy: Policy, seconds: int) -> Policy:
    """The policy for an API server that waits so long: look-ups take a quarter of it at most."""
    return replace(policy, lookup_deadline=min(policy.lookup_deadline, seconds / 4))


def _header(scope: Scope, name: bytes) -> bytes:
    """The first value of a header, whose name is in lower case; empty if it is missing."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def _named(request: AdmissionRequest) -> dict[str, object]:
    return {
        "resource": request.subject.value,
        "namespace": request.namespace,
        "object": request.name,
        "uid": request.uid,
    }
