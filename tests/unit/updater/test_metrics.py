"""Metrics by VPA, which are removed with the VPA."""

from prometheus_client import CollectorRegistry

from common.api.autoscaling import UpdateMode
from updater.eviction.replacement_result import ReplacementResult
from updater.metrics import UpdaterMetrics, VpaLabels

SHOP = VpaLabels("1", UpdateMode.RECREATE, "shop", "default")
BANK = VpaLabels("2", UpdateMode.IN_PLACE, "bank", "default")


def vpas_in(registry: CollectorRegistry) -> set[str]:
    """Return the names of VPAs in labels of metrics."""
    return {
        sample.labels["vpa_name"]
        for metric in registry.collect()
        for sample in metric.samples
        if "vpa_name" in sample.labels
    }


def test_the_counters_of_a_deleted_vpa_are_removed() -> None:
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    for vpa in (SHOP, BANK):
        metrics.prepare(vpa)
        metrics.evicted(vpa)
        metrics.eviction_failed(vpa, "EvictionError")
        metrics.resized(vpa)
        metrics.resize_failed(vpa, "InPlaceUpdateError")
        metrics.skipped_infeasible(vpa)
    metrics.keep_only({("default", "shop"), ("default", "bank")})
    assert vpas_in(registry) == {"shop", "bank"}
    metrics.keep_only({("default", "bank"), ("elsewhere", "shop")})
    assert vpas_in(registry) == {"bank"}
    labels = {"vpa_size_log2": "2", "vpa_name": "bank", "vpa_namespace": "default"}
    assert registry.get_sample_value("vpa_updater_in_place_updated_pods_total", labels) == 1


def test_a_vpa_that_is_created_again_counts_from_zero() -> None:
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.resized(SHOP)
    metrics.keep_only(())
    metrics.prepare(SHOP)
    labels = {"vpa_size_log2": "1", "vpa_name": "shop", "vpa_namespace": "default"}
    assert registry.get_sample_value("vpa_updater_in_place_updated_pods_total", labels) == 0


def suspended(registry: CollectorRegistry, name: str) -> float | None:
    labels = {"vpa_name": name, "vpa_namespace": "default"}
    return registry.get_sample_value("vpa_updater_evictions_suspended", labels)


def test_the_gauge_of_suspended_vpas() -> None:
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.publish_suspended([("default", "shop"), ("default", "bank")])
    assert (suspended(registry, "shop"), suspended(registry, "bank")) == (1, 1)
    metrics.publish_suspended([("default", "bank")])
    assert (suspended(registry, "shop"), suspended(registry, "bank")) == (None, 1)


def test_outcomes_of_evictions_are_counted_by_result() -> None:
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.came_out(ReplacementResult.UNPATCHED)
    counts = {
        came.value: registry.get_sample_value(
            "vpa_updater_eviction_outcomes_total", {"came": came.value}
        )
        for came in ReplacementResult
    }
    assert counts == {**dict.fromkeys(map(str, ReplacementResult), 0), "unpatched": 1}
