"""Statuses of VPAs in the API server: written on the version that they were decided on.

Source: recommender.md section 10.
"""

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.errors import NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import VPAS
from common.patches import add


class StatusStore:
    """Writes statuses of VPAs."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def write(
        self, vpa: VerticalPodAutoscaler, wanted: VpaStatus
    ) -> VerticalPodAutoscaler | None:
        """Replace the status of the very version ``vpa`` (X120); None if the VPA is gone.

        Raises:
            ConflictError: the VPA has changed since; decide again.
            KubeError: the API server refused, or didn't answer.
            DecodeError: its answer is no VPA.
        """
        meta = vpa.metadata
        patch = (add("/metadata/resourceVersion", meta.resource_version), add("/status", wanted))
        try:
            return await self._client.patch(
                VPAS,
                meta.name,
                patch,
                patch_type=PatchType.JSON,
                namespace=meta.namespace,
                subresource="status",
            )
        except NotFoundError:
            return None
