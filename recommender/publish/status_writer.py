"""Writes of the statuses that are due: concurrently, and within one interval.

A status is written for the version of the VPA that it was decided on.

Source: recommender.md section 10.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.errors import DecodeError, KubeError, NoSubresourceError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import VPAS
from common.patches import add
from recommender.concurrency import run_concurrently
from recommender.metrics import RecommenderMetrics
from recommender.publish.status_decision import PublishingSettings, StatusDecision
from recommender.publish.target_log import log_target
from recommender.sources.conversion import vpa_key
from recommender.write_failures import WriteFailures

WriteResult = Callable[[StatusDecision, VerticalPodAutoscaler], None]
"""Called with a decision, and with the VPA in the response to its write."""

_NO_SUBRESOURCE = (
    "the CustomResourceDefinition verticalpodautoscalers.autoscaling.k8s.io has no status "
    "subresource; apply deploy/crd/verticalpodautoscalers.yaml"
)


class StatusWriter:
    """Writes statuses, and counts and logs those that fail."""

    def __init__(
        self, client: KubeClient, *, settings: PublishingSettings, metrics: RecommenderMetrics
    ) -> None:
        self._client = client
        self._settings = settings
        self._errors = metrics.object_errors
        self._failures = WriteFailures("status", metrics)
        self._has_subresource = True  # according to the last response

    async def write(
        self, decisions: AsyncGenerator[StatusDecision, None], written: WriteResult
    ) -> None:
        """Write the status of each decision as soon as it is made.

        After an interval the other decisions are still made but not written. The next cycle
        decides again.
        """

        async def write_one(decision: StatusDecision) -> None:
            with self._errors.around("write", VPAS.kind, *vpa_key(decision.vpa)):
                answer = await self._written(decision)
                if answer is not None and decision.wanted is not None:
                    log_target(decision.vpa, decision.wanted)
                    written(decision, answer)

        seconds = self._settings.interval.total_seconds()
        async with aclosing(decisions):
            await run_concurrently(
                decisions, write_one, workers=self._settings.workers, seconds=seconds
            )
            async for _ in decisions:
                pass
        self._failures.report()

    async def _written(self, decision: StatusDecision) -> VerticalPodAutoscaler | None:
        """Write one status; return None if that failed, or if the VPA is gone."""
        if decision.wanted is None:
            return None
        try:
            return await self.replace_status(decision.vpa, decision.wanted)
        except (KubeError, DecodeError) as error:
            key = vpa_key(decision.vpa)
            self._failures.add(error, vpa=f"{key.namespace}/{key.name}")
            return None

    async def replace_status(
        self, vpa: VerticalPodAutoscaler, wanted: VpaStatus
    ) -> VerticalPodAutoscaler | None:
        """Replace the status of this version of ``vpa`` (X120); return None if the VPA is gone.

        Raises:
            ConflictError: the VPA has changed since; decide again.
            NoSubresourceError: VPAs have no status subresource (X121).
            KubeError: the API server refused, or didn't answer.
            DecodeError: the response is not a VPA.
        """
        meta = vpa.metadata
        patch = (add("/metadata/resourceVersion", meta.resource_version), add("/status", wanted))
        try:
            written = await self._client.patch(
                VPAS,
                meta.name,
                patch,
                patch_type=PatchType.JSON,
                namespace=meta.namespace,
                subresource="status",
            )
        except NotFoundError as error:
            if error.name != meta.name:
                raise  # VPAs aren't served: the API server starts, or has no definition
            if await self._is_gone(vpa):
                return None
            self._has_subresource = False
            raise NoSubresourceError(_NO_SUBRESOURCE, reason="NoStatusSubresource") from error
        self._has_subresource = True
        return written

    async def _is_gone(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return True if a write failed with 404 because the VPA is gone.

        The response is the same if the subresource is missing, so read the VPA. If the subresource
        is known to be missing, return False without reading until a write succeeds.
        """
        if not self._has_subresource:
            return False
        meta = vpa.metadata
        try:
            there = await self._client.get(VPAS, meta.name, namespace=meta.namespace)
        except NotFoundError:
            return True
        return there.metadata.uid != meta.uid
