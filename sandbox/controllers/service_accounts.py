"""Every namespace has the service account ``default``, and the authority of the API server."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from common.errors import ConflictError, NotFoundError
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient
from common.kube.endpoints import NAMESPACES, Endpoint
from sandbox.controllers.loop import Loop

Json = dict[str, Any]

SERVICE_ACCOUNTS = Endpoint("", "v1", "serviceaccounts", "ServiceAccount", dict[str, Any])
CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])

_ACCOUNT = "default"
_AUTHORITY = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


class ServiceAccounts:
    """Makes both where they are missing; ``run`` is endless.

    Source: k8s.io/kubernetes pkg/controller/serviceaccount/serviceaccounts_controller.go and
    pkg/controller/certificates/rootcacertpublisher/publisher.go.
    """

    def __init__(self, client: KubeClient, *, authority: str) -> None:
        self._client = client
        self._authority = authority  # PEM
        self._loop = Loop("ServiceAccount", self._reconcile)
        self._namespaces: Cache[Json] = Cache(
            client, NAMESPACES.as_dicts(), on_change=self._namespace_changed
        )
        self._dependents: tuple[Cache[Json], ...] = tuple(
            Cache(
                client,
                endpoint,
                field_selector=f"metadata.name={name}",
                on_change=self._dependent_changed,
            )
            for endpoint, name in ((SERVICE_ACCOUNTS, _ACCOUNT), (CONFIG_MAPS, _AUTHORITY))
        )

    async def run(self) -> None:
        """Follow the namespaces, for ever."""
        async with asyncio.TaskGroup() as group:
            for cache in (self._namespaces, *self._dependents):
                group.create_task(cache.run())
            group.create_task(self._loop.run())

    async def ensure(self, namespaces: Iterable[str]) -> None:
        """Make what is missing in these namespaces now, before anybody needs it."""
        for name in namespaces:
            await self._make(name)

    async def _reconcile(self, _: str, name: str) -> float | None:
        namespace = self._namespaces.get("", name)
        if namespace is not None and not namespace["metadata"].get("deletionTimestamp"):
            await self._make(name)
        return None

    async def _make(self, namespace: str) -> None:
        metadata: Json = {"name": _ACCOUNT}
        bodies: tuple[tuple[Endpoint[Json], Json], ...] = (
            (SERVICE_ACCOUNTS, {"metadata": metadata}),
            (
                CONFIG_MAPS,
                {
                    "metadata": {
                        "name": _AUTHORITY,
                        "annotations": {"kubernetes.io/description": _DESCRIPTION},
                    },
                    "data": {"ca.crt": self._authority},
                },
            ),
        )
        for endpoint, body in bodies:
            with contextlib.suppress(ConflictError, NotFoundError):  # is there; or has gone
                await self._client.create(endpoint, body, namespace=namespace)

    def _namespace_changed(self, change: Change[Json]) -> None:
        if change.new is not None and change.old is None:
            self._loop.add("", change.new["metadata"]["name"])

    def _dependent_changed(self, change: Change[Json]) -> None:
        if change.old is not None and change.new is None:
            self._loop.add("", change.old["metadata"]["namespace"])
