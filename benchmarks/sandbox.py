"""Benchmark of the sandbox's API server: ``python -P benchmarks/sandbox.py``.

The server is a separate process on uvloop; this process is the client, over TLS on loopback. Pods
are created by POST and a status PATCH. Each has 5 kB of JSON or more, as on a real API server:
managedFields, env, volumes, conditions, two containers.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.load_world import Watched
from common.kube.client import KubeClient
from common.kube.config import load
from common.kube.endpoints import PODS
from common.runtime.clock import SystemClock
from sandbox.apiserver.memory import relax_garbage_collection
from sandbox.apiserver.server import ApiServer, serve
from sandbox.objects.store import Store
from sandbox.version import KubernetesVersion

CONNECTIONS = 16
NAMESPACES = 20
BARS = {"start": 1.0, "list": 1.0, "patches": 2000.0, "rss": 300.0, "bytes": 5000.0}


def container(name: str) -> dict[str, Any]:
    """Return a container with twenty environment variables, mounts and a probe."""
    return {
        "name": name,
        "image": f"registry.example/shop/{name}:1.27.3",
        "env": [
            {"name": f"SETTING_{index:02}", "value": f"value-of-setting-{index:02}-of-{name}"}
            for index in range(20)
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": f"/etc/{name}", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    }


def pod(index: int) -> dict[str, Any]:
    """Return a pod as a Deployment creates it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-6c9f8d7b5d-{index:05}",
            "labels": {"app": f"web-{index % 100}", "pod-template-hash": "6c9f8d7b5d"},
            "annotations": {"checksum/config": "c" * 64},
        },
        "spec": {
            "nodeName": f"node-{index % 100}",
            "containers": [container("app"), container("sidecar")],
            "volumes": [
                {"name": "config", "configMap": {"name": "web-config"}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    }


def status() -> dict[str, Any]:
    """Return the status that a kubelet reports for a running pod."""
    when = "2026-01-01T00:00:00Z"
    return {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "hostIP": "10.1.0.1",
        "startTime": when,
        "conditions": [
            {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": when}
            for type_ in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": name,
                "image": f"registry.example/shop/{name}:1.27.3",
                "imageID": f"registry.example/shop/{name}@sha256:{'0' * 64}",
                "containerID": f"containerd://{'1' * 64}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": when}},
                "lastState": {},
                "allocatedResources": {"cpu": "100m", "memory": "128Mi"},
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }
            for name in ("app", "sidecar")
        ],
    }


async def serve_here(kubeconfig: Path) -> None:
    """Run the server; write the kubeconfig when it accepts requests."""
    api = ApiServer(Store(), KubernetesVersion(), SystemClock())
    relax_garbage_collection()
    async with serve(api) as serving:
        partial = kubeconfig.with_suffix(".partial")
        partial.write_text(serving.kubeconfig)
        partial.rename(kubeconfig)
        await asyncio.Event().wait()


async def spread(count: int, call: Callable[[int], Awaitable[object]]) -> float:
    """Call with every index below ``count`` on all connections; return calls per second."""
    indexes = iter(range(count))

    async def worker() -> None:
        for index in indexes:
            await call(index)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(worker())
    return count / (time.perf_counter() - began)


def path_of(index: int) -> str:
    """Return the path of a pod."""
    return PODS.object(f"web-6c9f8d7b5d-{index:05}", f"team-{index % NAMESPACES}")


async def measure(kubeconfig: Path, pid: int, pods: int) -> dict[str, float]:
    """Create, list and patch pods."""
    figures: dict[str, float] = {"idle rss": Watched(pid).rss}
    connection = await load(str(kubeconfig))
    async with KubeClient(connection, user_agent="bench", qps=1e9, burst=1e9) as client:
        for index in range(NAMESPACES):
            namespace = msgspec.json.encode({"metadata": {"name": f"team-{index}"}})
            await client.request("POST", "/api/v1/namespaces", body=namespace)

        async def create(index: int) -> None:
            path = PODS.collection(f"team-{index % NAMESPACES}")
            await client.request("POST", path, body=msgspec.json.encode(pod(index)))

        running = msgspec.json.encode({"status": status()})

        async def report(index: int) -> None:
            await client.request(
                "PATCH",
                path_of(index) + "/status",
                body=running,
                content_type="application/strategic-merge-patch+json",
            )

        async def annotate(index: int) -> None:
            operation = {"op": "add", "path": "/metadata/annotations/seen", "value": str(index)}
            await client.request(
                "PATCH",
                path_of(index % pods),
                body=msgspec.json.encode([operation]),
                content_type="application/json-patch+json",
            )

        figures["creates"] = await spread(pods, create)
        figures["status patches"] = await spread(pods, report)
        figures["bytes"] = float(len(await client.request("GET", path_of(0))))
        figures["rss"] = Watched(pid).rss
        figures["list"] = min([await list_all(client, pods) for _ in range(3)])
        figures["patches"] = await spread(pods, annotate)
        figures["rss after"] = Watched(pid).rss
    return figures


async def list_all(client: KubeClient, pods: int) -> float:
    """Return the seconds to read all pods in pages of 500, without decoding the items."""
    began = time.perf_counter()
    token, seen = "", 0
    while True:
        query = {"limit": "500", **({"continue": token} if token else {})}
        page = msgspec.json.decode(
            await client.request("GET", PODS.collection(), query=query), type=Page
        )
        seen += len(page.items)
        token = page.metadata.get("continue", "")
        if not token:
            break
    if seen != pods:
        raise RuntimeError(f"listed {seen} of {pods} pods")
    return time.perf_counter() - began


class Page(msgspec.Struct):
    """A list with undecoded items."""

    metadata: dict[str, Any]
    items: list[msgspec.Raw]


def main() -> int:
    """Run the server, measure it, and return 0 if the figures are within their bars."""
    parser = argparse.ArgumentParser(description="Benchmark the sandbox's API server.")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        uvloop.run(serve_here(arguments.serve))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        began = time.perf_counter()
        server = subprocess.Popen([sys.executable, "-P", __file__, "--serve", str(kubeconfig)])
        try:
            while not kubeconfig.exists() and server.poll() is None:
                time.sleep(0.005)
            started = time.perf_counter() - began
            figures = uvloop.run(measure(kubeconfig, server.pid, arguments.pods))
        finally:
            server.terminate()
            server.wait()
    return show({"start": started, **figures}, arguments.pods)


def show(figures: dict[str, float], pods: int) -> int:
    """Print the figures and their bars; return 1 if one is missed."""
    lines = (
        ("start", "s", "start of the process to the first possible request", -1),
        ("bytes", "bytes", "JSON of one pod", 1),
        ("creates", "/s", f"POST of {pods} pods", 0),
        ("status patches", "/s", "strategic merge PATCH of /status", 0),
        ("list", "s", f"list of {pods} pods in pages of 500, best of three", -1),
        ("patches", "/s", "JSON PATCH of an annotation", 1),
        ("idle rss", "MiB", "memory of the server at start", 0),
        ("rss", "MiB", f"memory of the server with {pods} pods", -1),
        ("rss after", "MiB", "memory after the patches, with the history of changes", 0),
    )
    missed = 0
    for name, unit, text, sense in lines:
        value, bar = figures[name], BARS.get(name)
        verdict = ""
        if bar is not None:
            kept = value >= bar if sense > 0 else value < bar
            missed += not kept
            verdict = f"{'ok' if kept else 'MISSED'}, bar {bar:g}"
        print(f"{value:10.2f} {unit:5} {text:55} {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
