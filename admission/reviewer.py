"""The answer to a review: the pod's patch, the VPA's verdict, or the unchanged object.

Source: ``AdmissionServer.admit``,
vertical-pod-autoscaler/pkg/admission-controller/logic/server.go; admission.md 2 to 4.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from admission import review, vpa_decoding, vpa_validation
from admission.admission_history import AdmissionHistory
from admission.field_errors import undecodable
from admission.metrics import AdmissionMetrics, ReviewOutcome, ReviewStep
from admission.patch_cache import PatchCache
from admission.patch_log import log_patched
from admission.pod_reviews import Cluster, PodVerdict, ReviewPolicy, judge
from admission.review import AdmissionRequest, ReviewSubject
from admission.vpa_decoding import BadQuantityError
from admission.vpa_validation import VpaVerdict
from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError

logger = logging.getLogger(__name__)

# Bytes of a VPA and its old state. Larger ones are judged in a thread, to not delay other reviews.
_LARGEST_ON_LOOP = 64 * 1024
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """A response body, and the labels of its metrics."""

    body: bytes
    subject: ReviewSubject
    outcome: ReviewOutcome


class Reviewer:
    """Answers reviews."""

    def __init__(
        self,
        cluster: Cluster,
        policy: ReviewPolicy,
        metrics: AdmissionMetrics,
        *,
        history: AdmissionHistory | None = None,
    ) -> None:
        """Create a reviewer; without a ``history`` nothing reads the last reviews."""
        self._cluster = cluster
        self._policy = policy
        self._patches = PatchCache(
            features=policy.features, most_boost=policy.most_boost, pod_level=policy.pod_level
        )
        self._metrics = metrics
        self._history = history
        self._thread_lock = asyncio.Lock()

    async def answer(
        self, content_type: str, body: bytes, *, caller_timeout: int | None = None
    ) -> ReviewAnswer:
        """Return the answer to a body; ``caller_timeout`` is that of the API server in seconds.

        Every body has an answer, and no pod is ever refused.
        """
        if content_type != _JSON:
            return ReviewAnswer(b"", ReviewSubject.UNKNOWN, ReviewOutcome.CONTENT_TYPE)
        try:
            found = review.decode(body)
        except DecodeError as error:
            logger.debug("undecodable review", extra={"error": str(error)})
            return ReviewAnswer(review.allow(""), ReviewSubject.UNKNOWN, ReviewOutcome.UNDECODABLE)
        request = found.request
        if request is None:
            answer = review.in_version_of(found, review.allow(""))
            return ReviewAnswer(answer, ReviewSubject.UNKNOWN, ReviewOutcome.UNDECODABLE)
        longest = self._policy.lookup_timeout
        if caller_timeout is not None:
            longest = min(longest, caller_timeout / 4)
        answer, outcome = await self._review(request, longest)
        return ReviewAnswer(review.in_version_of(found, answer), request.subject, outcome)

    async def _review(
        self, request: AdmissionRequest, lookup_timeout: float
    ) -> tuple[bytes, ReviewOutcome]:
        try:
            if request.subject is ReviewSubject.POD:
                return await self._pod(request, lookup_timeout)
            if request.subject is ReviewSubject.VPA:
                return await self._vpa(request)
        # No error, not even a bug, may prevent the creation of a pod: it passes unchanged.
        except Exception:
            logger.exception("review failed, the object passes unchanged", extra=_named(request))
            return review.allow(request.uid), ReviewOutcome.ERROR
        return review.allow(request.uid), ReviewOutcome.UNSUPPORTED

    async def _pod(
        self, request: AdmissionRequest, lookup_timeout: float
    ) -> tuple[bytes, ReviewOutcome]:
        started = perf_counter()
        verdict = await self.judge(request, lookup_timeout)
        if self._history is not None:
            self._history.add(request, verdict, perf_counter() - started)
        if verdict.problem:
            details = {"vpa": verdict.vpa_name} if verdict.vpa_name else {}
            details |= {"error": verdict.error} if verdict.error else {}
            logger.warning(verdict.problem, extra=_named(request) | details)
        if verdict.outcome is not ReviewOutcome.PATCHED:
            return review.allow(request.uid), verdict.outcome
        log_patched(request, verdict)
        return self._allowed(request, verdict.patches), verdict.outcome

    async def judge(
        self, request: AdmissionRequest, lookup_timeout: float | None = None
    ) -> PodVerdict:
        """Decide about the pod of a request; the default timeout is that of the policy."""
        if lookup_timeout is None:
            lookup_timeout = self._policy.lookup_timeout
        return await judge(
            request, self._cluster, self._policy, cache=self._patches, lookup_timeout=lookup_timeout
        )

    async def _vpa(self, request: AdmissionRequest) -> tuple[bytes, ReviewOutcome]:
        if request.operation in ("DELETE", "CONNECT"):  # no VPA is written
            return review.allow(request.uid), ReviewOutcome.UNSUPPORTED
        try:
            if request.size <= _LARGEST_ON_LOOP:
                verdict = self._verdict(request)
            else:
                async with self._thread_lock:  # several threads would slow down the event loop
                    verdict = await asyncio.to_thread(self._verdict, request)
        except BadQuantityError as error:
            return review.deny(request, [undecodable(error)], [error.warning]), ReviewOutcome.DENIED
        except DecodeError as error:
            return review.deny(request, [undecodable(error)]), ReviewOutcome.DENIED
        if verdict.errors:
            return review.deny(request, verdict.errors, verdict.warnings), ReviewOutcome.DENIED
        outcome = ReviewOutcome.PATCHED if verdict.patches else ReviewOutcome.ALLOWED
        return self._allowed(request, verdict.patches, verdict.warnings), outcome

    def _verdict(self, request: AdmissionRequest) -> VpaVerdict:
        vpa_decoding.check_size(request.object)
        new = vpa_decoding.decode(request.object)
        return vpa_validation.admit_vpa(new, _before(request), self._policy.features)

    def _allowed(
        self, request: AdmissionRequest, patches: Sequence[Any], warnings: Sequence[str] = ()
    ) -> bytes:
        started = perf_counter()
        body = review.allow(request.uid, patches, warnings)
        self._metrics.spent(ReviewStep.BUILD_RESPONSE, perf_counter() - started)
        return body


def _before(request: AdmissionRequest) -> VerticalPodAutoscaler | None:
    """Return the replaced VPA; None if it can't be decoded, so that it can be corrected (X126)."""
    if request.operation != "UPDATE":
        return None
    try:
        return vpa_decoding.decode(request.old_object)
    except DecodeError:
        return None


def _named(request: AdmissionRequest) -> dict[str, object]:
    return {
        "resource": request.subject.value,
        "namespace": request.namespace,
        "object": request.name,
        "uid": request.uid,
    }
