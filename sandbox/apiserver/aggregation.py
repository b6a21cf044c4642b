"""Aggregated APIs: requests of a group that another server answers are passed on to it.

An ``APIService`` with ``spec.service`` names the server, ``metrics.k8s.io`` being the case in
point. Source: k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go.
"""

import ssl
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from common.runtime.clock import Clock
from sandbox.admission.service_endpoints import ServiceError, service_address
from sandbox.apiserver.answers import Answer
from sandbox.apiserver.requests import Request
from sandbox.errors import unavailable
from sandbox.objects.resources import API_SERVICES
from sandbox.objects.store import Store, Stored
from sandbox.times import rfc3339

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_PASSED_ON = ("accept", "content-type", "user-agent")


class Aggregation:
    """Passes requests on, and keeps the condition ``Available`` of the APIServices true."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    def find(self, group: str, version: str) -> Stored | None:
        """The APIService that another server stands behind."""
        stored = self._store.get(API_SERVICES, "", f"{version}.{group}")
        if stored is None or not (stored.object(API_SERVICES).get("spec") or {}).get("service"):
            return None
        return stored

    def group_versions(self) -> dict[str, list[str]]:
        """The aggregated versions by group."""
        found: dict[str, list[str]] = {}
        for stored in self._store.list(API_SERVICES):
            spec = stored.object(API_SERVICES).get("spec") or {}
            if spec.get("service") and spec.get("group") and spec.get("version"):
                found.setdefault(spec["group"], []).append(spec["version"])
        return found

    async def forward(self, stored: Stored, request: Request) -> Answer:
        """Ask the server behind an APIService.

        Raises:
            ApiError: 503, it can't be reached.
        """
        spec = stored.object(API_SERVICES)["spec"]
        service = spec["service"]
        try:
            host, port = service_address(
                self._store, service["namespace"], service["name"], service.get("port", 443)
            )
            answer = await self._ask(f"https://{host}:{port}", spec, request)
        except (ServiceError, aiohttp.ClientError, OSError, TimeoutError) as error:
            self._set_available(stored.name, available=False, text=str(error))
            raise unavailable("service unavailable") from error
        self._set_available(stored.name, available=True, text="all checks passed")
        return answer

    async def _ask(self, base: str, spec: Mapping[str, Any], request: Request) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=False)
        service = spec["service"]
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers["X-Remote-User"] = request.user.username
        headers["X-Remote-Group"] = ",".join(request.user.groups)
        url = base + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        async with self._session.request(
            request.method,
            URL(url, encoded=True),
            data=request.body or None,
            headers=headers,
            ssl=self._context(spec),
            server_hostname=f"{service['name']}.{service['namespace']}.svc",
        ) as response:
            return Answer(
                status=response.status,
                body=await response.read(),
                content_type=response.headers.get("Content-Type", "application/json"),
            )

    def _context(self, spec: Mapping[str, Any]) -> ssl.SSLContext | bool:
        if spec.get("insecureSkipTLSVerify"):
            return False
        bundle = spec.get("caBundle") or ""
        if bundle not in self._contexts:
            data = b64decode(bundle).decode() if bundle else None
            self._contexts[bundle] = ssl.create_default_context(cadata=data)
        return self._contexts[bundle]

    def _set_available(self, name: str, *, available: bool, text: str) -> None:
        stored = self._store.get(API_SERVICES, "", name)
        if stored is None:
            return
        obj = stored.object(API_SERVICES)
        condition = {
            "type": "Available",
            "status": "True" if available else "False",
            "reason": "Passed" if available else "FailedDiscoveryCheck",
            "message": text,
        }
        before = (obj.get("status") or {}).get("conditions") or [{}]
        if before[0].get("status") == condition["status"]:
            return
        condition["lastTransitionTime"] = rfc3339(self._clock.now())
        obj["status"] = {"conditions": [condition]}
        self._store.update(API_SERVICES, obj)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
