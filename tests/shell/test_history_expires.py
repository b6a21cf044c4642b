"""X125: days without usage, in a process that lives on and in one that is restarted."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, named, watch_line
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    NEW_CHECKPOINT,
    START,
    Running,
    checkpoint_of,
    checkpoint_writes,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    usage,
    vpa,
    written,
)

# Once in half an hour; twenty samples are an interval of confidence.
STEP = timedelta(minutes=30)
SETTINGS: dict[str, Any] = {
    "interval": STEP,
    "confidence_interval_cpu": timedelta(minutes=20),
    "confidence_interval_memory": timedelta(minutes=20),
}
NAMES = ("report", "other")


@dataclass
class Report:
    """A workload that runs at times, beside another that always does."""

    api: FakeApi
    restarts: bool
    now: datetime = START
    process: Running | None = None
    uid: int = 0
    pods: list[Any] = field(default_factory=list)
    used: dict[str, tuple[str, str]] = field(default_factory=dict)  # cpu, memory
    _vpas: dict[str, Any] = field(default_factory=lambda: {name: vpa(name) for name in NAMES})
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _versions: Any = field(default_factory=lambda: iter(range(11, 10**9)))

    async def start(self) -> None:
        """A process, with what the API server has stored."""
        await self._stack.aclose()
        prepare(
            self.api,
            deployments=[deployment(name) for name in NAMES],
            pods=[pod("other-1", app="other"), *self.pods],
            verticalpodautoscalers=list(self._vpas.values()),
        )
        self.api.on(CHECKPOINTS, listing(*self._stored()))
        self.process = await self._stack.enter_async_context(running(self.api, **SETTINGS))
        self.process.clock.time = self.now

    async def restart(self) -> None:
        if self.restarts:
            await self.start()

    def _stored(self) -> list[Any]:
        created = [each.json() for each in self.api.requests if _route(each) == NEW_CHECKPOINT]
        found = {one["metadata"]["name"]: one for one in created}
        for name, one in found.items():
            one["status"] = checkpoint_writes(self.api, name)[-1]
        return list(found.values())

    async def run(self, days: float) -> None:
        """Cycle after cycle, with what the pods use."""
        for _ in range(round(timedelta(days=days) / STEP)):
            await self.cycle()

    async def cycle(self) -> None:
        process = self.process
        assert process is not None
        self.now = process.clock.forward(STEP)
        there = ["other-1", *(one["metadata"]["name"] for one in self.pods)]
        used = [(name, *self.used[name.partition("-")[0]]) for name in there]
        metrics = [usage(name, at=self.now, cpu=cpu, memory=memory) for name, cpu, memory in used]
        self.api.on(METRICS, listing(*metrics))
        await process.cycle()
        feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
        for name, one in self._vpas.items():
            if status_of(name) in self.api.routes:
                one["status"] = written(self.api, status_of(name))
                one["metadata"]["resourceVersion"] = str(next(self._versions))
                process.followed.vpas._apply(next(feed(watch_line("MODIFIED", one))))

    def begin(self, cpu: str, memory: str) -> None:
        """A new pod of the report."""
        self.uid += 1
        made = pod(f"report-{self.uid}", app="report")
        made["metadata"]["resourceVersion"] = str(next(self._versions))
        made["metadata"]["labels"]["pod-template-hash"] = f"{self.uid:x}"
        self.pods, self.used["report"] = [made], (cpu, memory)
        self._tell("ADDED")

    def end(self) -> None:
        self._tell("DELETED")
        self.pods = []

    def kill(self) -> None:
        """Its container ran out of memory, and runs again."""
        dead = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": self.now.isoformat()}
        running = {"running": {"startedAt": self.now.isoformat()}}
        last = {"terminated": dead}
        state = {"name": "app", "restartCount": 1, "state": running, "lastState": last}
        (one,) = self.pods
        one["status"]["containerStatuses"] = [state]
        one["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("MODIFIED")

    def _tell(self, kind: str) -> None:
        assert self.process is not None
        pods = self.process.followed.pods
        (one,) = self.pods
        for event in WatchProtocol(pods.endpoint.type, resource_version="10").feed(
            watch_line(kind, one)
        ):
            pods._apply(event)

    @property
    def target(self) -> dict[str, str]:
        found = self._vpas["report"]["status"]["recommendation"].get("containerRecommendations")
        return dict(found[0]["target"]) if found else {}

    def condition(self, kind: str, name: str = "report") -> str:
        conditions = self._vpas[name]["status"]["conditions"]
        return next((one["message"] for one in conditions if one["type"] == kind), "")


def _route(request: Any) -> str:
    return f"{request.method} {request.path}"


@pytest.fixture(params=[False, True], ids=["lives on", "restarted"])
async def report(request: pytest.FixtureRequest) -> AsyncIterator[Report]:
    """Two days of a report that uses much, and the recommender that saw it."""
    async with FakeApi() as api:
        found = Report(api, restarts=request.param)
        for name in NAMES:
            for route in (status_of(name), checkpoint_of(f"{name}-app")):
                api.on(route, Reply(body=named(name)))
        found.used["other"] = ("100m", "600Mi")
        await found.start()
        found.begin("2", "900Mi")
        await found.run(days=2)
        yield found
        await found._stack.aclose()


async def test_what_was_recommended_stays_for_ten_idle_days_and_until_a_day_is_known(
    report: Report,
) -> None:
    before = report.target
    assert before["cpu"] == "2406m"
    report.end()
    for days in (7, 3):
        await report.run(days)
        assert report.target == before
        await report.restart()
        await report.cycle()
    assert report.condition("StaleRecommendation").startswith("app: the history of usage expired.")
    assert not report.condition("StaleRecommendation", "other")
    report.begin("100m", "300Mi")
    for hours in (1, 8):
        await report.run(hours / 24)
        assert report.target == before
        await report.restart()
    await report.run(days=0.5)
    assert report.target["cpu"] == "126m"
    assert not report.condition("StaleRecommendation")


async def test_an_oom_kill_raises_memory_before_that(report: Report) -> None:
    before = report.target
    report.end()
    await report.run(days=10)
    await report.restart()
    report.begin("100m", "1Gi")
    await report.run(2 / 24)
    assert report.target == before
    report.kill()
    for _ in range(3):
        await report.cycle()
        after = report.target
        assert int(after["memory"]) > int(before["memory"])
        assert after["cpu"] == before["cpu"]
        await report.restart()


async def test_a_report_of_every_month_keeps_its_recommendation(report: Report) -> None:
    before = report.target
    for _ in range(2):
        report.end()
        await report.run(days=9)
        await report.restart()
        report.begin("1900m", "850Mi")
        await report.run(2 / 24)
        assert report.target == before
