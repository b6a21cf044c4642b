"""Invalid flags of the updater, and settings computed from flags."""

from datetime import timedelta

import pytest

from common.errors import ConfigError
from common.flags import read_flags
from updater.settings import UpdaterSettings


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--updater-interval=5"], "not a duration"),
        (["--updater-interval=0"], "must be positive"),
        (["--admission-controller-status-lease-timeout=0s"], "must be positive"),
        (["--feature-gates=Nope=true"], "unknown feature gate"),
        (["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"], "exclude each other"),
        (
            ["--in-place-deferred-timeout=1m", "--in-place-deferred-resize-timeout=2m"],
            "--in-place-deferred-timeout=1m0s and --in-place-deferred-resize-timeout=2m0s",
        ),
    ],
)
def test_invalid_flags(arguments: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_flags(UpdaterSettings, arguments)


def test_settings_of_decisions_from_flags() -> None:
    rules = read_flags(
        UpdaterSettings,
        [
            "--updater-interval=30s",
            "--min-replicas=1",
            "--eviction-tolerance=0.25",
            "--pod-update-threshold=0.2",
            "--in-recommendation-bounds-eviction-lifetime-threshold=1h",
            "--evict-after-oom-threshold=5m",
            "--in-place-skip-disruption-budget",
            "--in-place-deferred-timeout=1m",
            "--in-place-in-progress-timeout=2m",
            "--feature-gates=InPlace=true",
        ],
    ).rules
    assert rules.interval == timedelta(seconds=30)
    assert (rules.disruption.min_replicas, rules.disruption.tolerance_fraction) == (1, 0.25)
    assert rules.disruption.in_place_skips_budget
    assert rules.thresholds.min_change == 0.2
    assert rules.thresholds.min_lifetime == timedelta(hours=1)
    assert rules.thresholds.quick_oom == timedelta(minutes=5)
    assert rules.timeouts.deferred == timedelta(minutes=1)
    assert rules.timeouts.in_progress == timedelta(minutes=2)
    assert rules.features.in_place


def test_the_references_planned_names_of_the_time_outs_are_aliases() -> None:
    arguments = ["--in-place-deferred-resize-timeout=1m", "--in-place-resize-timeout=2m"]
    timeouts = read_flags(UpdaterSettings, arguments).rules.timeouts
    assert timeouts.deferred == timedelta(minutes=1)
    assert timeouts.in_progress == timedelta(minutes=2)


@pytest.mark.parametrize(
    ("arguments", "environ", "want"),
    [
        ([], {}, "kube-system"),
        ([], {"NAMESPACE": "vpa"}, "vpa"),
        (["--admission-controller-status-lease-namespace=a"], {"NAMESPACE": "vpa"}, "a"),
    ],
)
def test_the_namespace_of_the_status_lease(
    arguments: list[str], environ: dict[str, str], want: str
) -> None:
    assert read_flags(UpdaterSettings, arguments).lease_namespace(environ) == want
