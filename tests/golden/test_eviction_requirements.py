"""Eviction requirements compared with the reference, and deviations (updater.md 8, D14, D34)."""

import msgspec

from common.api.autoscaling import EvictionRequirement, RecommendedPodResources
from common.api.core import Container, Pod, PodSpec
from common.api.meta import ObjectMeta
from common.recommendation.actual_resources import actual_requests
from common.recommendation.processing import parse_recommendation
from golden_data import Differences, Row, rows
from updater.eviction.eviction_requirements import requirements_met

# In these rows only a resource without a target admits the pod. The reference counts it as a
# target of zero, or as a request that will be added.
NUMBERS = """
    r00078 r00080 r00083 r00104 r00129 r00170 r00184 r00187 r00214 r00215 r00216 r00217
    r00232 r00235 r00238 r00249 r00268 r00284 r00288 r00300 r00322 r00334 r00335 r00339
    r00373 r00400 r00402 r00406 r00412 r00441 r00443 r00474 r00477 r00494 r00498 r00505
    r00507 r00508 r00537 r00540 r00551 r00557 r00567 r00585 r00672
"""
D34 = frozenset(f"eviction_requirements-{number}" for number in NUMBERS.split())


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
        if row.id in D34:
            differences.check(row.id, "D34 lacks a target", _lacks_a_target(row), want=True)
            differences.check(row.id, "D34", admitted, want=False)
        elif row.departure == "updater.md-D14":  # each requirement holds for another container
            differences.check(row.id, "D14", admitted, want=True)
        else:
            differences.check(row.id, "admitted", admitted, row.expected["admitted"])
    differences.none_in(600)


def _lacks_a_target(row: Row) -> bool:
    """Return True if a recommended container of the row has no target for cpu or memory."""
    recommended = row.input["recommendation"]["containerRecommendations"]
    return any({"cpu", "memory"} - set(each["target"]) for each in recommended)
