"""Random events of a small cluster, for both the process and the reference model."""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from common.kube.watch import EventType
from fixed_clock import FixedClock
from model_objects import Kill, LivePod, eviction, plain_policy, some_policy, some_usage
from model_process import Process
from recommender.model.aggregates import AggregationRules
from recommender.model.keys import VpaKey
from reference_histogram import ZERO
from reference_model import MEMORY_WEIGHT, Cluster, Rules, canonical

START = datetime(2026, 1, 1, 7, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TOLERATED = timedelta(seconds=75)  # how far a sample may be ahead (X33); its window is 15 seconds
AHEAD = timedelta(hours=1)  # how much later a resumed window may end
NAMESPACES = ("shop", "bank")
NAMES = ("web-0", "web-1", "web-2", "db-0")
VPAS = [VpaKey(namespace, name) for namespace in NAMESPACES for name in ("one", "two")]
SELECTORS: tuple[dict[str, str] | None, ...] = (
    *({"app": "web"}, {"app": "web"}, {"app": "db"}, {"track": "x"}),
    *({"app": "web", "track": "y"}, {}, None),
)
MADE_UP = {"app": "web", "pod-template-hash": "1"}
HALF_LIVES = (timedelta(hours=24), timedelta(hours=24), timedelta(hours=1), timedelta(minutes=10))
INTERVALS = (timedelta(hours=24), timedelta(hours=1), timedelta(minutes=7))


class Stream:
    """Feeds both models. After each cycle they can be compared."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.clock = FixedClock(START)
        self.half_life = rng.choice(HALF_LIVES)
        interval = rng.choice(INTERVALS)
        count = 8 if interval == INTERVALS[0] else rng.choice((8, 200))
        self.defaults = AggregationRules(interval=interval, interval_count=count)
        self.plain = self._new_cluster()
        self.process = self._new_process()
        self.process.informers.ooms.go_live()
        self.pods: dict[tuple[str, str], LivePod] = {}
        # X82: labels that controllers generate are dropped, and reference times may differ.
        self.retires = rng.random() < 0.5
        self.specs: dict[VpaKey, tuple[dict[str, str] | None, list[dict[str, Any]]]] = {}
        self.resolved = {key for key in VPAS if rng.random() < 0.7}
        self.kills: list[Kill] = []
        self.outcomes: Counter[str] = Counter()
        self.done: Counter[str] = Counter()  # events by kind, to check that all kinds occur
        self._numbers = itertools.count()
        self._collected = START
        self._saved: Mapping[VpaKey, Collection[str]] = {}
        self._saved_at = ZERO
        self._looked_at: dict[tuple[str, str], datetime] = {}  # until when, for kills
        self._passing: set[str] = set()  # pods created and deleted since the last cycle

    @property
    def now(self) -> datetime:
        return self.clock.time

    # Events

    async def cycle(self) -> None:
        self.clock.time += self._pause()
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self._mishap()
        used = [some_usage(self.rng, pod, self._time(pod)) for pod in self._measured()]
        known = self._feed_plain(used)
        await self.process.cycle(used)
        self.done["samples"] += known
        if self.now - self._collected >= timedelta(hours=1):
            self._collect()

    def _pause(self) -> timedelta:
        """Return mostly a minute, and sometimes hours, days, or more than 100 half-lives."""
        chance = self.rng.random()
        if chance < 0.9:
            return MINUTE + timedelta(microseconds=self.rng.choice((0, 0, 250_000)))
        if chance < 0.97:
            return timedelta(minutes=self.rng.randrange(2, 700))
        self.done["long pause"] += 1
        return self.rng.choice((timedelta(days=1), timedelta(days=9), 101 * self.half_life))

    def _mishap(self) -> None:
        if not self.specs or self.rng.random() < 0.07:
            self._change_vpa()
        place = self.rng.choice(NAMESPACES), self.rng.choice(NAMES)
        pod = self.pods.get(place)
        if pod is None:
            self._create(place)
            return
        happens = (self._kill, self._kill, self._repeat, self._restart, self._relabel)
        rarely = (self._delete, self._evict, self._finish, self._replace)
        self.rng.choice((*happens, *happens, *rarely))(pod)

    def _create(self, place: tuple[str, str]) -> None:
        labels = {"app": place[1].split("-")[0], "pod-template-hash": self.rng.choice("12")}
        if self.rng.random() < 0.3:
            labels["track"] = self.rng.choice("xy")
        names = self.rng.choice((("app",), ("app", "sidecar"), ("sidecar", "app")))
        pod = LivePod(
            uid=f"uid-{next(self._numbers)}",
            born=self.now,
            place=place,
            labels=labels,
            requests={name: self.rng.choice((0, 10**7, 3 * 10**8, 10**10)) for name in names},
        )
        for name in names:
            pod.statuses[name] = {"name": name, "restartCount": 0, "state": {"running": {}}}
        self.pods[place] = pod
        self.done["created"] += 1
        self.process.tell_pod(EventType.ADDED, pod.shown())

    def _moment(self, pod: LivePod) -> datetime:
        """Return the time of a kill: mostly since the last cycle, sometimes long ago."""
        back = self.rng.choice((20, 20, 20, 90, 5_000, 100_000, 200_000))
        at = self.now - timedelta(seconds=self.rng.random() * back)
        return max(at, pod.born + timedelta(seconds=self.rng.random() / 10))

    def _kill(self, pod: LivePod) -> None:
        name = self.rng.choice(list(pod.requests))
        status = pod.statuses[name]
        at = self._moment(pod)
        if at <= max(pod.kills.get(name, ()), default=ZERO):
            return
        gone = {"terminated": {"reason": "OOMKilled", "finishedAt": at.isoformat()}}
        before = status["state"]
        pod.statuses[name] = {**status, "state": gone, "restartCount": status["restartCount"] + 1}
        if "terminated" in before:
            pod.statuses[name]["lastState"] = before
        pod.kills[name] = [*pod.kills.get(name, [])[-1:], at]
        self._tell_kill(pod, name, at)
        self.process.tell_pod(EventType.MODIFIED, pod.shown())

    def _tell_kill(self, pod: LivePod, name: str, at: datetime) -> None:
        self.done["kill"] += 1
        self.kills.append(Kill(pod, name, at, pod.requests[name], dict(pod.labels)))

    def _restart(self, pod: LivePod) -> None:
        for name, status in pod.statuses.items():
            if "terminated" in status["state"]:
                again = {"state": {"running": {}}, "lastState": status["state"]}
                pod.statuses[name] = {**status, **again}
                pod.kills[name] = pod.kills[name][-1:]
        self.process.tell_pod(EventType.MODIFIED, pod.shown())

    def _repeat(self, pod: LivePod) -> None:
        self.process.tell_pod(EventType.MODIFIED, pod.shown())

    def _relabel(self, pod: LivePod) -> None:
        self.done["relabelled"] += 1
        pod.labels = {**pod.labels, "track": self.rng.choice("xyz")}
        self.process.tell_pod(EventType.MODIFIED, pod.shown())

    def _finish(self, pod: LivePod) -> None:
        pod.phase = self.rng.choice(("Succeeded", "Failed"))
        self.process.tell_pod(EventType.MODIFIED, pod.shown())

    def _delete(self, pod: LivePod) -> None:
        del self.pods[pod.place]
        self.process.tell_pod(EventType.DELETED, pod.shown())

    def _replace(self, pod: LivePod) -> None:
        """Replace a pod as a StatefulSet does, often with a kill just before or after."""
        self.done["replaced"] += 1
        if self.rng.random() < 0.5:
            self._kill(pod)
        self._delete(pod)
        self._create(pod.place)
        if self.rng.random() < 0.3:
            self._kill(self.pods[pod.place])

    def _evict(self, pod: LivePod) -> None:
        self.done["evicted"] += 1
        name, at = self.rng.choice(list(pod.requests)), self._moment(pod)
        used = self.rng.choice((10**6, 10**9))
        number = next(self._numbers)
        if self.rng.random() < 0.3:
            self._delete(pod)
        self.kills.append(Kill(pod, name, at, used, None))
        self.process.tell_eviction(eviction(pod, name, at, used, number))

    def _change_vpa(self) -> None:
        key = self.rng.choice(VPAS)
        if key in self.specs and self.rng.random() < 0.3:
            self.done["VPA gone"] += 1
            del self.specs[key]
            self.process.usage.remove_autoscaler(key)
            del self.plain.vpas[key]
            return
        self.done["VPA changed"] += 1
        policies = [some_policy(self.rng) for _ in range(self.rng.choice((0, 0, 1, 2)))]
        selectors = SELECTORS if self.retires else (*SELECTORS, MADE_UP)
        self.specs[key] = (self.rng.choice(selectors), policies)
        self._put_vpa(key)

    def _put_vpa(self, key: VpaKey) -> None:
        selector, policies = self.specs[key]
        self.process.put_vpa(key, selector, policies)
        self.plain.put_vpa(key, selector, [plain_policy(one) for one in policies])

    # Usage

    def _measured(self) -> list[tuple[str, str]]:
        """Return the pods in the metrics: not all, some twice, some deleted ones."""
        places = list(itertools.product(NAMESPACES, NAMES))
        return self.rng.choices(places, k=self.rng.randrange(2 * len(places)))

    def _time(self, place: tuple[str, str]) -> datetime:
        """Return the present, past or future time of a sample, or a border of a memory window."""
        ends = [
            container.window_end
            for pod in self.plain.pods.values()
            if (pod.namespace, pod.name) == place
            for container in pod.containers.values()
            if abs(container.window_end - self.now) < 2 * AHEAD and container.window_end != ZERO
        ]
        if ends and self.rng.random() < 0.5:
            microseconds = self.rng.choice((-1, 0, 0, 1))
            return self.rng.choice(ends) + timedelta(microseconds=microseconds)
        offset = self.rng.choice((0, 0, 0, 0, -15, -60, -4_000, 30, 75, 76, 3_500))
        return self.now.replace(microsecond=0) + timedelta(seconds=offset)

    # The reference model

    def _new_cluster(self) -> Cluster:
        rules = self.defaults
        return Cluster(
            self.half_life,
            Rules(
                interval=rules.interval,
                interval_count=rules.interval_count,
                ratio=rules.oom_bump_up_ratio,
                min_bump_up=rules.oom_min_bump_up,
            ),
        )

    def _new_process(self) -> Process:
        return Process(self.clock, self.defaults, self.half_life)

    def _feed_plain(self, used: list[dict[str, Any]]) -> int:
        plain = self.plain
        there = {pod.uid for pod in self.pods.values()}
        kills, self.kills = self.kills, []
        replaced = [
            uid
            for uid, pod in plain.pods.items()
            if uid not in there and (pod.namespace, pod.name) in self.pods
        ]
        for kill in kills:
            if kill.pod.uid in replaced:
                self._oom(kill)
        for uid in replaced:
            plain.remove_pod(uid)
        for pod in self.pods.values():
            self._put_pod(pod, pod.labels)
        known = sum(self._samples(one) for one in used)
        for kill in kills:
            if kill.pod.uid in replaced:
                continue
            if kill.pod.uid not in there and kill.pod.uid not in plain.pods:
                self.done["born and gone"] += 1
            if kill.pod.uid not in there:
                missing = kill.pod.uid not in plain.pods
                if missing or kill.pod.uid in self._passing:
                    self._passing.add(kill.pod.uid)
                    self._put_pod(kill.pod, kill.labels or kill.pod.labels)
            self._oom(kill)
        self._passing.clear()
        for uid in [uid for uid in plain.pods if uid not in there]:
            plain.remove_pod(uid)
        return known

    def _put_pod(self, pod: LivePod, labels: Mapping[str, str]) -> None:
        active = pod.phase == "Running"
        self.plain.put_pod(
            pod.uid, pod.place, dict(labels), pod.requests, active=active, now=self.now
        )

    def _samples(self, used: dict[str, Any]) -> int:
        ts = datetime.fromisoformat(used["timestamp"])
        place = used["metadata"]["namespace"], used["metadata"]["name"]
        uids = [uid for uid, pod in self.plain.pods.items() if (pod.namespace, pod.name) == place]
        if ts > self.now + TOLERATED or not uids:
            return 0
        (uid,) = uids
        accepted = 0
        for container in used["containers"]:
            name = container["name"]
            if name not in self.plain.pods[uid].containers:
                continue
            if "cpu" in container["usage"]:
                amount = int(container["usage"]["cpu"].removesuffix("m"))
                accepted += self.plain.add_cpu(uid, name, ts, amount, self.now)
            if "memory" in container["usage"]:
                amount = int(container["usage"]["memory"])
                accepted += self.plain.add_memory(uid, name, ts, amount, self.now)
        return accepted

    def _oom(self, kill: Kill) -> None:
        place = kill.pod.uid, kill.container
        if kill.initial:
            if place not in self._looked_at and self._is_in_a_checkpoint(kill):
                self._looked_at[place] = self._saved_at
            if kill.at <= self._looked_at.get(place, ZERO):
                self.outcomes["learnt_before"] += 1
                return
        self._looked_at[place] = max(self._looked_at.get(place, ZERO), kill.at)
        # A sample with a future timestamp makes no kill too old (X122).
        killed = self.plain.pods[kill.pod.uid].containers[kill.container]
        killed.last_mem = min(killed.last_mem, self.now)
        outcome = self.plain.add_oom(kill.pod.uid, kill.container, kill.at, kill.memory, self.now)
        self.outcomes[outcome] += 1
        self.done[outcome] += 1

    def _is_in_a_checkpoint(self, kill: Kill) -> bool:
        """12.4: Return whether a checkpoint of the container has been loaded."""
        pod = self.plain.pods[kill.pod.uid]
        return any(
            kill.container in self._saved.get(VpaKey(*key), ())
            for key, vpa in self.plain.vpas.items()
            if key[0] == pod.namespace and vpa.matches(pod.labels)
        )

    def _collect(self) -> None:
        """Collect garbage, unless the result depends on the exact hour of expiry."""
        for key, aggregate in self.plain.aggregates.items():
            lifetime = self.plain.lifetime(key)
            if timedelta() <= aggregate.age(self.now) - lifetime <= lifetime / 100:
                return
        self._collected = self.now
        before = len(self.plain.aggregates)
        self.plain.collect(self.now, self.resolved & self.specs.keys())
        self.done["collected"] += before - len(self.plain.aggregates)
        self.process.collect(self.resolved & self.specs.keys(), retires=self.retires)
        if self.retires:
            self.plain.rest()

    # A restart

    async def restart(self) -> None:
        """Restart the process. Only the API server's objects and checkpoints remain."""
        goes_on = self.rng.random() < 0.5  # resume the running windows (Q4)
        self.done["window goes on" if goes_on else "restart"] += 1
        before, windows = (
            self.plain,
            [one for key in self.specs for one in self.process.windows(key)],
        )
        looked_at, self._looked_at = self._looked_at, {}
        saved = {key: self.process.checkpoints(key) for key in self.specs}
        kept = {key: self.plain.checkpoints(key, self.now) for key in self.specs}
        self._saved, self._saved_at = (
            {key: saved[key].keys() for key in saved},
            self.now.replace(microsecond=0),
        )
        self.plain, self.process = self._new_cluster(), self._new_process()
        self.outcomes.clear()
        self.kills.clear()
        for key in self.specs:
            self._put_vpa(key)
            self.process.load(key, saved[key])
            for name, state in kept[key].items():
                loaded = self.plain.new_aggregate()
                loaded.cpu.load(state.cpu.save(), state.cpu.total, state.cpu.ref)
                loaded.memory.load(state.memory.save(), state.memory.total, state.memory.ref)
                loaded.first_sample = state.first_sample.replace(microsecond=0)
                loaded.last_sample = state.last_sample.replace(microsecond=0)
                loaded.samples = state.samples
                self.plain.vpas[key].loaded[name] = loaded
        for pod in self.pods.values():
            self.process.tell_pod(EventType.ADDED, pod.shown())
            for name in pod.requests:
                for at in pod.kills.get(name, ()):
                    labels = dict(pod.labels)
                    self.kills.append(Kill(pod, name, at, pod.requests[name], labels, initial=True))
        if goes_on:
            await self.process.resume(windows)
            self._resume(before, looked_at)
        self.process.informers.ooms.go_live()

    def _resume(self, before: Cluster, looked_at: Mapping[tuple[str, str], datetime]) -> None:
        """Resume each window of a VPA, unless it ends later than any window that begins now."""
        carried = {key: before.carried(key) for key in self.specs}
        for pod in self.pods.values():
            self._put_pod(pod, pod.labels)
            for name, left in before.pods[pod.uid].containers.items():
                vpas = [
                    self.plain.vpas[key]
                    for key, aggregates in carried.items()
                    if any(one is left.aggregate for one in aggregates)
                ]
                if left.window_end <= self.now or not vpas:
                    continue
                for vpa in vpas:
                    if not vpa.matches(pod.labels):
                        vpa.former.add(canonical(pod.labels))
                if left.window_end > self.now + self.plain.rules(pod.uid, name).interval + AHEAD:
                    continue
                container = self.plain.pods[pod.uid].containers[name]
                container.window_end = left.window_end
                container.mem_peak, container.oom_peak = left.mem_peak, left.oom_peak
                peak = max(left.mem_peak, left.oom_peak)
                container.aggregate.memory.add(peak, MEMORY_WEIGHT, left.window_end)
                place = pod.uid, name
                self._looked_at[place] = looked_at.get(place, ZERO + timedelta(microseconds=1))
