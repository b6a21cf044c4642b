"""An admission request, after authentication and before the object is stored."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.objects.resources import Resource


class Operation(enum.StrEnum):
    """The operation of a request, as in an AdmissionReview."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """The user of a request, in the shape of ``userInfo`` in an AdmissionReview."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the user without empty fields, as the API server sends it."""
        info: dict[str, Any] = {"username": self.username}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


@dataclass(slots=True, kw_only=True)
class AdmissionRequest:
    """One write before it is stored.

    ``object`` is the object to store, None for DELETE; ``old_object`` is the stored one, None for
    CREATE. ``name`` is empty before a name is generated. ``options`` is the CreateOptions,
    UpdateOptions or DeleteOptions object. ``warnings`` collects the ``Warning`` headers of the
    response.
    """

    operation: Operation
    resource: Resource
    user: UserInfo
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    options: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def is_pod_resize(self) -> bool:
        return (
            self.resource.group_resource == "pods"
            and self.subresource == "resize"
            and self.operation is Operation.UPDATE
        )

    @property
    def is_pod_create(self) -> bool:
        return (
            self.resource.group_resource == "pods"
            and not self.subresource
            and self.operation is Operation.CREATE
        )
