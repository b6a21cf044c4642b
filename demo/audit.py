"""The calls that the cluster recorded in its audit log."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from common.kube.client import KubeClient
from controlplane.audit import AuditFile


class Call(Protocol):
    """One answered call of a resource."""

    @property
    def subresource(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def code(self) -> int:
        """Return the HTTP status of the answer."""
        ...


PodCalls: TypeAlias = Callable[[], Coroutine[Any, Any, Sequence[Call]]]
"""Returns all recorded calls on pods of the demo's namespace."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    subresource: str = ""
    name: str = ""
    code: int = 0


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[_Entry, ...] = ()


def of_sandbox(client: KubeClient, namespace: str) -> PodCalls:
    """Return a function that reads the sandbox's audit endpoint."""

    async def calls() -> Sequence[Call]:
        query = {"namespace": namespace, "resource": "pods"}
        answer = await client.request("GET", "/sandbox/audit", query=query)
        return msgspec.json.decode(answer, type=_Page).items

    return calls


def of_control_plane(log: Path, namespace: str) -> PodCalls:
    """Return a function that reads the audit log of a real API server."""
    file = AuditFile(log)

    async def calls() -> Sequence[Call]:
        return file.find({"namespace": namespace, "resource": "pods"})

    return calls
