"""The last reviews of pods, for the read API."""

from admission.metrics import ReviewOutcome
from admission.patch_log import changes_of, pod_name
from admission.pod_reviews import PodVerdict
from admission.review import AdmissionRequest
from common.read_api.history import History
from common.read_model.admission import PastAdmission
from common.runtime.clock import Clock

_LONGEST_NAME = 253  # characters, as in the API
_LONGEST_PROBLEM = 1000


class AdmissionHistory:
    """Records the reviews of pods, except of those without a VPA, which are most pods."""

    def __init__(self, clock: Clock) -> None:
        self.entries: History[PastAdmission] = History()
        self._clock = clock

    def add(self, request: AdmissionRequest, verdict: PodVerdict, seconds: float) -> None:
        """Record a review that took ``seconds``."""
        if verdict.outcome is ReviewOutcome.NO_VPA:
            return
        problem = ": ".join(each for each in (verdict.problem, verdict.error) if each)
        self.entries.add(
            PastAdmission(
                number=self.entries.next_number(),
                at=self._clock.now(),
                namespace=request.namespace[:_LONGEST_NAME],
                vpa=verdict.vpa_name,
                pod=pod_name(request)[:_LONGEST_NAME],
                outcome=verdict.outcome.value,
                changes=changes_of(verdict),
                problem=problem[:_LONGEST_PROBLEM] or None,
                dry_run=request.dry_run is True,
                seconds=round(seconds, 6),
            )
        )
