"""Reads the Secrets and ConfigMaps of a pod's volumes and variables."""

import enum
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import NotFoundError
from common.kube.client import KubeClient
from common.kube.endpoints import SECRETS, Endpoint

CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])


@dataclass(frozen=True, slots=True)
class Data:
    """The data of an object by key."""

    values: Mapping[str, bytes]  # for variables
    files: Mapping[str, bytes]  # for volumes: the values, and a ConfigMap's binaryData


class SourceKind(enum.StrEnum):
    """The kinds of object that hold data."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - a kind


_ENDPOINTS = {SourceKind.CONFIG_MAP: CONFIG_MAPS, SourceKind.SECRET: SECRETS}


@dataclass(frozen=True, slots=True)
class Reference:
    """An object in the pod's namespace."""

    kind: SourceKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The objects of one namespace."""

    client: KubeClient
    namespace: str

    async def find(self, reference: Reference) -> Data | None:
        """Return the data of an object; None if it doesn't exist.

        Raises:
            KubeError: the API server failed, or refused.
        """
        endpoint = _ENDPOINTS[reference.kind]
        try:
            found = await self.client.get(endpoint, reference.name, namespace=self.namespace)
        except NotFoundError:
            return None
        if reference.kind is SourceKind.SECRET:
            data = _decoded(found.get("data"))
            return Data(data, data)
        values = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        return Data(values, values | _decoded(found.get("binaryData")))


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: b64decode(text) for key, text in (data or {}).items()}
