"""Containers that really run, on the sandbox, in real time."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import PODS, SECRETS
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario

PODS_AS_DICTS = PODS.as_dicts()

# Says what it was given, and serves its folder; a POST ends it.
SERVER = """
import http.server, os, sys
print("hello", *sys.argv[1:], os.environ["WHO"], flush=True)
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_POST(self): os._exit(3)
http.server.HTTPServer((os.environ["ADDRESS"], 8000), Handler).serve_forever()
"""
SCENARIO = {
    "namespaces": ["shop"],
    "timing": {"start-delay": "50ms", "restart-delay": "50ms"},
    "images": {"web": ["{python}", "-c", SERVER, "{namespace}", "{root}"]},
}
POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "node-0",
        "terminationGracePeriodSeconds": 5,
        "containers": [
            {
                "name": "app",
                "image": "web:2",
                "args": ["--from=$(WHO)", "$(MISSING)"],
                "env": [
                    {"name": "WHO", "value": "world"},
                    {
                        "name": "ADDRESS",
                        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                    },
                ],
                "ports": [{"name": "http", "containerPort": 8000}],
                "readinessProbe": {"periodSeconds": 1, "httpGet": {"port": "http", "path": "/"}},
                "volumeMounts": [{"name": "key", "mountPath": "/etc/key"}],
                "resources": {"requests": {"cpu": "100m"}},
            }
        ],
        "volumes": [{"name": "key", "secret": {"secretName": "key"}}],
    },
}
SECRET = {"metadata": {"name": "key"}, "stringData": {"word": "old"}}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process does, which sets no event here."""
    async with asyncio.timeout(20):
        while not await holds():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)


async def pod_when(client: KubeClient, condition: Callable[[dict[str, Any]], bool]) -> Any:
    """The pod, once the condition holds."""
    async with asyncio.timeout(20):
        while True:
            pod = await client.get(PODS_AS_DICTS, "web", namespace="shop")
            if condition(pod):
                return pod
            await asyncio.sleep(0.05)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def container(pod: dict[str, Any]) -> Any:
    return pod["status"]["containerStatuses"][0]


async def asked(cluster: Cluster, path: str) -> str:
    """What the kubelets' endpoint answers."""
    url = f"https://127.0.0.1:{cluster.kubelets.port}{path}"
    trusted = ssl.create_default_context(cadata=cluster.serving.authority)
    async with aiohttp.ClientSession() as session, session.get(url, ssl=trusted) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


async def served(ip: str, path: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{ip}:8000{path}") as got:
        return await got.text()


async def listens(ip: str) -> bool:
    try:
        _, writer = await asyncio.open_connection(ip, 8000)
    except OSError:
        return False
    writer.close()
    return True


async def is_silent(ip: str) -> bool:
    return not await listens(ip)


async def serves(ip: str, text: str) -> bool:
    return await served(ip, "/etc/key/word") == text


async def test_a_process_waits_for_its_secret_gets_ready_restarts_and_ends_with_its_pod(
    tmp_path: Path,
) -> None:
    scenario = parse_scenario(json.dumps(SCENARIO))
    async with (
        running_cluster(scenario, folder=tmp_path) as cluster,
        cluster.client("test") as client,
    ):
        await client.create(PODS_AS_DICTS, POD, namespace="shop")
        await client.create(SECRETS, SECRET, namespace="shop")
        pod = await pod_when(client, is_ready)
        ip = pod["status"]["podIP"]
        assert ip.startswith("127.")
        assert (await served(ip, "/etc/key/word")) == "old"

        log = "/containerLogs/shop/web/app"
        root = f"{tmp_path}/pods/{pod['metadata']['uid']}/containers/app/root"
        first = f"hello shop {root} --from=world $(MISSING) world\n"
        assert (await asked(cluster, log)).startswith(first)
        assert "container_cpu_usage_seconds_total" in await asked(cluster, "/metrics/resource")

        path = PODS.object("web", "shop", "log")
        told = await client.request("GET", path, query={"tailLines": 1, "timestamps": "true"})
        assert told.count(b"\n") == 1
        assert told.startswith(b"20")

        await client.patch(
            SECRETS,
            "key",
            {"stringData": {"word": "new"}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await until(lambda: serves(ip, "new"))

        async with aiohttp.ClientSession() as session:
            with contextlib.suppress(aiohttp.ClientError):  # it has no time left to answer
                await session.post(f"http://{ip}:8000/")
        pod = await pod_when(client, lambda one: is_ready(one) and container(one)["restartCount"])
        ended = container(pod)["lastState"]["terminated"]
        assert (ended["exitCode"], container(pod)["restartCount"]) == (3, 1)
        assert (await asked(cluster, f"{log}?previous=true")).startswith("hello shop")

        await client.delete(PODS, "web", namespace="shop")
        await until(lambda: is_silent(ip))


async def test_processes_end_with_the_cluster(tmp_path: Path) -> None:
    scenario = parse_scenario(json.dumps(SCENARIO))
    async with (
        running_cluster(scenario, folder=tmp_path) as cluster,
        cluster.client("test") as client,
    ):
        await client.create(SECRETS, SECRET, namespace="shop")
        await client.create(PODS_AS_DICTS, POD, namespace="shop")
        ip = (await pod_when(client, is_ready))["status"]["podIP"]
        assert await listens(ip)
    assert not await listens(ip)
