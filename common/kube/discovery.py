"""The versions and resources of an API group that the API server serves."""

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from common.api.base import Wire
from common.api.decoding import decode
from common.errors import DecodeError, NotFoundError
from common.kube.client import KubeClient
from common.kube.endpoints import group_path, version_path

T = TypeVar("T")

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {"alpha": 0, "beta": 1, None: 2}


class _GroupVersion(Wire, frozen=True, kw_only=True):
    version: str = ""


class _Group(Wire, frozen=True, kw_only=True):
    versions: tuple[_GroupVersion, ...] | None = None


class _Resource(Wire, frozen=True, kw_only=True):
    name: str = ""


class _Resources(Wire, frozen=True, kw_only=True):
    resources: tuple[_Resource, ...] | None = None


_groups = msgspec.json.Decoder(_Group)
_resources = msgspec.json.Decoder(_Resources)


async def served_versions(client: KubeClient, group: str) -> Sequence[str]:
    """Return the versions of a group, newest first; none if the group isn't served.

    Raises:
        KubeError: the API server refused or failed.
        DecodeError: the answer is malformed.
    """
    try:
        body = await client.request("GET", group_path(group))
    except NotFoundError:
        return ()
    found = _decoded(_groups, body)
    return sorted((each.version for each in found.versions or ()), key=version_rank, reverse=True)


async def served_resources(client: KubeClient, group: str, version: str) -> Sequence[str]:
    """Return the resources of a version, subresources included; none if it isn't served.

    Raises:
        KubeError: the API server refused or failed.
        DecodeError: the answer is malformed.
    """
    try:
        body = await client.request("GET", version_path(group, version))
    except NotFoundError:
        return ()
    return tuple(each.name for each in _decoded(_resources, body).resources or ())


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version: v1 is above v1beta2, v1beta1 and v1alpha1.

    Versions with other names are below all of them.

    Source: kubernetes.io/docs/tasks/extend-kubernetes/custom-resources, "Version priority".
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0, version)
    major, stability, minor = found.groups()
    return (_STABILITY[stability], int(major), int(minor or 0), version)


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decode(decoder, body)
    except msgspec.DecodeError as error:
        raise DecodeError(f"discovery: {error}") from error
