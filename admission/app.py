"""The webhook as a FastAPI application: every request to its port is a review.

The ops address serves /metrics, /health-check and /readyz.

Source: ``AdmissionServer.Serve``,
vertical-pod-autoscaler/pkg/admission-controller/logic/server.go; admission.md 1 and 2.
"""

import ipaddress
import re
from time import perf_counter

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from admission.metrics import AdmissionMetrics, ReviewStep
from admission.reviewer import Reviewer

LARGEST_BODY = 5 * 1024 * 1024  # bytes

SELF_CHECK_PATH = "/self-check"
"""Path of self-checks. They aren't counted, and a header of the response names the outcome."""
OUTCOME_HEADER = "x-review-outcome"

_TIMEOUT = re.compile(rb"(?:^|&)timeout=(\d{1,6})s(?:&|$)")


def webhook_app(
    reviewer: Reviewer, metrics: AdmissionMetrics, *, callers_need_certificate: bool = False
) -> FastAPI:
    """Return the application. It has one route, no OpenAPI pages and no telemetry."""
    app = FastAPI(openapi_url=None, telemetry={"tracing": False, "metrics": False, "logs": False})
    app.router.routes.append(
        ReviewRoute(reviewer, metrics, callers_need_certificate=callers_need_certificate)
    )
    return app


class ReviewRoute(BaseRoute):
    """A route for every path and every method that decodes reviews without FastAPI's models."""

    def __init__(
        self, reviewer: Reviewer, metrics: AdmissionMetrics, *, callers_need_certificate: bool
    ) -> None:
        self._reviewer = reviewer
        self._metrics = metrics
        self._callers_need_certificate = callers_need_certificate

    def matches(self, _scope: Scope) -> tuple[Match, Scope]:
        """Match every request. A path pattern would miss ``*`` and paths with line breaks."""
        return Match.FULL, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request and record the duration of each step."""
        request = Request(scope, receive)
        if self._callers_need_certificate and not _is_authenticated(request):
            self._metrics.refused(403)
            refusal = PlainTextResponse("no client certificate\n", 403, {"connection": "close"})
            await refusal(scope, receive, send)
            return
        started = perf_counter()
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        read = perf_counter()
        content_type = request.headers.get("content-type", "")
        caller_timeout = _timeout(scope)
        answer = await self._reviewer.answer(content_type, body, caller_timeout=caller_timeout)
        answered = perf_counter()
        response = Response(answer.body, media_type="application/json")
        if scope["path"] == SELF_CHECK_PATH:
            response.headers[OUTCOME_HEADER] = answer.outcome
            await response(scope, receive, send)
            return
        await response(scope, receive, send)
        ended = perf_counter()
        metrics = self._metrics
        metrics.spent(ReviewStep.READ_REQUEST, read - started)
        metrics.spent(ReviewStep.ADMIT, answered - read)
        metrics.spent(ReviewStep.WRITE_RESPONSE, ended - answered)
        metrics.spent(ReviewStep.TOTAL, ended - started)
        metrics.reviewed(answer.subject, answer.outcome, ended - started)


def _timeout(scope: Scope) -> int | None:
    """Return the timeout of the API server in seconds; None if the query doesn't contain it."""
    found = _TIMEOUT.search(scope["query_string"])
    return None if found is None else int(found[1])


def _is_authenticated(request: Request) -> bool:
    """Return True for callers with a client certificate, and for self-checks on loopback."""
    if "tls" in request.scope["extensions"]:
        return True
    address = ipaddress.ip_address(request.client.host if request.client else "")
    # A dual-stack socket reports IPv4 addresses as IPv4-mapped IPv6 addresses.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return request.scope["path"] == SELF_CHECK_PATH and (mapped or address).is_loopback
