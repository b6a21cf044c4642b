"""A random snapshot of a cluster of a few VPAs, and a random state of the updater."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from msgspec import structs

from builders import container, recommendation, vpa
from common.api.autoscaling import (
    EvictionRequirement,
    GenericStartupBoost,
    StartupBoost,
    UpdateMode,
    UpdatePolicy,
    VerticalPodAutoscaler,
)
from common.api.base import QuantityJson
from common.api.core import (
    Container,
    ContainerResizePolicy,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    PodCondition,
    PodStatus,
    ResourceQuota,
    ResourceQuotaStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec
from common.features import FeatureGates
from common.quantity import Quantity
from common.resources import parse_quantities
from common.target.owners import Controller
from updater.decision import Reason, wait
from updater.eviction.breaker import Breaker, Closed, Eviction, Open
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.resize.infeasible_resize import Infeasible, Part, Targets
from updater.resize.memory_decrease import MemoryUse, SentDecrease
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeCapacity, NodeStatus
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.rollout import Rollout
from updater.snapshot.workload_size import GroupSize
from updater.state import NO_MEMORY, PodMemory, ResizeRefusal, SentResize, UpdaterState
from updater.usage_watch import Usage

_CPU = ("50m", "90m", "100m", "110m", "300m", "1", "a lot")
_MEMORY = ("50Mi", "100Mi", "400Mi")
_IN_PLACE = (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE)
_WHOLE = ({"cpu": "0", "memory": "0"}, {"cpu": "80m"}, {"cpu": "2", "memory": "1Gi"})  # requests
_KINDS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Rollout")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomCluster:
    """The inputs of a pass."""

    snapshot: ClusterSnapshot
    state: UpdaterState
    rules: Rules
    admission_ready: bool
    memory_use: Usage = field(default_factory=dict)


def _whole(name: str, app: Container) -> ResourceRequirements | None:
    """Return resources of the whole pod, from a separate random generator."""
    stream = Random(f"{name} {app}")
    if stream.random() < 0.95:
        return None
    return ResourceRequirements(requests=stream.choice(_WHOLE))


def random_cluster(seed: int, *, now: datetime) -> RandomCluster:
    """Return a cluster; the same seed yields the same one."""
    drawn = _Draw(Random(seed), now).cluster()
    drawn = replace(drawn, snapshot=replace(drawn.snapshot, quotas=_quotas(seed)))
    return _with_memory_limits(drawn, seed, now)


def _with_memory_limits(given: RandomCluster, seed: int, now: datetime) -> RandomCluster:
    """Give some pods a high memory limit, and usage, from a separate random generator."""
    random = Random(f"memory limits {seed}")
    use, memories = {}, dict(given.state.pods)
    autoscaled = []
    for scaled in given.snapshot.autoscaled:
        pods = list(scaled.pods)
        for index, pod in enumerate(pods):
            if random.random() < 0.75 or pod.spec.containers[0].resources is None:
                continue
            pods[index] = _limited(pod)
            age = timedelta(minutes=random.choice((1, 1, 3)))
            most = random.choice((1, 1, 700)) << 20
            uid = pod.metadata.uid
            use[uid] = {
                "app": MemoryUse(most=most, oldest=now - timedelta(hours=1), newest=now - age)
            }
            if random.random() < 0.3:
                sent = SentDecrease(at=now - age, limit=Quantity.parse("900Mi"), is_last=False)
                memory = memories.get(uid, NO_MEMORY)
                memories[uid] = replace(memory, decreases={"app": sent})
        autoscaled.append(replace(scaled, pods=tuple(pods)))
    return replace(
        given,
        snapshot=replace(given.snapshot, autoscaled=tuple(autoscaled)),
        state=replace(given.state, pods=memories),
        memory_use=use,
    )


def _limited(pod: LivePod) -> LivePod:
    """Return the pod with a memory limit of 800Mi."""
    limited = [_with_limit(each.resources) for each in pod.spec.containers]
    containers = tuple(
        structs.replace(each, resources=resources)
        for each, resources in zip(pod.spec.containers, limited, strict=True)
    )
    statuses = pod.status.container_statuses
    if statuses is not None:
        statuses = tuple(
            structs.replace(each, resources=_with_limit(each.resources)) for each in statuses
        )
    return structs.replace(
        pod,
        spec=structs.replace(pod.spec, containers=containers),
        status=structs.replace(pod.status, container_statuses=statuses),
    )


def _with_limit(resources: ResourceRequirements | None) -> ResourceRequirements:
    found = resources or ResourceRequirements()
    return structs.replace(found, limits={**(found.limits or {}), "memory": "800Mi"})


def _quotas(seed: int) -> dict[str, tuple[ResourceQuota, ...]]:
    """Return a full quota for some namespaces, from a separate random generator."""
    if Random(f"quotas {seed}").random() < 0.9:
        return {}
    full = {"requests.cpu": "9", "requests.memory": "9Gi"}
    meta = ObjectMeta(name="team", namespace="default")
    status = ResourceQuotaStatus(hard=full, used=full)
    return {"default": (ResourceQuota(metadata=meta, status=status),)}


@dataclass(frozen=True, slots=True)
class _Draw:
    random: Random
    now: datetime

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def ago(self, hours: float) -> datetime:
        return self.now - timedelta(hours=hours) * self.random.random()

    def cluster(self) -> RandomCluster:
        autoscaled = tuple(self.scaled(f"vpa-{number}") for number in range(4))
        pods = [pod for each in autoscaled for pod in each.pods]
        memories = {pod.metadata.uid: self.memory() for pod in pods if self.often(0.5)}
        breakers = {
            each.vpa.metadata.uid: self.breaker(each) for each in autoscaled if self.often(0.5)
        }
        return RandomCluster(
            snapshot=ClusterSnapshot(
                autoscaled=autoscaled,
                living=frozenset(pod.metadata.uid for pod in pods),
                terminating=frozenset({"gone-0"} if self.often(0.5) else ()),
                nodes=self.nodes(),
            ),
            state=UpdaterState(memories, breakers),
            rules=self.rules(),
            admission_ready=self.often(0.9),
        )

    def nodes(self) -> dict[str, LiveNode]:
        allocatable = {"cpu": self.random.choice(("95m", "95m", "95m", "4")), "memory": "1Gi"}
        status = NodeStatus(allocatable=allocatable)
        return {"node": LiveNode(metadata=ObjectMeta(name="node"), status=status)}

    def rules(self) -> Rules:
        pick = self.random.choice
        return Rules(
            disruption=DisruptionPolicy(
                min_replicas=pick((1, 1, 2)),
                tolerance_fraction=pick((0.1, 0.5, 1.0)),
                in_place_skips_budget=self.often(0.5),
            ),
            features=FeatureGates(in_place=self.often(0.8), cpu_startup_boost=self.often(0.7)),
            checks_outcomes=self.often(0.5),
        )

    # VPAs

    def scaled(self, name: str) -> AutoscaledPods:
        mode = self.random.choice((*UpdateMode, *_IN_PLACE))
        owners = [
            Controller("default", self.random.choice(_KINDS), f"{name}-{number}", "apps/v1")
            for number in range(self.random.randint(1, 2))
        ]
        pods = tuple(self.pod(f"{name}-{number}") for number in range(self.random.randint(0, 6)))
        controllers = {
            pod.metadata.uid: self.random.choice(owners) for pod in pods if self.often(0.95)
        }
        live = {owner: list(controllers.values()).count(owner) for owner in owners}
        wanted = {
            owner: self.random.choice((count, count, count, count, count + 1, None))
            for owner, count in live.items()
        }
        return AutoscaledPods(
            vpa=self.vpa(name, mode),
            mode=mode,
            pods=pods,
            controllers=controllers,
            replicas=wanted,
            limit_ranges=self.limit_ranges(),
            sizes={
                owner: GroupSize(wanted=wanted[owner], existing=count)
                for owner, count in live.items()
            },
            **self.rolled_out(name, owners),
        )

    def rolled_out(self, name: str, owners: Sequence[Controller]) -> dict[str, Any]:
        """Return, in some cases, all ReplicaSets as those of one Deployment with a rollout."""
        if self.often(0.6):
            return {}
        web = Controller("default", "Deployment", name, "apps/v1")
        rollout = Rollout(
            replicas=self.random.randint(1, 6),
            max_unavailable=self.random.randint(0, 2),
            recreates=self.often(0.2),
        )
        return {
            "deployments": {owner: web for owner in owners if owner.kind == "ReplicaSet"},
            "rollouts": {web: rollout},
        }

    def vpa(self, name: str, mode: UpdateMode) -> VerticalPodAutoscaler:
        advice = recommendation(
            target={"cpu": "100m", "memory": "100Mi"},
            lower={"cpu": self.random.choice(("60m", "100m"))},
            upper={"cpu": self.random.choice(("100m", "400m"))},
        )
        given = vpa(name, mode=mode.value, recommendations=(advice,) if self.often(0.9) else None)
        requirement = EvictionRequirement(
            resources=("cpu",), change_requirement="TargetHigherThanRequests"
        )
        policy = UpdatePolicy(
            update_mode=mode.value,
            min_replicas=self.random.choice((None, None, 1, 2)),
            eviction_requirements=(requirement,) if self.often(0.3) else None,
        )
        boost = StartupBoost(
            cpu=GenericStartupBoost(
                type="Factor", factor=2, duration_seconds=self.random.choice((0, 60, 7200))
            )
        )
        spec = structs.replace(
            given.spec, update_policy=policy, startup_boost=boost if self.often(0.4) else None
        )
        return structs.replace(given, spec=spec)

    def limit_ranges(self) -> tuple[LimitRangeSpec, ...]:
        if self.often(0.8):
            return ()
        ratio = LimitRangeItem(type="Container", max_limit_request_ratio={"cpu": "2"})
        return (LimitRangeSpec(limits=(ratio,)),)

    def breaker(self, scaled: AutoscaledPods) -> Breaker:
        seen = frozenset(pod.metadata.uid for pod in scaled.pods if self.often(0.7))
        owed = [
            Eviction(
                workload=owner,
                uid=f"gone-{number}",
                vpa=scaled.vpa,
                gone_since=self.ago(0.1),
                lost=self.often(0.2),
            )
            for number, owner in enumerate(scaled.sizes)
            if self.often(0.5)
        ]
        is_open = self.often(0.3)
        return Breaker(
            state=Open(self.ago(1) + timedelta(minutes=30))
            if is_open
            else Closed(self.random.choice((0, 1, 2, 2))),
            unanswered=tuple(owed),
            seen=seen if owed or is_open else frozenset(),
        )

    # Pods

    def pod(self, name: str) -> LivePod:
        boosted = self.often(0.3)
        annotations = {"vpaInPlaceUpdated": "true"} if self.often(0.3) else {}
        if boosted:
            annotations["vpaCpuStartupBoost/app"] = '{"requests":{"cpu":"100m"},"limits":{}}'
        if self.often(0.8):
            annotations["vpaObservedContainers"] = "app"
        restarts = (ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),)
        app = self.container() if self.often(0.95) else container()
        app = structs.replace(app, resize_policy=restarts if self.often(0.3) else None)
        return LivePod(
            metadata=LivePodMeta(
                name=name,
                namespace="default",
                uid=f"uid-{name}",
                generation=self.random.randint(1, 3),
                resource_version="1",
                creation_timestamp=self.ago(48),
                annotations=annotations,
            ),
            spec=SchedulablePodSpec(
                containers=(app,), node_name="node", resources=_whole(name, app)
            ),
            status=PodStatus(
                phase="Pending" if self.often(0.05) else "Running",
                start_time=self.ago(24) if self.often(0.95) else None,
                qos_class="Burstable" if app.resources and app.resources.requests else "BestEffort",
                conditions=self.conditions(),
                container_statuses=(self.status(app),) if self.often(0.6) else None,
            ),
        )

    def container(self) -> Container:
        amounts: dict[str, QuantityJson] = {
            "cpu": self.random.choice(_CPU[: 7 if self.often(0.1) else 6]),
            "memory": self.random.choice(_MEMORY),
        }
        limits: Mapping[str, QuantityJson] | None = {"cpu": "3"} if self.often(0.2) else None
        return container(requests=amounts, limits=limits)

    def conditions(self) -> tuple[PodCondition, ...]:
        found = []
        if self.often(0.45):
            kind, reason = self.random.choice(
                (
                    *(("PodResizePending", "Deferred"), ("PodResizePending", "Infeasible")),
                    *(("PodResizeInProgress", ""), ("PodResizeInProgress", "Error")),
                    ("PodResizePending", "Sulking"),
                )
            )
            since = self.ago(2) if self.often(0.8) else None
            found.append(self.condition(kind, reason, since))
        if self.often(0.9):
            found.append(self.condition("Ready", "", self.ago(3)))
        return tuple(found)

    def condition(self, kind: str, reason: str, since: datetime | None) -> PodCondition:
        return PodCondition(type=kind, status="True", reason=reason, last_transition_time=since)

    def status(self, app: Container) -> ContainerStatus:
        ended = ContainerStateTerminated(
            reason="OOMKilled", started_at=self.ago(2), finished_at=self.now
        )
        return ContainerStatus(
            name="app",
            resources=self.container().resources if self.often(0.3) else app.resources,
            last_state=ContainerState(terminated=ended) if self.often(0.5) else None,
        )

    def memory(self) -> PodMemory:
        targets = {"app": parse_quantities({"cpu": self.random.choice(("50m", "100m", "200m"))})}
        reason = self.random.choice(
            (Reason.QUOTA_EXCEEDED, Reason.RESIZE_REFUSED, Reason.RESIZE_RETRY)
        )
        sent = SentResize(
            at=self.ago(2),
            generation=self.random.randint(0, 3),
            resource_version=self.random.choice(("1", "0")),
            restarts=self.often(0.3),
        )
        until = self.now + timedelta(minutes=self.random.randint(-2, 2))
        refusal = ResizeRefusal(reason=reason, tries=2, until=until, targets=targets)
        return PodMemory(
            evicted=self.often(0.05),
            sent=sent if self.often(0.3) else None,
            infeasible=self.infeasible(targets) if self.often(0.5) else None,
            refusal=refusal if self.often(0.5) else None,
            resizing_seen_at=self.ago(1) if self.often(0.3) else None,
            decision=wait(Reason.BUDGET_EXHAUSTED) if self.often(0.5) else None,
        )

    def infeasible(self, targets: Targets) -> Infeasible:
        node = NodeCapacity(
            node="node", allocatable=parse_quantities({"cpu": "100m", "memory": "1Gi"})
        )
        part = self.random.choice(tuple(Part))
        reported = part is Part.UNTRIED and self.often(0.5)
        return Infeasible(targets=targets, reported=reported, node=node, part=part)
