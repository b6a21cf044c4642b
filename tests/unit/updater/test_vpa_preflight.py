"""The effect of the preflight in passes over one VPA; the table is ``preflight.md``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from builders import container, recommendation, vpa
from common.annotations import startup_boost_key
from common.api.autoscaling import StartupBoost, UpdateMode
from common.api.core import (
    Container,
    LimitRangeItem,
    LimitRangeSpec,
    PodCondition,
    PodStatus,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec
from common.features import FeatureGates
from updater.decision import Action, Decision, Reason, leave, wait
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.pass_context import Rules
from updater.resize.memory_decrease import MemoryUse
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.state import UpdaterState
from updater_harness import NOW, WEB, FakeActuator, preview, run

Amounts = Mapping[str, str]
TARGET = {"cpu": "200m", "memory": "200Mi"}
CHANGES = "app cpu 100m -> 200m, memory 100Mi -> 200Mi"
RULES = Rules(
    disruption=DisruptionPolicy(tolerance_fraction=0.5),
    features=FeatureGates(in_place=True),
    checks_outcomes=False,
)


def app(requests: Amounts | None = None, limits: Amounts | None = None) -> Container:
    return container(requests=requests, limits=limits)


def limit_range(kind: str = "Container", **parts: Amounts) -> LimitRangeSpec:
    return LimitRangeSpec(limits=(LimitRangeItem(type=kind, **parts),))


def quota(
    hard: Amounts, used: Amounts, *, scopes: Sequence[str] | None = None
) -> tuple[ResourceQuota, ...]:
    return (
        ResourceQuota(
            metadata=ObjectMeta(name="team", namespace="default"),
            spec=ResourceQuotaSpec(scopes=None if scopes is None else tuple(scopes)),
            status=ResourceQuotaStatus(hard=hard, used=used),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class PreflightCase:
    """A pod whose container ``app`` has 100m and 100Mi; the target is twice as much."""

    has: Container = field(default_factory=lambda: app({"cpu": "100m", "memory": "100Mi"}))
    beside: tuple[Container, ...] = ()
    stanza: ResourceRequirements | None = None
    limit_ranges: tuple[LimitRangeSpec, ...] = ()
    quotas: Mapping[str, tuple[ResourceQuota, ...]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    qos_class: str = "Burstable"
    refused: bool = False  # by a dry run of the last pass


USED = {"requests.cpu": "500m"}  # two pods with 200m, and the one with 100m
SHORT = quota({"requests.cpu": "599m"}, USED)
PREFLIGHT_CASES = {
    "breaks nothing": PreflightCase(),
    "LimitRange: no limit where there has to be one": PreflightCase(
        limit_ranges=(limit_range(max={"memory": "1Gi"}),)
    ),
    "LimitRange: a default limit below a request": PreflightCase(
        limit_ranges=(limit_range(default={"memory": "150Mi"}),),
        has=app({"cpu": "100m", "memory": "100Mi"}, {"cpu": "150m"}),
        beside=(container("log", requests={"cpu": "1m", "memory": "151Mi"}),),
    ),
    "LimitRange: the minimum of a Pod": PreflightCase(
        limit_ranges=(limit_range("Pod", min={"ephemeral-storage": "1Gi"}),)
    ),
    "pod-level request: the containers are fitted into it": PreflightCase(
        stanza=ResourceRequirements(requests={"cpu": "199m"})
    ),
    "pod-level request: the containers need as much": PreflightCase(
        stanza=ResourceRequirements(requests={"cpu": "200m"})
    ),
    "pod-level limit: a container has more": PreflightCase(
        has=app({"cpu": "100m", "memory": "100Mi"}, {"cpu": "100m"}),
        stanza=ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "1", "memory": "1Gi"}),
        beside=(container("log", requests={"cpu": "1m"}, limits={"cpu": "1001m"}),),
    ),
    "quota: one millicore short": PreflightCase(quotas={"default": SHORT}),
    "quota: fits exactly": PreflightCase(quotas={"default": quota({"requests.cpu": "600m"}, USED)}),
    "quota: of a scope that can't be judged": PreflightCase(
        quotas={
            "default": quota({"requests.cpu": "599m"}, USED, scopes=["CrossNamespacePodAffinity"])
        }
    ),
    "quota: counts what no container states": PreflightCase(
        quotas={"default": quota({"limits.cpu": "9"}, {"limits.cpu": "0"})}
    ),
    "quota: of another namespace": PreflightCase(quotas={"elsewhere": SHORT}),
    "QoS class: another one": PreflightCase(has=app(), qos_class="BestEffort"),
    "QoS class: another one, and the quota is short": PreflightCase(
        has=app(),
        qos_class="BestEffort",
        quotas={"default": quota({"requests.cpu": "599m"}, {"requests.cpu": "400m"})},
    ),
    "a resize that a LimitRange refuses, a replacement passes": PreflightCase(
        beside=(container("log", requests={"cpu": "2"}, limits={"cpu": "2"}),),
        has=app({"cpu": "100m", "memory": "100Mi"}, {"cpu": "100m"}),
        annotations={
            startup_boost_key("log"): '{"requests":{"cpu":"100m"},"limits":{"cpu":"100m"}}'
        },
        limit_ranges=(limit_range(max={"cpu": "1"}),),
    ),
    "dry run: a policy refuses": PreflightCase(refused=True),
}
MODES = {
    "Recreate": UpdateMode.RECREATE,
    "InPlaceOrRecreate": UpdateMode.IN_PLACE_OR_RECREATE,
    "InPlace": UpdateMode.IN_PLACE,
}


def pod(name: str, case: PreflightCase) -> LivePod:
    good = PreflightCase(has=app(TARGET))
    mine = case if name == "web-0" else replace(good, stanza=None)
    return LivePod(
        metadata=LivePodMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            generation=1,
            annotations=dict(mine.annotations) or None,
        ),
        spec=SchedulablePodSpec(containers=(mine.has, *mine.beside), resources=mine.stanza),
        status=PodStatus(phase="Running", start_time=NOW, qos_class=mine.qos_class),
    )


def cluster(case: PreflightCase, mode: UpdateMode, *, names: Sequence[str] = ()) -> ClusterSnapshot:
    pods = tuple(pod(name, case) for name in names or ("web-0", "web-1", "web-2"))
    exactly = recommendation(target=TARGET, lower=TARGET, upper=TARGET)
    scaled = AutoscaledPods(
        vpa=vpa(mode=mode.value, recommendations=(exactly,)),
        mode=mode,
        pods=pods,
        controllers={each.metadata.uid: WEB for each in pods},
        replicas={WEB: len(pods)},
        limit_ranges=case.limit_ranges,
    )
    living = frozenset(each.metadata.uid for each in pods)
    return ClusterSnapshot(autoscaled=(scaled,), living=living, quotas=case.quotas)


def state_before(case: PreflightCase, given: ClusterSnapshot) -> UpdaterState:
    """Return the state after an earlier pass."""
    if not case.refused:
        return UpdaterState()
    autoscaler = given.autoscaled[0].vpa
    until = NOW + timedelta(minutes=1)
    refusal = DryRunRefusal(
        decision=wait(Reason.REPLACEMENT_WOULD_BE_REFUSED, until=until, detail="too big"),
        generation=1,
        recommendation=autoscaler.status.recommendation,
        policy=autoscaler.spec.resource_policy,
        tries=1,
        until=until,
    )
    return UpdaterState(dry_runs={WEB: refusal})


def cells() -> Iterator[tuple[str, str, str]]:
    text = Path(__file__).with_name("preflight.md").read_text(encoding="utf-8")
    modes = tuple[str, ...]()
    for line in text.splitlines():
        if line.startswith("| "):
            rule, *wants = (cell.strip() for cell in line.strip("|").split("|"))
            if not modes:
                modes = tuple(wants)
                continue
            yield from ((rule, mode, want) for mode, want in zip(modes, wants, strict=True))


CELLS = tuple(cells())
# A memory limit that is added waits for usage (X139).
UNUSED = {"uid-web-0": {"app": MemoryUse(most=0, oldest=NOW - timedelta(minutes=15), newest=NOW)}}


@pytest.mark.parametrize(("rule", "mode", "want"), CELLS)
async def test_preflight(rule: str, mode: str, want: str) -> None:
    case, actuator = PREFLIGHT_CASES[rule], FakeActuator()
    given = cluster(case, MODES[mode])
    before = state_before(case, given)
    after = await run(given, actuator, state=before, rules=RULES, memory_use=UNUSED)
    decision = after.of("uid-web-0").decision
    assert decision is not None
    assert f"{decision.action.value} {decision.reason.value}" == want
    assert actuator.resized == (["web-0"] if want.startswith("resize") else [])
    assert actuator.evicted == (["web-0"] if want.startswith("evict") else [])
    if "replacement" not in want:
        assert not actuator.refused
    elif want.startswith("leave"):
        assert actuator.blocked == [("web-0", Reason.RESIZE_REFUSED, CHANGES)]
        assert actuator.obstacles == {"web-0": decision.detail}, "an Event with the numbers"
        assert decision.detail
    else:
        assert actuator.refused == {"web-0": decision.detail}, "an Event with the numbers"
        assert decision.detail


@pytest.mark.parametrize(("rule", "mode", "want"), CELLS)
async def test_the_plan_has_the_same_decision(rule: str, mode: str, want: str) -> None:
    case = PREFLIGHT_CASES[rule]
    given = cluster(case, MODES[mode])
    planned = await preview(given, state_before(case, given), rules=RULES, memory_use=UNUSED)
    found = planned["uid-web-0"]
    assert f"{found.action.value} {found.reason.value}" == want
    assert bool(found.detail) is ("would" in want and not want.startswith("evict"))


def test_every_case_is_in_the_table() -> None:
    assert {rule for rule, _, _ in CELLS} == set(PREFLIGHT_CASES)


async def test_an_event_is_emitted_once_per_change() -> None:
    given = cluster(PREFLIGHT_CASES["quota: one millicore short"], UpdateMode.RECREATE)
    first, second = FakeActuator(), FakeActuator()
    state = await run(given, first, rules=RULES)
    await run(given, second, state=state, rules=RULES)
    assert first.refused == {
        "web-0": "ResourceQuota team allows 599m of requests.cpu, other pods use 400m, and the pod "
        "would use 200m instead of 100m"
    }
    assert not second.refused


async def test_a_resize_that_would_be_refused_is_blocked_until_it_would_be_accepted() -> None:
    tight = cluster(PREFLIGHT_CASES["quota: one millicore short"], UpdateMode.IN_PLACE)
    roomy = cluster(PREFLIGHT_CASES["quota: fits exactly"], UpdateMode.IN_PLACE)
    actuator = FakeActuator()
    state = UpdaterState()
    for given in (tight, tight, roomy):
        state = await run(given, actuator, state=state, rules=RULES)
    assert actuator.blocked == [("web-0", Reason.RESIZE_REFUSED, CHANGES)]
    assert actuator.unblocked == [("web-0", Reason.OUTSIDE_RANGE, CHANGES)]
    assert not actuator.refused


async def test_a_blocked_resize_that_is_no_longer_wanted_is_reported_as_unblocked() -> None:
    actuator = FakeActuator()
    tight = cluster(PREFLIGHT_CASES["quota: one millicore short"], UpdateMode.IN_PLACE)
    state = await run(tight, actuator, rules=RULES)
    settled = cluster(PreflightCase(has=app(TARGET)), UpdateMode.IN_PLACE)
    await run(settled, actuator, state=state, rules=RULES)
    assert actuator.unblocked == [("web-0", Reason.TOO_YOUNG, CHANGES)]


@pytest.mark.parametrize("mode", [UpdateMode.OFF, *MODES.values()])
async def test_the_end_of_a_boost_that_would_be_refused_is_blocked_until_accepted(
    mode: UpdateMode,
) -> None:
    case = PreflightCase(
        has=app({"cpu": "500m", "memory": "200Mi"}),
        annotations={startup_boost_key("app"): '{"requests":{"cpu":"100m"}}'},
    )
    given = cluster(case, mode, names=["web-0"])
    (scaled,) = given.autoscaled
    boosting = structs.replace(scaled.vpa.spec, startup_boost=StartupBoost())
    ready = PodCondition(type="Ready", status="True", last_transition_time=NOW - timedelta(hours=1))
    (boosted,) = scaled.pods
    status = structs.replace(boosted.status, conditions=(ready,))
    tight = replace(
        scaled,
        vpa=structs.replace(scaled.vpa, spec=boosting),
        pods=(structs.replace(boosted, status=status),),
        limit_ranges=(limit_range("Pod", max={"cpu": "20m"}),),
    )
    actuator, state = FakeActuator(), UpdaterState()
    rules = replace(
        RULES,
        features=FeatureGates(in_place=True, cpu_startup_boost=True),
        disruption=DisruptionPolicy(tolerance_fraction=0.5, min_replicas=1),
    )
    for one in (tight, tight, replace(tight, limit_ranges=())):
        state = await run(replace(given, autoscaled=(one,)), actuator, state=state, rules=rules)
    before, after = "app cpu 500m -> ", "100m" if mode is UpdateMode.OFF else "200m"
    assert actuator.blocked == [("web-0", Reason.RESIZE_REFUSED, before + after)]
    assert "the LimitRange's max for a Pod is 20m" in actuator.obstacles["web-0"]
    assert actuator.unblocked == [("web-0", Reason.STARTUP_BOOST_OVER, before + after)]
    assert actuator.resized == ["web-0"]
    assert not actuator.refused


async def test_actions_of_one_pass_share_the_remaining_quota() -> None:
    """Two pods may be unavailable, but the quota has room for one."""
    case = PreflightCase(
        quotas={"default": quota({"requests.cpu": "500m"}, {"requests.cpu": "400m"})}
    )
    pods = tuple(
        LivePod(metadata=structs.replace(each.metadata), spec=pod("web-0", case).spec)
        for each in (pod(f"web-{number}", case) for number in range(4))
    )
    for mode, sent in ((UpdateMode.RECREATE, "evicted"), (UpdateMode.IN_PLACE, "resized")):
        given = cluster(case, mode)
        (scaled,) = given.autoscaled
        scaled = replace(
            scaled,
            pods=tuple(structs.replace(each, status=PodStatus(phase="Running")) for each in pods),
            controllers={each.metadata.uid: WEB for each in pods},
            replicas={WEB: 4},
        )
        actuator = FakeActuator()
        living = frozenset(each.metadata.uid for each in pods)
        await run(replace(given, autoscaled=(scaled,), living=living), actuator, rules=RULES)
        assert len(getattr(actuator, sent)) == 1


async def test_an_unreadable_quota_prevents_actions() -> None:
    unreadable = quota({"requests.cpu": "many"}, {"requests.cpu": "1"})
    for mode in MODES.values():
        after = await run(
            cluster(PreflightCase(quotas={"default": unreadable}), mode),
            FakeActuator(),
            rules=RULES,
        )
        assert after.of("uid-web-0").decision == leave(Reason.UNREADABLE)


def test_decisions_with_other_details_are_equal() -> None:
    held = wait(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail="one")
    assert held == Decision(Action.WAIT, Reason.REPLACEMENT_WOULD_BE_REFUSED, None, "another")
    assert held.is_preflight
    assert not wait(Reason.QUOTA_EXCEEDED).is_preflight
