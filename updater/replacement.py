"""Whether the pods that would take the place of evicted ones could be created at all (D30)."""

from collections.abc import Sequence

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.refusals import refusal


class Replacements:
    """Asks once for the pods of a VPA that are alike: the answer costs as much as an admission."""

    def __init__(self, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]) -> None:
        self._vpa = vpa
        self._limit_ranges = limit_ranges
        self._known: dict[tuple[int, int], tuple[Pod, str]] = {}

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
            self._known[alike] = pod, refusal(pod, self._vpa, self._limit_ranges)
        return self._known[alike][1]
