"""An independent implementation of sections 4-6 of recommender.md, one sample at a time.

See ``reference_histogram``. Departures from the reference have the quirk's number beside the rule.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reference_histogram import CPU, MEMORY, ZERO, Histogram, trunc_amount

CPU_WEIGHT, MEMORY_WEIGHT = 0.1, 1.0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """5.2: the values of flags, and the overrides of a policy (under PerVPAConfig)."""

    interval: timedelta = timedelta(hours=24)  # I
    interval_count: int = 8
    ratio: float = 1.2
    min_bump_up: float = 104_857_600.0


@dataclass
class Aggregate:
    """5.2: the usage of containers with one key."""

    cpu: Histogram
    memory: Histogram
    created: datetime = ZERO
    first_sample: datetime = ZERO
    last_sample: datetime = ZERO
    samples: int = 0

    def add_cpu(self, ts: datetime, amount: int) -> None:
        self.cpu.add(amount, CPU_WEIGHT, ts)
        self.last_sample = max(self.last_sample, ts)
        if self.first_sample == ZERO or ts < self.first_sample:
            self.first_sample = ts
        self.samples += 1

    def merge(self, other: "Aggregate") -> None:
        self.cpu.merge(other.cpu)
        self.memory.merge(other.memory)
        known = [ts for ts in (self.first_sample, other.first_sample) if ts != ZERO]
        self.first_sample = min(known, default=ZERO)
        self.last_sample = max(self.last_sample, other.last_sample)
        self.samples += other.samples

    def age(self, now: datetime) -> timedelta:
        """5.4: return the time since the last new sample; memory peaks don't count."""
        return now - (self.last_sample if self.samples else self.created)


@dataclass
class Container:
    """Section 4: one container in one pod."""

    aggregate: Aggregate
    last_cpu: datetime = ZERO
    last_mem: datetime = ZERO
    window_end: datetime = ZERO
    mem_peak: int = 0
    oom_peak: int = 0

    def start_over(self, aggregate: Aggregate) -> None:
        """Q10: begin a new window with another aggregate."""
        self.aggregate = aggregate
        self.window_end = ZERO
        self.mem_peak = self.oom_peak = 0

    def add_cpu(self, ts: datetime, amount: int) -> bool:
        """4.2: return whether the sample was added."""
        if amount < 0 or ts <= self.last_cpu:
            return False
        self.aggregate.add_cpu(ts, amount)
        self.last_cpu = ts
        return True

    def add_memory(self, ts: datetime, amount: int, rules: Rules, *, is_oom: bool = False) -> bool:
        """4.3: return whether the sample was added."""
        if amount < 0 or (not is_oom and ts < self.last_mem):
            return False
        self.last_mem = ts
        if self.window_end == ZERO:
            self.window_end = ts
        old = max(self.mem_peak, self.oom_peak)
        adds = False
        if ts < self.window_end:
            if amount > old:  # Q7: also when the old peak is 0
                self.aggregate.memory.subtract(old, MEMORY_WEIGHT, self.window_end)
                adds = True
        else:
            windows = (ts - self.window_end) // rules.interval
            self.window_end += windows * rules.interval + rules.interval
            self.mem_peak = self.oom_peak = 0
            adds = True
        if adds:
            self.aggregate.memory.add(amount, MEMORY_WEIGHT, self.window_end)
            if is_oom:
                self.oom_peak = amount
            else:
                self.mem_peak = amount
        return True

    def add_oom(self, ts: datetime, request: int, rules: Rules) -> str:
        """4.4: return the outcome."""
        if self.last_mem != ZERO and ts < self.last_mem - rules.interval:
            return "too_old"
        used = max(request, self.mem_peak)
        needed = max(
            used + trunc_amount(rules.min_bump_up), trunc_amount(float(used) * rules.ratio)
        )
        self.add_memory(ts, needed, rules, is_oom=True)
        return "recorded"


@dataclass
class Pod:
    namespace: str
    name: str
    labels: Mapping[str, str]
    active: bool
    containers: dict[str, Container] = field(default_factory=dict)


@dataclass(kw_only=True)
class Policy:
    """The fields of a containerPolicies entry that concern aggregates; None: not set."""

    container: str
    interval: timedelta | None = None
    interval_count: int | None = None
    ratio: float | None = None
    min_bump_up: float | None = None


@dataclass
class Vpa:
    selector: Mapping[str, str] | None  # required labels; None matches nothing (Q31)
    policies: list[Policy]
    loaded: dict[str, Aggregate]  # initial states, by container
    former: set[str] = field(default_factory=set)  # canonical labels of pods it matched before

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.items() <= labels.items()

    def policy(self, container: str) -> Policy:
        """1.3: return the first policy of that name, or the last wildcard."""
        found = Policy(container="*")
        for policy in self.policies:
            if policy.container == container:
                return policy
            if policy.container == "*":
                found = policy
        return found


VpaKey = tuple[str, str]  # namespace, name
AggregateKey = tuple[str, str, str]  # 5.1: namespace, container, canonical labels


def canonical(labels: Mapping[str, str]) -> str:
    """5.1: return the canonical form of labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


class Cluster:
    """Section 6. Pods are identified by their UIDs (Q33)."""

    def __init__(self, half_life: timedelta, defaults: Rules) -> None:
        self.half_life = half_life
        self.defaults = defaults
        self.pods: dict[str, Pod] = {}  # by UID
        self.vpas: dict[VpaKey, Vpa] = {}
        self.aggregates: dict[AggregateKey, Aggregate] = {}
        self.labels: dict[AggregateKey, Mapping[str, str]] = {}
        self.resting: set[AggregateKey] = set()

    def new_aggregate(self, created: datetime = ZERO) -> Aggregate:
        return Aggregate(Histogram(CPU, self.half_life), Histogram(MEMORY, self.half_life), created)

    def aggregate(self, pod: Pod, container: str, now: datetime) -> Aggregate:
        """6.1, 5.4: return the aggregate of the key (Q10), a new one after its collection."""
        key = (pod.namespace, container, canonical(pod.labels))
        self.labels[key] = pod.labels
        if key not in self.aggregates:
            self.aggregates[key] = self.new_aggregate(now)
        return self.aggregates[key]

    # 6.1

    def put_pod(
        self,
        uid: str,
        place: tuple[str, str],
        labels: Mapping[str, str],
        containers: Iterable[str],
        *,
        active: bool,
        now: datetime,
    ) -> None:
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = Pod(*place, labels, active)
        relabelled = canonical(pod.labels) != canonical(labels)
        pod.labels, pod.active = labels, active
        for name in containers:
            if name not in pod.containers:
                pod.containers[name] = Container(self.aggregate(pod, name, now))
            elif relabelled:
                pod.containers[name].start_over(self.aggregate(pod, name, now))

    def remove_pod(self, uid: str) -> None:
        del self.pods[uid]
        self._drop_unused()

    # Section 4

    def add_cpu(self, uid: str, name: str, ts: datetime, amount: int, now: datetime) -> bool:
        container = self.pods[uid].containers[name]
        if amount < 0 or ts <= container.last_cpu:
            return False
        return self._current(uid, name, now).add_cpu(ts, amount)

    def add_memory(self, uid: str, name: str, ts: datetime, amount: int, now: datetime) -> bool:
        container = self._current(uid, name, now)
        return container.add_memory(ts, amount, self.rules(uid, name))

    def add_oom(self, uid: str, name: str, ts: datetime, request: int, now: datetime) -> str:
        container = self._current(uid, name, now)
        return container.add_oom(ts, request, self.rules(uid, name))

    def _current(self, uid: str, name: str, now: datetime) -> Container:
        pod = self.pods[uid]
        container, aggregate = pod.containers[name], self.aggregate(pod, name, now)
        if container.aggregate is not aggregate:
            container.start_over(aggregate)
        return container

    # 5.3, 6.2

    def put_vpa(
        self, key: VpaKey, selector: Mapping[str, str] | None, policies: list[Policy]
    ) -> None:
        before = self.vpas.get(key) or Vpa(None, [], {})
        after = self.vpas[key] = Vpa(selector, policies, before.loaded, before.former)  # Q3
        if (before.selector, before.policies) == (selector, policies):
            return
        there = [pod.labels for pod in self.pods.values() if pod.namespace == key[0]]
        there += [self.labels[one] for one in self.aggregates if one[0] == key[0]]
        after.former = {
            canonical(labels)
            for labels in there
            if (before.matches(labels) or canonical(labels) in before.former)
            and not after.matches(labels)
        }

    def rules(self, uid: str, container: str) -> Rules:
        pod = self.pods[uid]
        return self.rules_of((pod.namespace, container, canonical(pod.labels)))

    def rules_of(self, key: AggregateKey) -> Rules:
        """Q12: return the present rules of the VPAs; if several match, the last by name."""
        rules = self.defaults
        for (namespace, _), vpa in sorted(self.vpas.items()):
            if namespace == key[0] and vpa.matches(self.labels[key]):
                policy = vpa.policy(key[1])
                rules = Rules(
                    interval=policy.interval or rules.interval,
                    interval_count=policy.interval_count or rules.interval_count,
                    ratio=rules.ratio if policy.ratio is None else policy.ratio,
                    min_bump_up=rules.min_bump_up
                    if policy.min_bump_up is None
                    else policy.min_bump_up,
                )
        return rules

    def pod_count(self, vpa: VpaKey) -> int:
        return sum(
            pod.namespace == vpa[0] and self.vpas[vpa].matches(pod.labels)
            for pod in self.pods.values()
        )

    def linked(self, vpa: VpaKey) -> dict[AggregateKey, Aggregate]:
        """6.2: return the aggregates that match by namespace and labels."""
        return {
            key: aggregate
            for key, aggregate in self.aggregates.items()
            if key[0] == vpa[0] and self.vpas[vpa].matches(self.labels[key])
        }

    # 5.4

    def lifetime(self, key: AggregateKey) -> timedelta:
        """Return L, the lifetime of an aggregate."""
        rules = self.rules_of(key)
        return rules.interval * rules.interval_count

    def collect(self, now: datetime, resolved: Collection[VpaKey]) -> None:
        """Collect expired aggregates; ``resolved`` are VPAs whose targets exist."""
        contributive = {
            (pod.namespace, container, canonical(pod.labels))
            for pod in self.pods.values()
            for container in pod.containers
            if pod.active or any(self._controls(key, pod) for key in resolved)
        }
        for key, aggregate in list(self.aggregates.items()):
            needless = aggregate.samples == 0 and key not in contributive
            if needless and not aggregate.memory.empty:  # X97: kept while a target exists
                needless = not any(self._looks_at(vpa, key) for vpa in resolved)
            if needless or aggregate.age(now) >= self.lifetime(key):
                del self.aggregates[key]
        for vpa, spec in self.vpas.items():
            for name in [name for name in spec.loaded if self._is_silent(vpa, name, now)]:
                del spec.loaded[name]
        self._drop_unused()

    def _is_silent(self, vpa: VpaKey, container: str, now: datetime) -> bool:
        """X125: return whether the last sample that was loaded for a container has expired."""
        spec = self.vpas[vpa]
        known = [one for key, one in self.linked(vpa).items() if key[1] == container]
        newest = max(one.last_sample for one in (*known, spec.loaded[container]))
        policy = spec.policy(container)
        interval = policy.interval or self.defaults.interval
        count = policy.interval_count or self.defaults.interval_count
        return newest != ZERO and now - newest >= interval * count

    def rest(self) -> None:
        """X82: drop aggregates that no pod adds to. Later pods with their labels begin new ones."""
        inhabited = {(pod.namespace, canonical(pod.labels)) for pod in self.pods.values()}
        for key in list(self.aggregates):
            if (key[0], key[2]) not in inhabited and key not in self.resting:
                apart = (key[0], key[1], f"{key[2]} {len(self.resting)}")
                self.resting.add(apart)
                self.aggregates[apart] = self.aggregates.pop(key)
                self.labels[apart] = self.labels[key]
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Drop labels that no object has any more; they are new if they come again."""
        used = {(key[0], key[2]) for key in self.aggregates}
        used |= {(pod.namespace, canonical(pod.labels)) for pod in self.pods.values()}
        for key, vpa in self.vpas.items():
            vpa.former = {text for text in vpa.former if (key[0], text) in used}

    def _controls(self, vpa: VpaKey, pod: Pod) -> bool:
        return vpa[0] == pod.namespace and self.vpas[vpa].matches(pod.labels)

    def _looks_at(self, vpa: VpaKey, key: AggregateKey) -> bool:
        return vpa[0] == key[0] and self.vpas[vpa].matches(self.labels[key])

    def carried(self, vpa: VpaKey) -> list[Aggregate]:
        """Q4: return the aggregates whose running windows are saved beside the checkpoints."""
        names, former = self.merged(vpa).keys(), self.vpas[vpa].former
        mine = self.linked(vpa)
        return [
            aggregate
            for key, aggregate in self.aggregates.items()
            if key in mine or (key[0] == vpa[0] and key[1] in names and key[2] in former)
        ]

    # 7.1, 11.1

    def merged(self, vpa: VpaKey) -> dict[str, Aggregate]:
        """Return, by container name, the sum of all its aggregates and of the initial state."""
        found: dict[str, Aggregate] = {}
        for key, aggregate in sorted(self.linked(vpa).items()):
            found.setdefault(key[1], self.new_aggregate()).merge(aggregate)
        for name, loaded in self.vpas[vpa].loaded.items():
            found.setdefault(name, self.new_aggregate()).merge(loaded)
        return found

    def checkpoints(self, vpa: VpaKey, now: datetime) -> dict[str, Aggregate]:
        """Return the merged state without the current, unfinished peak of every live container."""
        found, linked = self.merged(vpa), self.linked(vpa).values()
        for pod in self.pods.values():
            for name, container in pod.containers.items():
                is_linked = any(one is container.aggregate for one in linked)
                if is_linked and now < container.window_end:
                    peak = max(container.mem_peak, container.oom_peak)
                    found[name].memory.subtract(peak, MEMORY_WEIGHT, container.window_end)
        return found
