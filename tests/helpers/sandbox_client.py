"""A client of the sandbox's API server without a network: it calls the ASGI application."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import asgi
from definitions import all_definitions
from fixed_clock import FixedClock
from sandbox.apiserver.auth import ADMIN
from sandbox.apiserver.server import ApiServer
from sandbox.objects.store import Store
from sandbox.version import KubernetesVersion

NOW = datetime(2026, 11, 21, 8, 25, tzinfo=UTC)
CRDS = Path(__file__).parents[2] / "deploy" / "crd"
VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/golden/verticalpodautoscalers"


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def lines(self) -> list[Any]:
        """Return the events of a watch."""
        return [msgspec.json.decode(line) for line in self.body.splitlines()]


class Api:
    """An API server, and its administrator's client."""

    def __init__(self, minor: int = 36, *, history: int = 4000, **options: Any) -> None:
        self.clock = FixedClock(NOW)
        self.store = Store(history=history)
        self.server = ApiServer(
            self.store, KubernetesVersion(minor), self.clock, rng=Random(1), **options
        )
        self.token = self.server.authenticator.issue(ADMIN)

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request. A body other than bytes is sent as JSON; ``_`` in names means ``-``."""
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "user-agent": "test/1.0",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        pieces = asgi.pieces(b"" if body is None else encoded)
        response = await asgi.call(self.server, asgi.scope_of(method, path, sent), pieces)
        merged: dict[str, str] = {}
        for name, value in response.headers:
            merged[name] = f"{merged[name]}\n{value}" if name in merged else value
        return Answer(status=response.status, headers=merged, body=response.body)

    async def make(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object that has to be accepted; return it."""
        answer = await self("POST", path, body)
        assert answer.status == 201, answer.body
        return answer.json

    async def read(self, path: str) -> Any:
        """Return an object that has to exist."""
        answer = await self("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    async def merge(self, path: str, patch: Any) -> Answer:
        return await self("PATCH", path, patch, content_type="application/merge-patch+json")

    async def namespace(self, name: str) -> None:
        await self.make("/api/v1/namespaces", {"metadata": {"name": name}})

    async def apply_definitions(self) -> None:
        """Create the CustomResourceDefinitions of ``deploy/crd``."""
        for definition in all_definitions():
            await self.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)


@asynccontextmanager
async def api_server(minor: int = 36, **options: Any) -> AsyncIterator[Api]:
    """Run an API server with the namespace ``golden``."""
    api = Api(minor, **options)
    await api.namespace("golden")
    try:
        yield api
    finally:
        await api.server.close()


def pod(name: str = "web", *, node: str = "", **spec: Any) -> dict[str, Any]:
    """Return the body of a pod with one container."""
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    given = {"nodeName": node} if node else {}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **given, **spec}}


def vpa(name: str = "web") -> dict[str, Any]:
    """Return the body of a VerticalPodAutoscaler."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"targetRef": {"kind": "Deployment", "name": name}},
    }
