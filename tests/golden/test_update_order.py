"""Acceptance and order of pods compared with the reference, and D28 (updater.md 7)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from common.api.autoscaling import RecommendedPodResources, VerticalPodAutoscaler
from common.api.core import Pod
from common.features import FeatureGates
from common.recommendation.actual_resources import actual_requests, containers_of
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.capping import cap_for_pod
from common.recommendation.pod_amounts import phases_of
from common.recommendation.processing import parse_recommendation
from golden_data import Differences, Row, close, rows
from updater.decision import Reason
from updater.evaluate.drift import Drift, eligible_containers, measure
from updater.evaluate.quick_oom_kills import ContainerOomKill, quick_ooms
from updater.evaluate.update_order import rank
from updater.evaluate.update_verdict import WANTS_UPDATE, Thresholds, judge
from updater.plan.candidate import oom_threshold
from updater.resize.infeasible_resize import lower_somewhere

D28 = "updater.md-D28"


@dataclass(frozen=True, kw_only=True)
class Judged:
    pod: Pod
    drift: Drift
    verdict: Reason
    ooms: tuple[ContainerOomKill, ...]


def _amounts(pod: Pod, vpa: VerticalPodAutoscaler) -> dict[str, ContainerAmounts]:
    """Return the reference's capped recommendation: without A17 and without ordered bounds."""
    capped = cap_for_pod(
        parse_recommendation(vpa.status.recommendation or RecommendedPodResources()),
        containers=containers_of(pod),
        phases=phases_of(pod.spec),
        policy=vpa.spec.resource_policy,
        limit_ranges=(),
    )
    return {amounts.name: amounts for amounts in capped.recommendations}


def _judge(row: Row, pod: Pod, *, updated_at: datetime | None) -> Judged:
    vpa = msgspec.convert({"metadata": {}, **row.input["vpa"]}, VerticalPodAutoscaler)
    amounts = _amounts(pod, vpa)
    requests = {name: actual_requests(pod, name) for name in amounts}
    drift = measure(requests, eligible_containers(pod, amounts))
    ooms = quick_ooms(
        pod,
        vpa,
        threshold=oom_threshold(
            vpa,
            timedelta(seconds=row.input["evict_after_oom_threshold_s"]),
            FeatureGates(per_vpa_config=row.input["per_vpa_config"]),
        ),
        updated_at=updated_at,
    )
    verdict = judge(
        drift,
        started_at=pod.status.start_time,
        oomed_quickly=bool(ooms),
        thresholds=Thresholds(
            min_change=row.input["pod_update_threshold"],
            min_lifetime=timedelta(seconds=row.input["lifetime_threshold_s"]),
        ),
        now=datetime.fromisoformat(row.input["now"]),
    )
    return Judged(pod=pod, drift=drift, verdict=verdict, ooms=ooms)


def _is_cached(row: Row, pod: Pod) -> bool:
    vpa = msgspec.convert({"metadata": {}, **row.input["vpa"]}, VerticalPodAutoscaler)
    stored: Any = row.input["infeasible_attempts"].get(pod.metadata.uid)
    policy = vpa.spec.update_policy
    if stored is None or policy is None or policy.update_mode != "InPlace":
        return False
    failed = parse_recommendation(msgspec.convert(stored, RecommendedPodResources))
    current = {name: each.target for name, each in _amounts(pod, vpa).items()}
    return not lower_somewhere(current, {each.name: each.target for each in failed})


def _ordered(row: Row) -> list[list[str]]:
    """Return the names of accepted pods, best first, in groups of equal rank."""
    judged = [
        _judge(row, pod, updated_at=None)
        for pod in msgspec.convert(row.input["pods"], list[Pod])
        if not _is_cached(row, pod)
    ]
    accepted = [each for each in judged if each.verdict in WANTS_UPDATE]
    groups: dict[tuple[bool, float], list[str]] = {}
    for each in sorted(accepted, key=lambda each: rank(each.drift, each.pod)):
        groups.setdefault(rank(each.drift, each.pod)[:2], []).append(each.pod.metadata.name)
    return [sorted(names) for names in groups.values()]


def test_update_order() -> None:
    differences = Differences()
    for row in rows("update_order"):
        want = [sorted(names) for names in row.expected["order"]]
        differences.check(row.id, "order", _ordered(row), want)
        for pod in msgspec.convert(row.input["pods"], list[Pod]):
            drift = _judge(row, pod, updated_at=None).drift
            priority = row.expected["priorities"][pod.metadata.name]
            differences.check(
                row.id, "outside", drift.outside_range, priority["outside_recommended_range"]
            )
            differences.check(row.id, "scale up", drift.scale_up, priority["scale_up"])
            if not close(drift.resource_diff, priority["resource_diff"], relative=1e-12):
                differences.check(row.id, "diff", drift.resource_diff, priority["resource_diff"])
    differences.none_in(5000)


def test_an_update_cancels_the_oom_kills_before_it() -> None:
    """D28: in these rows a pod was killed 26 hours ago and updated since."""
    updated_at = datetime(2026, 3, 1, 11, tzinfo=UTC)
    found = 0
    for row in rows("update_order"):
        if row.departure != D28:
            continue
        for pod in msgspec.convert(row.input["pods"], list[Pod]):
            before = _judge(row, pod, updated_at=None)
            after = _judge(row, pod, updated_at=updated_at)
            old = [one for one in before.ooms if one.finished_at and one.finished_at <= updated_at]
            found += len(old)
            assert after.ooms == tuple(kill for kill in before.ooms if kill not in old), row.id
            if before.verdict is Reason.OOMED_QUICKLY and not after.ooms:
                assert after.verdict is not Reason.OOMED_QUICKLY, row.id
    assert found >= 20
