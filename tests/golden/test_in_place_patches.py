"""Patches of resizes compared with the reference (updater.md 10.6 and 11)."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from common.annotations import boosted_containers
from common.api.autoscaling import RecommendedPodResources, UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.actual_resources import containers_of
from common.recommendation.capping import cap_for_pod
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.pod_amounts import phases_of
from common.recommendation.processing import Processed, parse_recommendation
from golden_data import Differences, Row, rows
from updater.resize.resize_plan import annotation_operations, plan_resize, resize_operations
from updater.resize.startup_boost_end import boost_duration, expired_boosts, unboosted
from updater.snapshot.cluster_snapshot import update_mode

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
A13 = "admission.md-A13"  # test_capping.py tests capping
# A recommendation lacks a resource that a LimitRange for pods bounds; see test_capping.py.
A28 = "in_place_patches-plain-r00597"


def _pod(row: Row) -> Pod:
    conditions = []
    if row.input["ready_s_ago"] is not None:
        since = NOW - timedelta(seconds=row.input["ready_s_ago"])
        conditions.append(
            {"type": "Ready", "status": "True", "lastTransitionTime": since.isoformat()}
        )
    return msgspec.convert({**row.input["pod"], "status": {"conditions": conditions}}, Pod)


def _vpa(row: Row) -> VerticalPodAutoscaler:
    return msgspec.convert(row.input["vpa"], VerticalPodAutoscaler)


def _recommended(row: Row) -> tuple[WantedResources, ...]:
    """Return the reference's capped recommendation; it includes containers of mode Off (no A17)."""
    pod, vpa = _pod(row), _vpa(row)
    limits = msgspec.convert(row.input["limit_ranges"], list[LimitRangeSpec])
    if update_mode(vpa) is UpdateMode.OFF:
        return wanted_resources(pod, vpa, None, limits)
    capped = cap_for_pod(
        parse_recommendation(vpa.status.recommendation or RecommendedPodResources()),
        containers=containers_of(pod),
        phases=phases_of(pod.spec),
        policy=vpa.spec.resource_policy,
        limit_ranges=limits,
    )
    processed = Processed({each.name: each for each in capped.recommendations}, capped.notes)
    return wanted_resources(pod, vpa, processed, limits)


def _processed_by_the_reference(
    pod: Pod, vpa: VerticalPodAutoscaler, expired: Collection[str]
) -> frozenset[str]:
    """Return containers without a boost that continues; in mode Off, those whose boost expired."""
    if update_mode(vpa) is UpdateMode.OFF:
        return frozenset(expired)
    on = set(boosted_containers(pod.metadata.annotations)) - set(expired)
    return frozenset(container.name for container in pod.spec.containers) - on


def _plain(value: object) -> list[dict[str, Any]]:
    return list(msgspec.to_builtins(value))


def test_in_place_patches() -> None:
    differences = Differences()
    for row in rows("in_place_patches"):
        if row.departure == A13 or row.id == A28:
            continue
        pod, vpa = _pod(row), _vpa(row)
        if "-unboost-" in row.id:
            expired = expired_boosts(pod, duration_of=partial(boost_duration, vpa), now=NOW)
            ended = unboosted(pod, _recommended(row), expired=expired)
            assert ended is not None, row.id
            wanted = ended
        else:
            wanted, expired = _recommended(row), ()
        chosen = _processed_by_the_reference(pod, vpa, expired)
        operations = resize_operations(pod, wanted, chosen)
        differences.check(row.id, "resize", _plain(operations), row.expected["resize"])
        marks = [each for each in annotation_operations(pod, expired) if each.value != {}]
        differences.check(
            row.id,
            "annotations",
            _plain(marks),
            row.expected["annotation"] + row.expected["unboost_annotation"],
        )
        plan = plan_resize(pod, wanted, chosen, containers={})
        changed = {name for name, _ in plan.changes}
        unchanged = [
            f"/spec/containers/{index}/"
            for index, container in enumerate(pod.spec.containers)
            if container.name not in changed
        ]
        left = [
            operation
            for operation in row.expected["resize"]
            if not any(operation["path"].startswith(path) for path in unchanged)
        ]
        differences.check(row.id, "what changes", _plain(plan.operations), left)
        if "-plain-" in row.id and not row.departure and changed:
            said = [each for each in row.expected["resize"] if each["value"] != {}]
            rest = [each for each in left if each["value"] != {}]
            differences.check(row.id, "nothing left out", rest, said)
    differences.none_in(2500)
