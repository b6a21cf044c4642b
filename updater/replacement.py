"""Whether the pod that would take an evicted one's place may be expected to come up right."""

from collections.abc import Sequence

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.quantity import Quantity, QuantityError
from common.recommendation.refusals import refusal
from updater.decision import Decision, Reason, leave, wait
from updater.eviction_tracking import EvictionTracker


class Replacements:
    """Decides for one VPA: by what its evictions came to, and by what its namespace allows (D30).

    What it takes to know that is dear, so who may not be evicted anyway isn't to be asked about.
    And it is asked once for the pods that are alike: it costs as much as an admission.
    """

    def __init__(
        self,
        vpa: VerticalPodAutoscaler,
        limit_ranges: Sequence[LimitRangeSpec],
        evictions: EvictionTracker | None,
        *,
        most_boost: Quantity | None = None,
    ) -> None:
        self._vpa = vpa
        self._limit_ranges = limit_ranges
        self._evictions = evictions
        self._most_boost = most_boost
        self._known: dict[tuple[int, int], tuple[Pod, str]] = {}

    def hold_up(self, pod: Pod) -> Decision | None:
        """Why the pod is not to be evicted now, though everything else allows it."""
        if self._evictions is not None:
            allowed = self._evictions.allowance()
            if not allowed.allows_one:
                return wait(allowed.reason, until=allowed.until)
        try:
            refused = self.refusal(pod)
        except QuantityError:
            return leave(Reason.UNREADABLE)
        return wait(Reason.REPLACEMENT_WOULD_BE_REFUSED) if refused else None

    def refusal(self, pod: Pod) -> str:
        """Why a replacement of the pod would be refused, as a sentence; empty if it wouldn't be.

        Raises:
            QuantityError: as ``common.recommendation.refusals.refusal``.
        """
        if not self._limit_ranges:
            return ""
        # Replicas share what is equal in them; a pod that is kept keeps the identities of its own.
        alike = id(pod.spec), id(pod.metadata.annotations)
        if alike not in self._known:
            self._known[alike] = (
                pod,
                refusal(pod, self._vpa, self._limit_ranges, most_boost=self._most_boost),
            )
        return self._known[alike][1]
