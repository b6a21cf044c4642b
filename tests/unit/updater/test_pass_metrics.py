"""The metrics of one pass: updater.md 12.2, metric by metric."""

from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import UpdateMode
from common.errors import (
    Cause,
    ForbiddenError,
    InvalidError,
    KubeError,
    ServerError,
    TooManyRequestsError,
)
from updater.state import UpdaterState
from updater_harness import HALF, NAMES, FakeActuator, run, snapshot

REFUSED = InvalidError("no", reason="Invalid")
TOO_LARGE = ForbiddenError("no", reason="Forbidden", causes=(Cause(reason="NodeCapacity"),))
FULL = TooManyRequestsError("budget")
RECREATE, IN_PLACE = UpdateMode.RECREATE, UpdateMode.IN_PLACE
OR_RECREATE = UpdateMode.IN_PLACE_OR_RECREATE


def nonzero_samples(registry: CollectorRegistry) -> dict[str, float]:
    """Return nonzero samples, without times and without labels that all cases share."""
    found = {}
    for metric in registry.collect():
        for sample in metric.samples:
            if not sample.value or sample.name.endswith(("_created", "_bucket", "_sum", "_count")):
                continue
            reason = sample.labels.get("reason", "")
            if sample.name in ("vpa_updater_build_info", "vpa_updater_candidate_pods"):
                continue
            name = sample.name.removeprefix("vpa_updater_").removesuffix("_total")
            found[f"{name} {reason}".strip()] = sample.value
            assert sample.labels.get("vpa_size_log2", "2") == "2"
    return found


ALL_FIVE = {"controlled_pods": 5}
# Mode, errors of the API server, and the counts if two of five pods may be disrupted at once.
PASSES = {
    "evictions": (
        RECREATE,
        {},
        {
            "evictable_pods": 5,
            "vpas_with_evictable_pods": 1,
            "evicted_pods": 2,
            "vpas_with_evicted_pods": 1,
        },
    ),
    "refused evictions": (
        RECREATE,
        {"evictions": FULL},
        {
            "evictable_pods": 5,
            "vpas_with_evictable_pods": 1,
            "failed_eviction_attempts EvictionError": 5,
        },
    ),
    "resizes": (
        IN_PLACE,
        {},
        {
            "in_place_updatable_pods": 5,
            "vpas_with_in_place_updatable_pods": 1,
            "in_place_updated_pods": 2,
            "vpas_with_in_place_updated_pods": 1,
        },
    ),
    "refused resizes, and evictions after them": (
        OR_RECREATE,
        {"resizes": REFUSED},
        {
            "in_place_updatable_pods": 5,
            "vpas_with_in_place_updatable_pods": 1,
            "failed_in_place_update_attempts InPlaceUpdateError": 5,
            "blocked_pods resize_refused": 5,
            "evicted_pods": 2,
            "vpas_with_evicted_pods": 1,
        },
    ),
    "infeasible resizes": (
        IN_PLACE,
        {"resizes": TOO_LARGE},
        {
            "in_place_updatable_pods": 5,
            "vpas_with_in_place_updatable_pods": 1,
            "failed_in_place_update_attempts InPlaceUpdateInfeasible": 5,
            "blocked_pods resize_infeasible": 5,
        },
    ),
    "infeasible resizes with fallback to eviction": (
        OR_RECREATE,
        {"resizes": TOO_LARGE},
        {
            "in_place_updatable_pods": 5,
            "vpas_with_in_place_updatable_pods": 1,
            "failed_in_place_update_attempts InPlaceUpdateError": 5,
            "blocked_pods resize_infeasible": 5,
            "evicted_pods": 2,
            "vpas_with_evicted_pods": 1,
        },
    ),
    "hiccups": (
        OR_RECREATE,
        {"resizes": ServerError("trouble")},
        {
            "in_place_updatable_pods": 5,
            "vpas_with_in_place_updatable_pods": 1,
            "failed_in_place_update_attempts InPlaceUpdateError": 5,
        },
    ),
    "nothing to do": (UpdateMode.OFF, {}, {}),
}


def actuator_with(errors: Mapping[str, KubeError]) -> FakeActuator:
    actuator = FakeActuator()
    if "resizes" in errors:
        actuator.resize_errors = dict.fromkeys(NAMES, errors["resizes"])
    if "evictions" in errors:
        actuator.eviction_errors = dict.fromkeys(NAMES, errors["evictions"])
    return actuator


@pytest.mark.parametrize(("mode", "errors", "want"), PASSES.values(), ids=PASSES)
async def test_the_metrics_of_a_pass(
    mode: UpdateMode, errors: Mapping[str, KubeError], want: Mapping[str, float]
) -> None:
    registry = CollectorRegistry()
    await run(snapshot(mode), actuator_with(errors), rules=HALF, registry=registry)
    assert nonzero_samples(registry) == {**ALL_FIVE, **want}


async def test_pods_with_an_infeasible_resize_count_in_every_pass() -> None:
    actuator = actuator_with({"resizes": TOO_LARGE})
    state: UpdaterState | None = None
    for skips in (None, 5, 5):
        registry = CollectorRegistry()
        state = await run(snapshot(IN_PLACE), actuator, state=state, registry=registry)
        assert nonzero_samples(registry).get("in_place_infeasible_skip_pods") == skips


async def test_blocked_pods_count_by_reason_and_vpa() -> None:
    registry = CollectorRegistry()
    await run(snapshot(IN_PLACE), actuator_with({"resizes": TOO_LARGE}), registry=registry)
    labels = {"reason": "resize_infeasible", "vpa_name": "web", "vpa_namespace": "default"}
    assert registry.get_sample_value("vpa_updater_blocked_pods", labels) == 5


async def test_counters_of_a_vpa_with_pods_start_at_zero() -> None:
    registry = CollectorRegistry()
    await run(snapshot(UpdateMode.OFF), FakeActuator(), registry=registry)
    vpa = {"vpa_size_log2": "2", "vpa_name": "web", "vpa_namespace": "default"}
    evicted = registry.get_sample_value(
        "vpa_updater_evicted_pods_total", {**vpa, "update_mode": "Off"}
    )
    resized = registry.get_sample_value("vpa_updater_in_place_updated_pods_total", vpa)
    assert (evicted, resized) == (0, 0)


async def test_gauges_by_size_have_all_sizes() -> None:
    registry = CollectorRegistry()
    await run(snapshot(IN_PLACE), FakeActuator(), registry=registry)
    for name in (
        "in_place_updatable_pods_total",
        "vpas_with_in_place_updatable_pods_total",
        "vpas_with_in_place_updated_pods_total",
    ):
        sizes = [
            registry.get_sample_value(f"vpa_updater_{name}", {"vpa_size_log2": str(size)})
            for size in range(20)
        ]
        assert None not in sizes
        assert sum(filter(None, sizes)) == sizes[2]
