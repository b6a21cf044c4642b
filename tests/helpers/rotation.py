"""Replicas of the webhook under continuous calls while their certificates are renewed.

Only the kubelet is simulated: the API server is a sandbox's, admission runs as processes of the
operating system, ``certs`` has the permissions of its account. Callers behave like API servers:
they trust only the CA bundle of the webhook configuration, keep connections, and open new ones
when the bundle has changed and at intervals.
"""

import asyncio
import base64
import itertools
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from certs import authority
from common.kube import ca_bundle
from common.kube.client import KubeClient
from common.kube.endpoints import SECRETS
from component import LOOPBACK, Process, start_process
from controlplane.containers.folders import File, write_volume
from demo.processes import free_port
from fake_api import TIMEOUT
from process_harness import World
from webhook_client import Connection
from webhook_harness import pod_request

SECRET, NAMESPACE = "vpa-tls-certs", "kube-system"
_EMPTY_SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": SECRET, "namespace": NAMESPACE},
    "type": "Opaque",
}  # as in the manifests
_MOUNTED = ("caCert.pem", "serverCert.pem", "serverKey.pem")
_SYNC_SECONDS = 0.05  # polling interval of the kubelet and of the API server's informer
_CALLS_OF_A_CONNECTION = 50
_CALL_TIMEOUT = 10.0  # seconds; as of an API server
_REVIEW = json.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": pod_request({"metadata": {"name": "web"}, "spec": {"containers": []}}),
    }
).encode()


class Volume:
    """The Secret as a volume of one pod, which a kubelet updates with a delay."""

    def __init__(self, client: KubeClient, folder: Path, *, lag: float) -> None:
        self.folder = folder
        self._client = client
        self._lag = lag  # seconds
        self.flowing = asyncio.Event()  # cleared: no updates
        self.flowing.set()

    async def sync(self) -> None:
        """Write the present content of the Secret."""
        secret = await self._client.get(SECRETS, SECRET, namespace=NAMESPACE)
        files = {name: File(base64.b64decode(secret["data"][name])) for name in _MOUNTED}
        write_volume(self.folder, files)

    async def run(self) -> None:
        """Follow the Secret; never return."""
        seen = await self._version()
        while True:
            await asyncio.sleep(_SYNC_SECONDS)
            if (now := await self._version()) != seen:
                seen = now
                await asyncio.sleep(self._lag)
                await self.flowing.wait()
                await self.sync()

    async def _version(self) -> str:
        secret = await self._client.get(SECRETS, SECRET, namespace=NAMESPACE)
        return str(secret["metadata"]["resourceVersion"])

    def authority(self) -> bytes:
        return (self.folder / "caCert.pem").read_bytes()


@dataclass
class Replica:
    """One pod of the webhook."""

    port: int
    volume: Volume
    process: Process
    serving: bool = True  # False: not an endpoint of the Service

    async def shown(self) -> bytes:
        """Return the certificate of a new handshake as PEM."""
        place = (LOOPBACK, self.port)
        pem = await asyncio.to_thread(ssl.get_server_certificate, place, timeout=_CALL_TIMEOUT)
        return pem.encode()


@dataclass
class Site:
    """A webhook with its replicas, and the CA bundle that API servers trust."""

    world: World
    kubeconfig: Path
    replicas: list[Replica] = field(default_factory=list)
    trusted: bytes = b""
    calls: int = 0
    connections: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failures: Counter[str] = field(default_factory=Counter)

    async def certs(self, *, settle: str, overlap: str, renew: bool = False) -> None:
        """Run ``certs`` once."""
        flags = (f"--kubeconfig={self.kubeconfig}", f"--host={LOOPBACK}", "--v=0")
        steps = (f"--settle={settle}", f"--overlap={overlap}", f"--renew={str(renew).lower()}")
        process = await start_process(["certs", *flags, *steps])
        _, output = await process.communicate()
        assert (process.returncode, output) == (0, b"")

    async def start(self, *, lag: float) -> Replica:
        """Start one more replica. All have the address of the first in their flags."""
        volume = Volume(self.world.client, self.world.folder / f"v{len(self.replicas)}", lag=lag)
        await volume.sync()
        port = free_port()
        called = self.replicas[0].port if self.replicas else port
        process = await self._process(volume, port, called)
        self.replicas.append(Replica(port, volume, process))
        return self.replicas[-1]

    async def restart(self, replica: Replica) -> None:
        """Kill a container, and start it again with the content of its volume, even if old."""
        replica.serving = False
        await replica.process.kill()
        replica.process = await self._process(replica.volume, replica.port, self.replicas[0].port)
        replica.serving = True

    async def _process(self, volume: Volume, port: int, called: int) -> Process:
        process = await self.world.start(
            "admission",
            "--reload-cert",
            f"--port={port}",
            f"--webhook-port={called}",
            f"--client-ca-file={volume.folder / 'caCert.pem'}",
            f"--tls-cert-file={volume.folder / 'serverCert.pem'}",
            f"--tls-private-key={volume.folder / 'serverKey.pem'}",
        )
        await process.logged("webhook registered")
        await self.world.ready(process)
        return process

    async def follow(self) -> None:
        """Trust the CA bundle of the webhook configuration; never return."""
        while True:
            self.trusted = await ca_bundle.read(self.world.client)
            await asyncio.sleep(_SYNC_SECONDS)

    async def call(self, number: int, *, rate: float) -> None:
        """Send reviews at ``rate`` per second until the end, without retries."""
        loop = asyncio.get_running_loop()
        due = loop.time() + number / 1000
        turns = itertools.count(number)
        while not self.over.is_set():
            serving = [replica for replica in self.replicas if replica.serving]
            replica = serving[next(turns) % len(serving)]
            trusted = self.trusted
            self.calls += 1
            self.connections += 1
            try:
                async with Connection.to(replica.port, trusted) as connection:
                    for _ in range(_CALLS_OF_A_CONNECTION):
                        async with asyncio.timeout(_CALL_TIMEOUT):
                            status, body = await connection.send(_REVIEW)
                        if status != 200 or not json.loads(body)["response"]["allowed"]:
                            self.failures[f"{status} {body!r}"] += 1
                        due += 1 / rate
                        await asyncio.sleep(max(0.0, due - loop.time()))
                        if self.over.is_set() or not replica.serving or trusted != self.trusted:
                            break
                        self.calls += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                if replica.serving:
                    self.failures[f"{type(error).__name__}: {error}"] += 1
                await asyncio.sleep(1 / rate)
                due = loop.time()

    # The waits that --settle replaces in production

    async def everybody_trusts(self, authorities: int) -> bytes:
        """Wait until all replicas and callers have this many authorities; return the CA file."""
        await self.world.until(
            lambda: (
                count_authorities(self.trusted) == authorities
                and all(each.volume.authority() == self.trusted for each in self.replicas)
            )
        )
        return self.trusted

    async def everybody_shows_another(self, certificate: bytes) -> None:
        """Wait until no replica uses this certificate for a new connection."""
        async with asyncio.timeout(TIMEOUT):
            for replica in self.replicas:
                while await replica.shown() == certificate:  # noqa: ASYNC110 - it is not ours
                    await asyncio.sleep(_SYNC_SECONDS)

    async def rotate(self) -> None:
        """Replace authority and serving pair in three runs of ``certs``."""
        old = self.trusted
        await self.certs(renew=True, settle="1h", overlap="1h")
        assert (await self.everybody_trusts(2)).endswith(old)
        await self.finish_rotation()

    async def finish_rotation(self) -> None:
        """Sign with the new authority, which all trust, and drop the old one."""
        before, both = await self.replicas[0].shown(), self.trusted
        await self.certs(settle="0s", overlap="1h")
        await self.everybody_shows_another(before)
        await self.certs(settle="0s", overlap="0s")
        assert both.startswith(await self.everybody_trusts(1))


def count_authorities(pem: bytes) -> int:
    """Return the number of certificates in a CA file."""
    return len(authority.read_certificates(pem)) if pem else 0


@asynccontextmanager
async def site(world: World) -> AsyncIterator[Site]:
    """Yield a site without replicas and with new certificates; end its processes with it."""
    token = world.cluster.api.authenticator.issue("system:serviceaccount:kube-system:vpa-certs")
    kubeconfig = world.folder / "certs.kubeconfig"
    kubeconfig.write_text(world.cluster.kubeconfig_for(token))
    # The account may change the Secret of the manifests, but not create one.
    await world.client.create(SECRETS, _EMPTY_SECRET, namespace=NAMESPACE)
    made = Site(world, kubeconfig)
    await made.certs(settle="1h", overlap="1h")
    yield made


@asynccontextmanager
async def calls(site: Site, *, callers: int, rate: float) -> AsyncIterator[None]:
    """Send reviews at ``rate`` per second in all, and update the volumes, until the block ends."""
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(site.follow())]
        following += [group.create_task(replica.volume.run()) for replica in site.replicas]
        await site.world.until(lambda: bool(site.trusted))
        for number in range(callers):
            group.create_task(site.call(number, rate=rate / callers))
        try:
            yield
        finally:
            site.over.set()
            for task in following:
                task.cancel()
