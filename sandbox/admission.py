"""What stands between a valid request and the store: the admission chain.

Mutating admission runs on the decoded and defaulted object, then the object's fields are
validated (not here), then validating admission runs, in the order of a real API server
(k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go; kubernetes-resize.md 1.3).
"""

from typing import Any

from common.runtime.clock import Clock
from sandbox.admission_request import AdmissionRequest, Operation, UserInfo
from sandbox.store import Store
from sandbox.version import KubernetesVersion

__all__ = ["Admission", "AdmissionRequest", "Operation", "UserInfo"]


class Admission:
    """The admission chain of one API server."""

    def __init__(self, store: Store, version: KubernetesVersion, clock: Clock) -> None:
        self._store = store
        self._version = version
        self._clock = clock

    async def mutate(self, request: AdmissionRequest) -> dict[str, Any] | None:
        """Fill in defaults and ask the mutating webhooks; ``request.object`` is consumed.

        Returns the object to go on with, which also becomes ``request.object``. For a resize
        the fields that a resize may not touch are reset *after* this step.

        Raises:
            ApiError: a webhook refused, or could not be called and may not be missed.
        """
        return request.object

    async def validate(self, request: AdmissionRequest) -> None:
        """Ask the validating plugins and webhooks; quota is charged here, unless dry run.

        Raises:
            ApiError: 403 of a plugin, or whatever a webhook said.
        """

    async def close(self) -> None:
        """Close the connections to webhooks."""
