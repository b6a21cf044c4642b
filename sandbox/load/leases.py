"""Leases, which work: who writes one from an old version is refused."""

from typing import Any

import msgspec

from sandbox.load.reads import not_found
from sandbox.load.requests import Asked, RefusedError


class Leases:
    """A tiny store."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}
        self._version = 0

    def get(self, asked: Asked) -> bytes:
        """Raises RefusedError if there is none."""
        found = self._kept.get((asked.namespace, asked.name))
        if found is None:
            raise not_found(asked)
        return msgspec.json.encode(found)

    def create(self, asked: Asked, body: bytes) -> bytes:
        """Raises RefusedError if there is one of that name."""
        lease = _decoded(body)
        name = str(lease["metadata"].get("name", ""))
        if (asked.namespace, name) in self._kept:
            raise RefusedError(409, f'leases "{name}" already exists')
        return self._keep((asked.namespace, name), lease)

    def replace(self, asked: Asked, body: bytes) -> bytes:
        """Raises RefusedError if there is none, or another version of it."""
        place = (asked.namespace, asked.name)
        if place not in self._kept:
            raise not_found(asked)
        lease = _decoded(body)
        version = lease["metadata"].get("resourceVersion")
        if version and version != self._kept[place]["metadata"]["resourceVersion"]:
            raise RefusedError(409, f'leases "{asked.name}": the object has been modified')
        return self._keep(place, lease)

    def _keep(self, place: tuple[str, str], lease: dict[str, Any]) -> bytes:
        self._version += 1
        namespace, name = place
        lease["metadata"] |= {
            "name": name,
            "namespace": namespace,
            "resourceVersion": str(self._version),
        }
        self._kept[place] = lease
        return msgspec.json.encode(lease)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        lease: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise RefusedError(400, f"the body is no JSON: {error}") from error
    if not isinstance(lease, dict) or not isinstance(lease.get("metadata"), dict):
        raise RefusedError(400, "the body is no Lease")
    return lease
