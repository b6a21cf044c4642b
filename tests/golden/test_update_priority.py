"""Drift of pods from their recommendation compared with the reference (updater.md 7)."""

from typing import Any

import msgspec

from common.api.autoscaling import RecommendedPodResources
from common.api.core import Pod
from common.recommendation.actual_resources import actual_requests
from common.recommendation.processing import ContainerAmounts, parse_recommendation
from golden_data import Differences, close, rows
from updater.evaluate.drift import eligible_containers, measure


def amounts_of(recommendation: dict[str, Any] | None) -> dict[str, ContainerAmounts]:
    parsed = parse_recommendation(msgspec.convert(recommendation or {}, RecommendedPodResources))
    return {amounts.name: amounts for amounts in parsed}


def test_update_priority() -> None:
    differences = Differences()
    for row in rows("update_priority"):
        pod = msgspec.convert(row.input["pod"], Pod)
        requests = {
            container.name: actual_requests(pod, container.name)
            for container in pod.spec.containers
        }
        drift = measure(requests, eligible_containers(pod, amounts_of(row.input["recommendation"])))
        want = row.expected
        differences.check(row.id, "outside", drift.outside_range, want["outside_recommended_range"])
        differences.check(row.id, "scale up", drift.scale_up, want["scale_up"])
        near = close(drift.resource_diff, want["resource_diff"], relative=1e-12)
        if not near:
            differences.check(row.id, "diff", drift.resource_diff, want["resource_diff"])
    differences.none_in(2400)
