"""The calls of the components in the API server's audit log."""

from controlplane.cluster import ControlPlane
from sandbox.apiserver.audit import Entry

_ACCOUNTS = "system:serviceaccount:"
_PROGRAMS = ("vpa-", "recommender", "updater", "admission-controller")  # agents of both
_DATA = (
    "customresourcedefinitions",
    "mutatingwebhookconfigurations",
    "verticalpodautoscalercheckpoints",
    "verticalpodautoscalers",
)


class Calls:
    """The calls since this object was made."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._before = len(control_plane.audit())

    def all(self) -> list[Entry]:
        """Return the calls of everyone, oldest first."""
        return list(self._control_plane.audit()[self._before :])

    def of_components(self, *, verb: str, resource: str, subresource: str = "") -> list[Entry]:
        """Return the calls of the components of both, ours and the reference's."""
        return [
            entry
            for entry in self.all()
            if (entry.verb, entry.resource, entry.subresource) == (verb, resource, subresource)
            and entry.user.startswith(_ACCOUNTS)
            and entry.user_agent.startswith(_PROGRAMS)
        ]

    def denied(self) -> set[tuple[str, str, str]]:
        """Return the program, the verb and the resource of each call that RBAC denied."""
        return {
            (_agent(entry), entry.verb, f"{entry.resource}/{entry.subresource}".rstrip("/"))
            for entry in self.all()
            if entry.denied and entry.user_agent.startswith(_PROGRAMS)
        }

    def deleted(self) -> list[tuple[str, str]]:
        """Return the program and the resource of each deletion of what a migration keeps."""
        return [
            (_agent(entry), entry.resource)
            for entry in self.all()
            if entry.verb in ("delete", "deletecollection") and entry.resource in _DATA
        ]


def _agent(entry: Entry) -> str:
    return entry.user_agent.partition("/")[0]
