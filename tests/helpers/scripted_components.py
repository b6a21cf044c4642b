"""A recommender and an updater that answer what a test wants, beside the cluster of the CLI."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from cli_cluster import LARGE, SMALL, CliCluster
from common.kube.endpoints import PODS
from common.read_model.page import ListMetadata, Overview, PassInfo
from common.read_model.recommender import VPAS_PATH, ContainerSummary, VpaList, VpaSummary
from common.read_model.updater import (
    ACTIONS_PATH,
    PLAN_PATH,
    ActionList,
    ActionOutcome,
    Amounts,
    ContainerNumbers,
    PastAction,
    PlanList,
    PlannedPod,
    PlannedVpa,
)
from component_pods import SYSTEM, add_component_pod
from fake_api import FakeApi, Reply
from kubectl_vpa.judge.findings import RECOMMENDER, UPDATER
from updater.decision import Reason
from updater.remedies import REMEDIES
from workloads import NAMESPACE

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def planned(
    vpa: str, *pods: PlannedPod, mode: str = "Recreate", why: str | None = None
) -> PlannedVpa:
    return PlannedVpa(namespace="shop", name=vpa, mode=mode, why=why, pods=pods)


def planned_pod(
    name: str,
    decision: str,
    reason: Reason,
    *,
    detail: str | None = None,
    requests: Amounts = LARGE,
    target: Amounts = SMALL,
) -> PlannedPod:
    """Return a decision on a pod."""
    return PlannedPod(
        name=name,
        node="node-1",
        owner=None,
        decision=decision,
        reason=reason,
        meaning=reason.meaning,
        detail=detail,
        since=TIME,
        until=None,
        unblock=REMEDIES.get(reason) if decision in ("wait", "leave") else None,
        resource_diff=None,
        outside_range=None,
        containers=(
            ContainerNumbers(
                name="app",
                requests=requests,
                target=target,
                lower_bound={},
                upper_bound={},
            ),
        ),
        pod_level=None,
    )


async def usual_plan(cluster: CliCluster) -> list[PlannedVpa]:
    """Return the plan of an updater that has suspended the evictions of one VPA."""
    listed = await cluster.client.list(PODS, namespace=NAMESPACE)
    names: dict[str, list[str]] = {}
    for pod in listed.items:
        names.setdefault((pod.metadata.labels or {})["app"], []).append(pod.metadata.name)

    def each(app: str, decision: str, reason: Reason, **more: Any) -> PlannedVpa:
        pods = (planned_pod(name, decision, reason, **more) for name in sorted(names[app]))
        return planned(app, *pods)

    first, *others = sorted(names["web"])
    return [
        each("api", "leave", Reason.NO_CHANGE, requests=SMALL),
        each("batch", "wait", Reason.BELOW_MIN_REPLICAS),
        planned("cart", mode="Off", why="mode Off changes no running pods"),
        planned("gone", planned_pod("gone-1", "evict", Reason.DRIFTED)),
        each("guarded", "wait", Reason.EVICTION_REFUSED),
        planned("idle", why="it controls none of the running pods"),
        planned("ledger", mode="Initial", why="mode Initial changes no running pods"),
        planned("orphan", why="it controls none of the running pods"),
        planned("quiet", why="it controls none of the running pods"),
        each(
            "search",
            "wait",
            Reason.ACTUATION_SUSPENDED,
            requests={"cpu": "100m"},
            target={"cpu": "1200m", "memory": "2Gi"},
        ),
        planned(
            "web",
            planned_pod(first, "resize", Reason.OUTSIDE_RANGE),
            *(planned_pod(name, "wait", Reason.BUDGET_EXHAUSTED) for name in others),
            mode="InPlaceOrRecreate",
        ),
        planned("web-copy", why="it controls none of the running pods"),
    ]


def past_action(
    vpa: str,
    pod: str,
    outcome: ActionOutcome,
    *,
    minute: int,
    replacement: str | None = None,
    error: str | None = None,
) -> PastAction:
    """Return an eviction, this many minutes after the start of the history."""
    reason = Reason.OUTSIDE_RANGE
    return PastAction(
        number=minute,
        at=TIME + timedelta(minutes=minute),
        namespace=NAMESPACE,
        vpa=vpa,
        action="evict",
        pod=pod,
        uid=pod,
        node="node-1",
        owner=None,
        reason=reason,
        meaning=reason.meaning,
        changes="app cpu 500m -> 49m, memory 1Gi -> 250Mi",
        outcome=outcome,
        settled_at=None,
        status=None,
        error_reason=None,
        error=error,
        replacement=replacement,
    )


def known_vpa(name: str) -> VpaSummary:
    """Return what the recommender knows about a VPA with half a day of samples."""
    container = ContainerSummary(
        name="app",
        target={},
        lower_bound={},
        upper_bound={},
        uncapped_target={},
        samples=720,
        first_sample=TIME,
        last_sample=TIME + timedelta(hours=12),
        confidence={"cpu": 0.5, "memory": 0.5},
    )
    return VpaSummary(
        namespace=NAMESPACE,
        name=name,
        target_ref=None,
        mode="Recreate",
        pods=2,
        containers=(container,),
        conditions=(),
        checkpointed_at=TIME + timedelta(hours=12),
    )


@asynccontextmanager
async def scripted(
    cluster: CliCluster,
    *,
    plan: Sequence[PlannedVpa] = (),
    actions: Sequence[PastAction] = (),
    vpas: Sequence[VpaSummary] = (),
    age: timedelta = timedelta(),
) -> AsyncIterator[FakeApi]:
    """Run both components with pods that lead to them; ``age`` is that of the last pass."""
    began = datetime.now(UTC) - age  # noqa: TID251 - the program compares it with its own clock
    last = PassInfo(number=7, at=began, seconds=0.5)
    metadata = ListMetadata(
        last_pass=last, leading=None, leader=None, continue_=None, remaining_item_count=None
    )
    overview = Overview(
        component="it",
        version="1",
        identity="it",
        paths=(),
        last_pass=last,
        leading=None,
        leader=None,
    )
    async with FakeApi() as api:
        for path, answer in (
            ("/api/v1", overview),
            (PLAN_PATH, PlanList(metadata=metadata, items=tuple(plan))),
            (ACTIONS_PATH, ActionList(metadata=metadata, items=tuple(actions))),
            (VPAS_PATH, VpaList(metadata=metadata, items=tuple(vpas))),
        ):
            api.on(f"GET {path}", Reply(body=msgspec.to_builtins(answer)))
        for component in (RECOMMENDER, UPDATER):
            await add_component_pod(cluster.client, component, api.port)
        try:
            yield api
        finally:
            for component in (RECOMMENDER, UPDATER):
                await cluster.client.delete(PODS, f"{component}-1", namespace=SYSTEM)
