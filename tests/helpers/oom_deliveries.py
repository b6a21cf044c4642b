"""OOM kills and evictions of pods, as an API server reports them.

The events go directly into the recommender's caches, so that a test controls their order.
"""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from common.kube.cache import Cache
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, listing, named, watch_line
from recommender.model.oom_outcome import OomOutcome
from recommender_harness import METRICS, Running, pod

MINUTE = timedelta(minutes=1)
RUNNING = {"running": {"startedAt": "2026-01-02T11:00:00Z"}}


class OomDeliveries:
    """The watch events of pods and evictions for a running recommender."""

    def __init__(self, api: FakeApi, process: Running) -> None:
        self.api = api
        self.process = process
        self._version = 100

    def pod(self, kind: str, found: Any) -> None:
        self._tell(self.process.informers.pods, kind, found)

    def event(self, kind: str, found: Any) -> None:
        self._tell(self.process.informers._evictions, kind, found)

    def vpa(self, kind: str, found: Any) -> None:
        self._tell(self.process.informers.vpas, kind, found)

    async def cycle(self, *used: Any) -> None:
        """Run a cycle a minute later with this usage."""
        self.process.clock.forward(MINUTE)
        self.api.on(METRICS, listing(*used))
        await self.process.cycle()
        seen, recorded, discarded = self.counts()
        assert seen == recorded + sum(discarded.values())

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return the seen, the recorded, and by reason the discarded kills, from the metrics."""
        names = [f"vpa_recommender_oom_{what}_total" for what in ("seen", "recorded", "discarded")]
        # Collecting all metrics of the recommender takes a hundred times as long.
        scraped = self.process.metrics.registry.restricted_registry(names)
        found = {
            (sample.name, sample.labels.get("reason", "")): int(sample.value)
            for metric in scraped.collect()
            for sample in metric.samples
        }
        seen, recorded = found.pop((names[0], "")), found.pop((names[1], ""))
        by_reason = {reason: count for (_, reason), count in found.items()}
        assert by_reason.keys() == set(OomOutcome) - {OomOutcome.RECORDED}
        return seen, recorded, {reason: count for reason, count in by_reason.items() if count}

    def _tell(self, cache: Cache[Any], kind: str, found: Any) -> None:
        self._version += 1
        found = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self._version)}}
        lines = WatchProtocol(cache.endpoint.type, resource_version="99")
        for event in lines.feed(watch_line(kind, found)):
            cache._apply(event)


def ended(at: str, reason: str = "OOMKilled") -> Any:
    return {"terminated": {"reason": reason, "exitCode": 137, "finishedAt": at}}


def delivered(
    name: str = "web-2",
    *,
    state: Any = RUNNING,
    last: Any = None,
    restarts: int = 0,
    uid: str = "",
    phase: str = "Running",
    labels: dict[str, str] | None = None,
) -> Any:
    """Return a pod of ``web``, as the API server shows it."""
    one = {"name": "app", "restartCount": restarts, "state": state, "lastState": last or {}}
    found = pod(name, status={"phase": phase, "containerStatuses": [one]})
    found["metadata"]["uid"] = uid or f"uid-{name}"
    found["metadata"]["labels"] |= labels or {}
    return found


def evicted(
    name: str = "web-2",
    *,
    uid: str = "",
    number: int = 1,
    container: str = "app",
    at: str = "2026-01-02T12:00:20Z",
) -> Any:
    """Return the kubelet's Event."""
    found = named(
        f"{name}.{number}",
        reason="Evicted",
        involvedObject={
            "kind": "Pod",
            "namespace": "shop",
            "name": name,
            "uid": uid or f"uid-{name}",
        },
    )
    found["metadata"] |= {
        "uid": f"uid-event-{name}-{number}",
        "creationTimestamp": at,
        "annotations": {
            "offending_containers": container,
            "offending_containers_usage": "400Mi",
            "starved_resource": "memory",
        },
    }
    return found


class OomFaults:
    """Random creations, kills, restarts, replacements, evictions and deletions of pods.

    ``kills`` are those that the API server reported, each once.
    """

    def __init__(self, town: OomDeliveries, rng: random.Random) -> None:
        self._town = town
        self._rng = rng
        self._there: dict[str, Any] = {}
        self._born = 0
        self._evictions = 0
        self.kills = 0

    def step(self, now: datetime) -> None:
        name = f"web-{self._rng.randrange(2, 8)}"
        found = self._there.get(name)
        if found is None:
            self._born += 1
            found = delivered(name, uid=f"uid-{self._born}")
            self._there[name] = found
            self._town.pod("ADDED", found)
            return
        faults: tuple[Callable[[str, Any, datetime], None], ...] = (
            *(self._kill, self._kill, self._restart, self._repeat),
            *(self._delete, self._evict, self._relabel),
        )
        self._rng.choice(faults)(name, found, now)

    def _state(self, found: Any) -> Any:
        return found["status"]["containerStatuses"][0]

    def _show(self, found: Any, kind: str = "MODIFIED", **state: Any) -> Any:
        changed = {**self._state(found), **state}
        found = {**found, "status": {"phase": "Running", "containerStatuses": [changed]}}
        self._there[found["metadata"]["name"]] = found
        self._town.pod(kind, found)
        return found

    def _kill(self, name: str, found: Any, now: datetime) -> None:
        if "terminated" in self._state(found)["state"]:
            return
        self.kills += 1
        dead = self._show(found, state=ended(_seconds(now, self._rng)))
        if self._rng.random() < 0.3:
            self._delete(name, dead, now)

    def _restart(self, name: str, found: Any, now: datetime) -> None:
        before = self._state(found)
        if "terminated" in before["state"]:
            again = before["restartCount"] + 1
            self._show(found, state=RUNNING, lastState=before["state"], restartCount=again)

    def _repeat(self, name: str, found: Any, now: datetime) -> None:
        self._show(found)

    def _delete(self, name: str, found: Any, now: datetime) -> None:
        del self._there[name]
        self._town.pod("DELETED", found)

    def _evict(self, name: str, found: Any, now: datetime) -> None:
        self._evictions += 1
        self.kills += 1
        uid = found["metadata"]["uid"]
        event = evicted(name, uid=uid, number=self._evictions, at=_seconds(now, self._rng))
        goes_first = self._rng.random() < 0.5
        if goes_first:
            self._delete(name, found, now)
        self._town.event("ADDED", event)
        if not goes_first:
            self._delete(name, found, now)

    def _relabel(self, name: str, found: Any, now: datetime) -> None:
        labels = {"app": "web", "track": str(self._rng.randrange(3))}
        self._show({**found, "metadata": {**found["metadata"], "labels": labels}})


def _seconds(now: datetime, rng: random.Random) -> str:
    return (
        now - timedelta(seconds=rng.randrange(30), microseconds=rng.randrange(10**6))
    ).isoformat()
