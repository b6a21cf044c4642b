"""Statuses of VPAs in the API server: written on the version that they were decided on.

Source: recommender.md section 10.
"""

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.errors import NoSubresourceError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import VPAS
from common.patches import add

_NO_SUBRESOURCE = (
    "the CustomResourceDefinition verticalpodautoscalers.autoscaling.k8s.io has no status "
    "subresource; apply deploy/crd/verticalpodautoscalers.yaml"
)


class StatusStore:
    """Writes statuses of VPAs."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._has_subresource = True  # by the last answers

    async def write(
        self, vpa: VerticalPodAutoscaler, wanted: VpaStatus
    ) -> VerticalPodAutoscaler | None:
        """Replace the status of the very version ``vpa`` (X120); None if the VPA is gone.

        Raises:
            ConflictError: the VPA has changed since; decide again.
            NoSubresourceError: VPAs have no status subresource (X121).
            KubeError: the API server refused, or didn't answer.
            DecodeError: its answer is no VPA.
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
                raise  # no VPAs are served: the API server starts, or the definition is gone
            if await self._is_gone(vpa):
                return None
            self._has_subresource = False
            raise NoSubresourceError(_NO_SUBRESOURCE, reason="NoStatusSubresource") from error
        self._has_subresource = True
        return written

    async def _is_gone(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return whether a write was answered with 404 because the VPA is gone.

        The answer is the same where the subresource is missing, so the API server is asked for the
        VPA. Once the subresource is known to be missing, it isn't asked until a write succeeds.
        """
        if not self._has_subresource:
            return False
        meta = vpa.metadata
        try:
            there = await self._client.get(VPAS, meta.name, namespace=meta.namespace)
        except NotFoundError:
            return True
        return there.metadata.uid != meta.uid
