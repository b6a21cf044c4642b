"""OOM kills that the recommendation doesn't reflect yet, and the actions that they delay (D36)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from builders import container, recommendation, vpa
from common.annotations import startup_boost_key
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    UpdateMode,
)
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    PodCondition,
    PodStatus,
    ResourceRequirements,
)
from common.api.scheduling import SchedulablePodSpec
from common.features import FeatureGates
from common.patches import Operation
from common.quantity import parse_value
from updater.decision import Action, Decision, Reason
from updater.resize.memory_decrease import MemoryUse
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.state import UpdaterState
from updater_harness import NOW, OPEN, WEB, RecordingActuator, run

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
BOOSTING = replace(OPEN, features=FeatureGates(in_place=True, cpu_startup_boost=True))
IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
RECREATE = (UpdateMode.RECREATE, UpdateMode.AUTO)
Amounts = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Killed:
    """A container, and the age of its kills."""

    requests: Amounts = field(default_factory=lambda: {"cpu": "100m", "memory": "300Mi"})
    limits: Amounts | None = field(default_factory=lambda: {"memory": "300Mi"})
    ago: timedelta | None = timedelta(hours=1)
    before: timedelta | None = (
        None  # age of an earlier kill; then ``ago`` is that of the current state
    )
    reason: str = "OOMKilled"

    def status(self, name: str) -> ContainerStatus:
        last, now = (self.ago, None) if self.before is None else (self.before, self.ago)
        return ContainerStatus(
            name=name,
            resources=ResourceRequirements(requests=self.requests, limits=self.limits),
            state=self.ended(now),
            last_state=self.ended(last),
        )

    def ended(self, ago: timedelta | None) -> ContainerState | None:
        if ago is None:
            return None
        at = NOW - ago
        return ContainerState(
            terminated=ContainerStateTerminated(
                reason=self.reason, started_at=at - MINUTE, finished_at=at
            )
        )


def live_pod(
    containers: Mapping[str, Killed], *, annotations: Mapping[str, str] | None = None
) -> LivePod:
    return LivePod(
        metadata=LivePodMeta(
            name="web-0", namespace="default", uid="uid-web-0", annotations=annotations
        ),
        spec=SchedulablePodSpec(
            containers=tuple(
                container(name, requests=each.requests, limits=each.limits)
                for name, each in containers.items()
            )
        ),
        status=PodStatus(
            phase="Running",
            start_time=NOW - DAY,
            qos_class="Burstable",
            conditions=(PodCondition(type="Ready", status="True"),),
            container_statuses=tuple(each.status(name) for name, each in containers.items()),
        ),
    )


def cluster(
    pod: LivePod,
    targets: Mapping[str, Amounts],
    *,
    mode: UpdateMode,
    policies: tuple[ContainerPolicy, ...] = (),
    most_memory: str = "",
) -> ClusterSnapshot:
    limits = LimitRangeItem(type="Container", max={"memory": most_memory})
    scaled = AutoscaledPods(
        vpa=vpa(
            mode=mode.value,
            policies=policies,
            recommendations=tuple(
                recommendation(name, target=target, lower=target, upper=target)
                for name, target in targets.items()
            ),
        ),
        mode=mode,
        pods=(pod,),
        controllers={pod.metadata.uid: WEB},
        replicas={WEB: 1},
        limit_ranges=(LimitRangeSpec(limits=(limits,)),) if most_memory else (),
    )
    return ClusterSnapshot(autoscaled=(scaled,), living=frozenset({pod.metadata.uid}))


ONE = replace(OPEN, disruption=replace(OPEN.disruption, min_replicas=1))


async def one_pass(
    given: ClusterSnapshot, *, state: UpdaterState | None = None
) -> tuple[Decision, Sequence[Operation], UpdaterState]:
    """Return the decision, the operations of a resize, and the state; containers use no memory."""
    actuator = RecordingActuator()
    names = (each.name for pod in given.autoscaled[0].pods for each in pod.spec.containers)
    unused = dict.fromkeys(names, MemoryUse(most=0, oldest=NOW - timedelta(hours=1), newest=NOW))
    after = await run(given, actuator, state=state, rules=ONE, memory_use={"uid-web-0": unused})
    decision = after.of("uid-web-0").decision
    assert decision is not None
    sent = [call[3] for call in actuator.calls if call[0] == "resize"]
    operations: Sequence[Operation] = sent[0] if sent else ()  # type: ignore[assignment]  # calls hold objects
    return decision, operations, after


LESS = {"cpu": "200m", "memory": "250Mi"}  # less memory than 300Mi, more CPU than 100m
WAIT, CPU_ALONE, ALL, REFUSED = "wait", "cpu alone", "all", "refused"


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    killed: Killed = field(default_factory=Killed)
    target: Amounts = field(default_factory=lambda: LESS)
    evicts: bool  # in modes with evictions
    resizes: str  # in modes with resizes
    until: datetime | None = None  # end of the wait
    policies: tuple[ContainerPolicy, ...] = ()
    most_memory: str = ""  # maximum of the namespace's LimitRange


REQUESTS_ONLY = ContainerPolicy(container_name="app", controlled_values="RequestsOnly")
AT_MOST = ContainerPolicy(container_name="app", max_allowed={"memory": "280Mi"})
CASES = [
    Case(
        id="less memory, an hour after the kill",
        evicts=False,
        resizes=CPU_ALONE,
        until=NOW + timedelta(hours=23),
    ),
    Case(
        id="only less memory, an hour after the kill",
        target={"cpu": "100m", "memory": "250Mi"},
        evicts=False,
        resizes=WAIT,
        until=NOW + timedelta(hours=23),
    ),
    Case(
        id="a second before the day is over",
        killed=Killed(ago=DAY - timedelta(seconds=1)),
        evicts=False,
        resizes=CPU_ALONE,
        until=NOW + timedelta(seconds=1),
    ),
    Case(id="a day after the kill", killed=Killed(ago=DAY), evicts=True, resizes=ALL),
    Case(id="never killed", killed=Killed(ago=None), evicts=True, resizes=ALL),
    Case(
        id="terminated for another reason", killed=Killed(reason="Error"), evicts=True, resizes=ALL
    ),
    Case(
        id="an old kill, and a new one in the current state",
        killed=Killed(before=2 * DAY, ago=MINUTE),
        evicts=False,
        resizes=CPU_ALONE,
        until=NOW + DAY - MINUTE,
    ),
    Case(
        id="a target equal to the limit at the kill",
        target={"cpu": "200m", "memory": "300Mi"},
        evicts=True,
        resizes=ALL,
    ),
    Case(
        id="a target one byte above the limit at the kill",
        killed=Killed(requests={"cpu": "100m", "memory": "400Mi"}),
        target={"cpu": "200m", "memory": str(parse_value("300Mi") + 1)},
        evicts=True,
        resizes=ALL,
    ),
    Case(
        id="no limit: killed at its request",
        killed=Killed(limits=None),
        evicts=False,
        resizes=CPU_ALONE,
        until=NOW + timedelta(hours=23),
    ),
    Case(
        id="killed at a limit far above the target, and gets more memory",
        killed=Killed(requests={"cpu": "100m", "memory": "100Mi"}, limits={"memory": "1Gi"}),
        evicts=True,
        resizes=ALL,
    ),
    Case(
        id="killed at a limit far above the target, two minutes ago",
        killed=Killed(
            requests={"cpu": "100m", "memory": "100Mi"}, limits={"memory": "1Gi"}, ago=2 * MINUTE
        ),
        evicts=True,
        resizes=ALL,
    ),
    Case(
        id="killed at a limit far above the target, a minute ago",
        killed=Killed(
            requests={"cpu": "100m", "memory": "100Mi"}, limits={"memory": "1Gi"}, ago=MINUTE
        ),
        evicts=False,
        resizes=ALL,
        until=NOW + MINUTE,
    ),
    Case(
        id="a target above the limit at the kill, a minute after the kill",
        killed=Killed(ago=MINUTE),
        target={"cpu": "200m", "memory": "400Mi"},
        evicts=True,
        resizes=ALL,
    ),
    Case(
        id="no memory recommended",
        target={"cpu": "200m"},
        evicts=True,
        resizes=ALL,
    ),
    Case(
        id="RequestsOnly, at most the limit",
        killed=Killed(limits={"memory": "400Mi"}),
        policies=(REQUESTS_ONLY,),
        evicts=False,
        resizes=CPU_ALONE,
        until=NOW + timedelta(hours=23),
    ),
    Case(
        id="reflected, and capped by maxAllowed",
        target={"cpu": "200m", "memory": "400Mi"},
        policies=(AT_MOST,),
        evicts=False,
        resizes=CPU_ALONE,
        until=NOW + timedelta(hours=23),
    ),
    Case(
        id="reflected, and capped by a LimitRange",
        target={"cpu": "200m", "memory": "400Mi"},
        most_memory="280Mi",
        evicts=False,
        resizes=REFUSED,
        until=NOW + timedelta(hours=23),
    ),
    Case(
        id="neither request nor limit",
        killed=Killed(requests={"cpu": "100m"}, limits=None),
        evicts=True,
        resizes=ALL,
    ),
]


def changed_resources(operations: Sequence[Operation]) -> set[str]:
    """Return the resources that a resize changes."""
    return {operation.path.rpartition("/")[2] for operation in operations} - {
        "requests",
        "limits",
        "resources",
    }


@pytest.mark.parametrize("mode", RECREATE)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_an_eviction_waits_until_the_recommendation_reflects_a_kill(
    case: Case, mode: UpdateMode
) -> None:
    given = cluster(
        live_pod({"app": case.killed}),
        {"app": case.target},
        mode=mode,
        policies=case.policies,
        most_memory=case.most_memory,
    )
    decision, _, _ = await one_pass(given)
    if case.evicts:
        assert decision.action is Action.EVICT
    else:
        assert (decision.action, decision.reason) == (Action.WAIT, Reason.OOM_NOT_LEARNT_YET)
        assert decision.until == case.until


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_resize_excludes_memory_until_the_recommendation_reflects_a_kill(
    case: Case, mode: UpdateMode
) -> None:
    given = cluster(
        live_pod({"app": case.killed}),
        {"app": case.target},
        mode=mode,
        policies=case.policies,
        most_memory=case.most_memory,
    )
    decision, operations, _ = await one_pass(given)
    if case.resizes == WAIT:
        assert (decision.action, decision.reason) == (Action.WAIT, Reason.OOM_NOT_LEARNT_YET)
        assert decision.until == case.until
    elif case.resizes == REFUSED:  # the unchanged limit is above the LimitRange's maximum
        refused = (Action.LEAVE, Reason.REPLACEMENT_WOULD_BE_REFUSED)
        waits = (Action.WAIT, Reason.OOM_NOT_LEARNT_YET)
        wanted = refused if mode is UpdateMode.IN_PLACE else waits
        assert (decision.action, decision.reason) == wanted
        assert not operations
    else:
        assert decision.action is Action.RESIZE
        assert changed_resources(operations) == (
            {"cpu"} if case.resizes == CPU_ALONE else set(case.target)
        )


@pytest.mark.parametrize("mode", IN_PLACE)
async def test_the_other_containers_are_resized(mode: UpdateMode) -> None:
    pod = live_pod({"app": Killed(), "sidecar": Killed(ago=None)})
    targets = {"app": {"cpu": "100m", "memory": "250Mi"}, "sidecar": {"memory": "250Mi"}}
    decision, operations, _ = await one_pass(cluster(pod, targets, mode=mode))
    assert decision.action is Action.RESIZE
    assert {operation.path.split("/")[3] for operation in operations} == {"1"}


async def test_an_eviction_instead_of_an_infeasible_resize_waits() -> None:
    """The resize is infeasible, and a replacement would have less memory."""
    pod = live_pod({"app": Killed()})
    pending = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    pod = structs.replace(pod, status=structs.replace(pod.status, conditions=(pending,)))
    given = cluster(pod, {"app": LESS}, mode=UpdateMode.IN_PLACE_OR_RECREATE)
    decision, operations, _ = await one_pass(given)
    assert not operations
    assert (decision.action, decision.reason) == (Action.WAIT, Reason.OOM_NOT_LEARNT_YET)


async def test_a_container_that_no_eviction_changes_delays_no_eviction() -> None:
    """Another webhook injected it after ours, so its replacement is equal."""
    pod = live_pod(
        {"app": Killed(ago=None), "injected": Killed()},
        annotations={"vpaObservedContainers": "app"},
    )
    given = cluster(pod, {"app": LESS, "injected": LESS}, mode=UpdateMode.RECREATE)
    decision, _, _ = await one_pass(given)
    assert decision.action is Action.EVICT


async def test_memory_that_a_resize_added_after_the_kill_does_not_count() -> None:
    """The container was killed at 300Mi and has 488Mi since then."""
    mode = UpdateMode.IN_PLACE
    killed = live_pod({"app": Killed(ago=2 * MINUTE)})
    decision, operations, state = await one_pass(
        cluster(killed, {"app": {"cpu": "100m", "memory": "488Mi"}}, mode=mode)
    )
    assert decision.action is Action.RESIZE
    assert changed_resources(operations) >= {"memory"}
    grown = Killed(
        requests={"cpu": "100m", "memory": "488Mi"},
        limits={"memory": "488Mi"},
        ago=2 * MINUTE,
    )
    grew = live_pod({"app": grown})
    grew = structs.replace(grew, metadata=structs.replace(grew.metadata, resource_version="2"))
    given = cluster(grew, {"app": {"cpu": "100m", "memory": "400Mi"}}, mode=mode)
    decision, _, _ = await one_pass(given, state=state)
    assert decision.action is Action.RESIZE
    as_before = cluster(grew, {"app": {"cpu": "100m", "memory": "300Mi"}}, mode=mode)
    decision, _, _ = await one_pass(as_before, state=state)
    assert decision.reason is Reason.OOM_NOT_LEARNT_YET
    decision, _, _ = await one_pass(given)  # after a restart of the updater
    assert decision.reason is Reason.OOM_NOT_LEARNT_YET


async def test_a_resize_of_another_resource_answers_no_kill() -> None:
    given = cluster(live_pod({"app": Killed()}), {"app": LESS}, mode=UpdateMode.IN_PLACE)
    _, operations, state = await one_pass(given)
    assert changed_resources(operations) == {"cpu"}
    has = Killed(requests={"cpu": "200m", "memory": "300Mi"})
    given = cluster(live_pod({"app": has}), {"app": LESS}, mode=UpdateMode.IN_PLACE)
    after = {uid: replace(memory, sent=None) for uid, memory in state.pods.items()}
    decision, _, _ = await one_pass(given, state=UpdaterState(after))
    assert decision.reason is Reason.OOM_NOT_LEARNT_YET


async def test_the_end_of_a_boost_does_not_change_the_memory() -> None:
    note = {startup_boost_key("app"): '{"requests":{"cpu":"50m"},"limits":{}}'}
    pod = live_pod({"app": Killed()}, annotations=note)
    pod = structs.replace(
        pod,
        status=structs.replace(
            pod.status,
            conditions=(PodCondition(type="Ready", status="True", last_transition_time=NOW - DAY),),
        ),
    )
    given = cluster(pod, {"app": LESS}, mode=UpdateMode.RECREATE)
    (scaled,) = given.autoscaled
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2, duration_seconds=0))
    spec = structs.replace(scaled.vpa.spec, startup_boost=boost)
    scaled = replace(scaled, vpa=structs.replace(scaled.vpa, spec=spec))
    actuator = RecordingActuator()
    await run(
        replace(given, autoscaled=(scaled,)),
        actuator,
        rules=replace(BOOSTING, disruption=ONE.disruption),
    )
    (sent,) = [call[3] for call in actuator.calls if call[0] == "resize"]
    assert changed_resources(sent) == {"cpu"}  # type: ignore[arg-type]  # calls hold objects


# Random containers: no eviction or resize lowers the memory while a kill is not reflected

MEMORY = st.sampled_from(["100Mi", "250Mi", "300Mi", "301Mi", "500Mi", "1Gi"])
CONTAINERS = st.builds(
    Killed,
    requests=st.builds(lambda memory: {"cpu": "100m", "memory": memory}, MEMORY),
    limits=st.none() | st.builds(lambda memory: {"memory": memory}, MEMORY),
    ago=st.none() | st.integers(0, 30 * 60).map(lambda minutes: minutes * MINUTE),
    before=st.none() | st.just(2 * DAY),
)
TARGETS = st.builds(
    lambda cpu, memory: {"cpu": cpu, "memory": memory}, st.sampled_from(["50m", "1"]), MEMORY
)


@given(
    containers=st.dictionaries(st.sampled_from(["a", "b", "c"]), CONTAINERS, min_size=1),
    targets=st.dictionaries(st.sampled_from(["a", "b", "c"]), TARGETS),
    mode=st.sampled_from([*RECREATE, *IN_PLACE]),
)
async def test_no_action_lowers_the_memory_at_which_a_container_was_killed(
    containers: Mapping[str, Killed], targets: Mapping[str, Amounts], mode: UpdateMode
) -> None:
    pod = live_pod(containers)
    decision, operations, _ = await one_pass(cluster(pod, targets, mode=mode))
    for index, (name, killed) in enumerate(containers.items()):
        if name not in targets or killed.ago is None or killed.ago >= DAY:
            continue
        has = parse_value(killed.requests["memory"])
        killed_at = has if killed.limits is None else parse_value(killed.limits["memory"])
        target = parse_value(targets[name]["memory"])
        if target > killed_at or target >= has:
            continue
        assert decision.action is not Action.EVICT
        assert not [
            operation
            for operation in operations
            if operation.path.startswith(f"/spec/containers/{index}/")
            and operation.path.endswith("/memory")
        ]
