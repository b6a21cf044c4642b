"""The four servers: their start order and their end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from common.errors import KubeError, VpaError
from common.kube.client import KubeClient
from common.kube.connection import Connection
from controlplane import commands
from controlplane.binaries import Binaries
from controlplane.commands import Ports
from controlplane.files import Files
from controlplane.processes import ProcessUsage, Server

READY_WITHIN = 60.0  # seconds; it usually takes three
_POLL_INTERVAL = 0.05  # seconds
_TRY = 5.0  # seconds, the timeout of one request
_FIRST_KEY = "AA=="  # a zero byte, base64


class NotReadyError(VpaError):
    """A server runs but didn't become ready."""


@dataclass(frozen=True, slots=True)
class Servers:
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""

    ports: Ports
    etcd: Server
    api: Server
    controllers: Server
    scheduler: Server

    @classmethod
    def of(
        cls, binaries: Binaries, files: Files, ports: Ports, *, dial_endpoints: bool = False
    ) -> "Servers":
        """Return the servers, not started."""

        def server(name: str, command: Sequence[str]) -> Server:
            return Server(name, command, files.log(name))

        api = commands.api_server(binaries, files, ports, dial_endpoints=dial_endpoints)

        return cls(
            ports,
            server("etcd", commands.etcd(binaries, files, ports)),
            server("kube-apiserver", api),
            server("kube-controller-manager", commands.controller_manager(binaries, files, ports)),
            server("kube-scheduler", commands.scheduler(binaries, files, ports)),
        )

    @property
    def all(self) -> tuple[Server, ...]:
        """All servers in their start order."""
        return (self.etcd, self.api, self.controllers, self.scheduler)

    @contextlib.asynccontextmanager
    async def running(self, admin: Connection) -> AsyncIterator[None]:
        """Run all servers while the context is entered; the API server is ready on entry.

        The controllers start after it, because they end at once without RBAC's default roles. At
        the end all are killed: their data is temporary, and their graceful end waits for every open
        watch.

        Raises:
            ProcessEndedError: one ended; the message holds the end of its log.
            NotReadyError: the API server didn't become ready.
        """
        try:
            await self.etcd.start()
            await self.start_api(admin)
            await self.controllers.start()
            await self.scheduler.start()
            yield
        finally:
            for server in reversed(self.all):
                server.end()  # all of them, even if waiting for one is interrupted
            for server in self.all:
                await server.kill()

    async def start_api(self, admin: Connection) -> None:
        """Start the API server and return when it is ready."""
        await self.api.start()
        try:
            async with asyncio.timeout(READY_WITHIN), _client(admin) as client:
                while not await self._ready(client):
                    for server in (self.etcd, self.api):
                        server.check()
                    await asyncio.sleep(_POLL_INTERVAL)
        except TimeoutError as error:
            raise NotReadyError(
                f"kube-apiserver was not ready after {READY_WITHIN:.0f} s"
            ) from error

    async def _ready(self, client: KubeClient) -> bool:
        """Return True if the API server is ready.

        Its port is dialled first, because the client would log a warning while it isn't open.
        """
        try:
            _, writer = await asyncio.open_connection(commands.HOST, self.ports.api_server)
        except OSError:
            return False
        writer.close()
        try:
            answer = await client.request("GET", "/readyz", retry=False, seconds=_TRY)
        except KubeError:
            return False
        return answer == b"ok"

    async def compact(self) -> None:
        """Drop all revisions of etcd but the present one, through its JSON gateway."""
        async with _client(Connection(self.ports.etcd_url)) as client:
            body = {"key": _FIRST_KEY, "count_only": True}
            answer = await client.request("POST", "/v3/kv/range", body=body)
            revision = msgspec.json.decode(answer)["header"]["revision"]
            body = {"revision": revision, "physical": True}
            await client.request("POST", "/v3/kv/compaction", body=body)

    def usage(self) -> Mapping[str, ProcessUsage]:
        """Return the usage of each server, by its name."""
        return {server.name: server.usage() for server in self.all}


def _client(connection: Connection) -> KubeClient:
    return KubeClient(connection, user_agent="controlplane", qps=0, burst=0)
