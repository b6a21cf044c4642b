"""Eviction requirements against the reference, and where we are laxer (updater.md 8, D14)."""

import msgspec

from common.api.autoscaling import EvictionRequirement, RecommendedPodResources
from common.api.core import Container, Pod, PodSpec
from common.api.meta import ObjectMeta
from common.recommendation.actual import actual_requests
from common.recommendation.processing import parse_recommendation
from golden_data import Differences, rows
from updater.eviction_requirements import requirements_met


def test_eviction_requirements() -> None:
    differences = Differences()
    for row in rows("eviction_requirements"):
        containers = msgspec.convert(row.input["containers"], tuple[Container, ...])
        pod = Pod(metadata=ObjectMeta(name="pod"), spec=PodSpec(containers=containers))
        recommended = msgspec.convert(row.input["recommendation"] or {}, RecommendedPodResources)
        amounts = {amounts.name: amounts for amounts in parse_recommendation(recommended)}
        requirements = msgspec.convert(
            row.input["requirements"] or (), tuple[EvictionRequirement, ...]
        )
        admitted = requirements_met(
            requirements if row.input["update_policy_present"] else None,
            requests={c.name: actual_requests(pod, c.name) for c in containers},
            containers={c.name: amounts[c.name] for c in containers if c.name in amounts},
        )
        # D14: each requirement may be met by another container, so these rows are admitted.
        want = True if row.departure == "updater.md-D14" else row.expected["admitted"]
        differences.check(row.id, "admitted", admitted, want)
    differences.none_in(600)
