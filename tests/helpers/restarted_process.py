"""A recommender that can be restarted, with an API server that stores its writes.

Nothing waits: a test advances the clock, sets objects and usage, and runs a cycle.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import jsonpatch
from aiohttp import web

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube import endpoints
from common.kube.watch import WatchProtocol
from common.read_model.explanation import RecommendationExplanation
from fake_api import FakeApi, listing, watch_line
from recommender_harness import (
    METRICS,
    START,
    Running,
    deployment,
    pod,
    prepare,
    running,
    usage,
    vpa,
)

_CHECKPOINTS = endpoints.CHECKPOINTS.collection("shop")
_VPAS = endpoints.VPAS.collection("shop")
_GRACE = timedelta(seconds=15)


class StoringApi(FakeApi):
    """Stores checkpoints and statuses of VPAs. A patch has to name the version that it replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpoints: dict[str, Any] = {}
        self.vpas: dict[str, Any] = {}
        self._versions = iter(range(1_000, 10**9))

    def version(self) -> str:
        """Return a new resource version."""
        return str(next(self._versions))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path, is_list = request.path, request.method == "GET" and not request.query.get("watch")
        if path == _CHECKPOINTS and request.method == "POST":
            return self._created(json.loads(await request.read()))
        if path in (_CHECKPOINTS, endpoints.CHECKPOINTS.collection()) and is_list:
            selected = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
            items = [one for name, one in self.checkpoints.items() if selected in ("", name)]
            return web.json_response(listing(*items).body)
        if request.method == "PATCH":
            name = path.removeprefix(_VPAS + "/").removesuffix("/status").rpartition("/")[2]
            stored = self.vpas if path.startswith(_VPAS + "/") else self.checkpoints
            return self._patched(stored, name, json.loads(await request.read()))
        return await super().answer(request)

    def _created(self, body: Any) -> web.Response:
        name = body["metadata"]["name"]
        if name in self.checkpoints:
            return web.json_response({"kind": "Status", "reason": "AlreadyExists"}, status=409)
        body["metadata"] |= {"namespace": "shop", "resourceVersion": self.version()}
        self.checkpoints[name] = body
        return web.json_response(body, status=201)

    def _patched(self, stored: dict[str, Any], name: str, patch: Any) -> web.Response:
        if name not in stored:
            details = {"kind": "Status", "reason": "NotFound", "details": {"name": name}}
            return web.json_response(details, status=404)
        after = jsonpatch.apply_patch(stored[name], patch)
        if after["metadata"]["resourceVersion"] != stored[name]["metadata"]["resourceVersion"]:
            return web.json_response({"kind": "Status", "reason": "Conflict"}, status=409)
        after["metadata"]["resourceVersion"] = self.version()
        stored[name] = after
        return web.json_response(after)


@dataclass
class Shop:
    """Workloads with a VPA each, and the process that reads them."""

    api: StoringApi
    settings: dict[str, Any]
    interval: timedelta
    now: datetime = START
    targets: dict[str, str] = field(default_factory=dict)  # of VPAs
    labels: dict[str, str] = field(
        default_factory=dict
    )  # of workloads: the label app of their pods
    pods: dict[str, Any] = field(default_factory=dict)  # by workload, at most one each
    used: dict[str, tuple[int, int]] = field(default_factory=dict)  # millicores and MiB
    _process: Running | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _uids: Any = field(default_factory=lambda: iter(range(1, 10**9)))

    # The process

    async def start(self) -> None:
        """Start with the stored objects."""
        prepare(
            self.api,
            deployments=[deployment(name) | self._selecting(name) for name in self.labels],
            pods=list(self.pods.values()),
            verticalpodautoscalers=list(self.api.vpas.values()),
        )
        self._process = await self._stack.enter_async_context(running(self.api, **self.settings))
        self._process.clock.time = self.now

    async def stop(self) -> None:
        """End it as a signal does."""
        await self.process.recommender.end(_GRACE)
        await self.kill()

    async def kill(self) -> None:
        """End it immediately, between two cycles."""
        await self._stack.aclose()
        self._process = None

    @property
    def process(self) -> Running:
        assert self._process is not None
        return self._process

    async def run(self, duration: timedelta) -> None:
        """Run cycles for ``duration``."""
        for _ in range(max(round(duration / self.interval), 1)):
            await self.cycle()

    async def cycle(self) -> None:
        """Advance the clock by an interval, and run a cycle with the pods' usage."""
        self.now = self.process.clock.forward(self.interval)
        metrics = [
            usage(one["metadata"]["name"], at=self.now, cpu=f"{cpu}m", memory=f"{memory}Mi")
            for workload, one in self.pods.items()
            for cpu, memory in (self.used[workload],)
        ]
        self.api.on(METRICS, listing(*metrics))
        await self.process.cycle()
        for one in self.api.vpas.values():
            self._tell(self.process.informers.vpas, VerticalPodAutoscaler, "MODIFIED", one)

    # Objects

    def open(self, name: str, *, cpu: int, memory: int) -> None:
        """Create a workload with a pod, and a VPA of its name."""
        self.targets[name] = name
        self.api.vpas[name] = vpa(name)
        self.api.vpas[name]["metadata"] |= {"generation": 1, "resourceVersion": self.api.version()}
        self.add(name, cpu=cpu, memory=memory)

    def add(self, workload: str, *, cpu: int, memory: int) -> None:
        """Create a workload with a pod."""
        self.labels[workload], self.used[workload] = workload, (cpu, memory)
        self._tell_deployment(workload)
        self._add_pod(workload)

    def retarget(self, name: str, workload: str) -> None:
        """Change the target of a VPA."""
        self.targets[name] = workload
        one = self.api.vpas[name] = {**self.api.vpas[name], "spec": vpa(workload)["spec"]}
        generation = one["metadata"]["generation"] + 1
        one["metadata"] |= {"generation": generation, "resourceVersion": self.api.version()}
        self._tell(self.process.informers.vpas, VerticalPodAutoscaler, "MODIFIED", one)

    def close(self, name: str) -> None:
        """Delete a VPA."""
        self._tell(
            self.process.informers.vpas, VerticalPodAutoscaler, "DELETED", self.api.vpas.pop(name)
        )

    def open_again(self, name: str, workload: str) -> None:
        """Create a VPA again, perhaps for another workload."""
        self.targets[name] = workload
        one = self.api.vpas[name] = {**vpa(workload), "status": {}}
        one["metadata"] |= {"name": name, "generation": 1, "resourceVersion": self.api.version()}
        self._tell(self.process.informers.vpas, VerticalPodAutoscaler, "ADDED", one)

    def relabel(self, workload: str) -> None:
        """Create a workload again, with other labels."""
        self.labels[workload] = f"{workload}-{next(self._uids)}"
        self._tell_deployment(workload)
        self.roll_out(workload)

    def roll_out(self, workload: str) -> None:
        """Replace the pod of a workload."""
        self.idle(workload)
        self._add_pod(workload)

    def idle(self, workload: str) -> None:
        """Remove the pod of a workload."""
        gone = self.pods.pop(workload, None)
        if gone is not None:
            self._tell_pod("DELETED", gone)

    def kill_by_memory(self, workload: str) -> None:
        """OOM-kill and restart the container of its pod."""
        at = self.now.isoformat()
        one = self.pods[workload]
        last = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at}}
        known = one["status"].get("containerStatuses", [{"restartCount": 0}])[0]
        state = {"name": "app", "state": {"running": {"startedAt": at}}, "lastState": last}
        state["restartCount"] = known["restartCount"] + 1
        one["status"] = {**one["status"], "containerStatuses": [state]}
        self._tell_pod("MODIFIED", one)

    def _add_pod(self, workload: str) -> None:
        number = next(self._uids)
        made = pod(f"{workload}-{number}", app=self.labels[workload])
        made["metadata"]["labels"]["pod-template-hash"] = f"{number:x}"
        made["metadata"]["uid"] = f"{number:08x}-0000-4000-8000-{number:012x}"
        made["spec"]["containers"][0]["resources"]["requests"]["memory"] = (
            f"{self.used[workload][1]}Mi"
        )
        self.pods[workload] = made
        self._tell_pod("ADDED", made)

    def _tell_deployment(self, workload: str) -> None:
        found = deployment(workload) | self._selecting(workload)
        found["metadata"]["resourceVersion"] = self.api.version()
        if self._process is not None:
            cache = self._process.informers._controllers.deployments
            self._tell(cache, cache.endpoint.type, "MODIFIED", found)

    def _selecting(self, workload: str) -> Any:
        return {"spec": {"selector": {"matchLabels": {"app": self.labels[workload]}}}}

    def _tell_pod(self, kind: str, one: Any) -> None:
        one["metadata"]["resourceVersion"] = self.api.version()
        if self._process is not None:
            cache = self._process.informers.pods
            self._tell(cache, cache.endpoint.type, kind, one)

    @staticmethod
    def _tell(cache: Any, type: Any, kind: str, one: Any) -> None:
        for event in WatchProtocol(type, resource_version="10").feed(watch_line(kind, one)):
            cache._apply(event)

    # Recommendations

    def target(self, name: str) -> dict[str, str]:
        """Return the target of a VPA; empty if there is none."""
        status = self.api.vpas[name].get("status") or {}
        found = (status.get("recommendation") or {}).get("containerRecommendations")
        return dict(found[0]["target"]) if found else {}

    def samples(self, name: str) -> int:
        """Return the number of samples of a VPA's container."""
        found = self.process.recommender.explain("shop", name)
        assert isinstance(found, RecommendationExplanation), found
        return sum(one.samples for one in found.containers)

    def condition(self, name: str, kind: str) -> str:
        """Return the message of a condition; empty if there is none."""
        conditions = (self.api.vpas[name].get("status") or {}).get("conditions") or ()
        return next((one["message"] for one in conditions if one["type"] == kind), "")


@contextlib.asynccontextmanager
async def shop(
    *, interval: timedelta = timedelta(minutes=1), **settings: Any
) -> AsyncIterator[Shop]:
    """Run without workloads and without a process."""
    async with StoringApi() as api:
        made = Shop(api, {"interval": interval, **settings}, interval)
        try:
            yield made
        finally:
            await made.kill()
