"""A pod that really runs, for tests in real time: a small web server that does as it is told."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from component import free_port
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario

PODS_AS_DICTS = PODS.as_dicts()
PATIENCE = 20  # seconds; a process has to start
PORT = free_port()  # clusters of one process give their pods the same addresses

# Says what it was given and serves its folder. A POST to /say/… prints, one to /exit ends it,
# and one to any other path turns that path from 200 to 503, or back; DOWN says what begins at 503.
# Who has asked for such a path is told by a GET of /asked.
SERVER = """
import http.server, json, os, sys
print("hello", *sys.argv[1:], os.environ.get("WHO", "nobody"), flush=True)
down, asked = set(os.environ.get("DOWN", "").split()), []
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_GET(self):
        if self.path == "/asked": return self.answer(200, json.dumps(asked))
        if not self.path.startswith("/live") and not self.path.startswith("/up"):
            return super().do_GET()
        asked.append(self.path)
        self.answer(503 if self.path in down else 200)
    def do_POST(self):
        if self.path == "/exit": os._exit(3)
        if self.path.startswith("/say/"): print(self.path[5:], flush=True)
        else: down.symmetric_difference_update([self.path])
        self.answer(200)
    def answer(self, code, text=""):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())
class Server(http.server.ThreadingHTTPServer): allow_reuse_address = True
Server((os.environ["ADDRESS"], int(os.environ["PORT"])), Handler).serve_forever()
"""
SCENARIO: dict[str, Any] = {
    "namespaces": ["shop"],
    "timing": {"start-delay": "50ms", "restart-delay": "50ms"},
    "images": {"web": ["{python}", "-c", SERVER, "{namespace}", "{root}"]},
}
ADDRESS = (
    {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "PORT", "value": str(PORT)},
)


def web(*, env: tuple[dict[str, Any], ...] = (), **container: Any) -> dict[str, Any]:
    """The pod ``web`` with one container, that is ready when its server answers."""
    readiness = {"periodSeconds": 1, "httpGet": {"port": PORT, "path": "/"}}
    app = {
        "name": "app",
        "image": "web:2",
        "readinessProbe": readiness,
        "env": [*ADDRESS, *env],
        **container,
    }
    return {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-0", "terminationGracePeriodSeconds": 5, "containers": [app]},
    }


@dataclass(frozen=True, slots=True)
class World:
    """A cluster on which the pod ``web`` runs."""

    cluster: Cluster
    client: KubeClient
    folder: Path

    async def create(self, pod: dict[str, Any]) -> None:
        """Create the pod."""
        await self.client.create(PODS_AS_DICTS, pod, namespace="shop")

    async def pod_when(self, condition: Callable[[dict[str, Any]], bool]) -> Any:
        """The pod, once the condition holds."""
        async with asyncio.timeout(PATIENCE):
            while True:
                pod = await self.client.get(PODS_AS_DICTS, "web", namespace="shop")
                if condition(pod):
                    return pod
                await asyncio.sleep(0.05)

    async def ready_ip(self) -> str:
        """The pod's address, once it is ready."""
        ip: str = (await self.pod_when(is_ready))["status"]["podIP"]
        return ip

    async def events(self) -> list[tuple[str, str]]:
        """Reason and message of the pod's Events, oldest first."""
        path = "/api/v1/namespaces/shop/events"
        found = json.loads(await self.client.request("GET", path))["items"]
        return [
            (one["reason"], one["message"])
            for one in sorted(found, key=lambda one: one["metadata"]["name"])
            if one["involvedObject"]["name"] == "web"
        ]

    async def kubelet(self, path: str) -> str:
        """What the kubelets' own endpoint answers."""
        url = f"https://127.0.0.1:{self.cluster.kubelets.port}{path}"
        trusted = ssl.create_default_context(cadata=self.cluster.serving.authority)
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trusted) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()


@contextlib.asynccontextmanager
async def world(folder: Path, **scenario: Any) -> AsyncIterator[World]:
    """A cluster in real time; what its containers leave on the disk is in ``folder``."""
    raw = json.dumps({**SCENARIO, **scenario})
    async with (
        running_cluster(parse_scenario(raw), folder=folder) as cluster,
        cluster.client("test") as client,
    ):
        yield World(cluster, client, folder)


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether the pod's condition Ready is True."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def container(pod: dict[str, Any]) -> Any:
    """The status of its container; empty as long as there is none."""
    return (pod.get("status", {}).get("containerStatuses") or [{}])[0]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process does, which sets no event here."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)


async def got(ip: str, path: str) -> str:
    """What the server says to a GET."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{ip}:{PORT}{path}") as answer,
    ):
        return await answer.text()


async def post(ip: str, path: str) -> None:
    """Tell the server what to do; that it breaks off is an answer, too."""
    async with aiohttp.ClientSession() as session:
        with contextlib.suppress(aiohttp.ClientError):
            await session.post(f"http://{ip}:{PORT}{path}")


async def listens(ip: str) -> bool:
    """Whether anybody listens on the server's port."""
    try:
        _, writer = await asyncio.open_connection(ip, PORT)
    except OSError:
        return False
    writer.close()
    return True
