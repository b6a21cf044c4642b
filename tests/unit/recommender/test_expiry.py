"""X125, Q3 and X123: history that expires, that moves to another selector, and that starts over."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from common.labels import NOTHING, from_map
from recommender.model.aggregates import History
from recommender.model.checkpoint_merge import merge_checkpoint
from recommender.model.expiry import collect, expire_loaded
from recommender.model.histograms import SavedHistogram
from recommender.model.history_changes import keep_former_history, start_over
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage

NOW = instant(datetime(2026, 1, 20, tzinfo=UTC))
HOUR = span(timedelta(hours=1))
LIFETIME = 8 * 24 * HOUR
WEB, TWIN = VpaKey("shop", "web"), VpaKey("shop", "twin")
OLD, NEW = {"app": "web"}, {"app": "web-v2"}


def history(last: int) -> History:
    """Return a history of one day and ten samples that ends at ``last``."""
    saved = SavedHistogram(weights={20: 10000}, total=10.0, reference=NOW)
    return History(
        cpu=saved, memory=saved, first_sample=last - 24 * HOUR, last_sample=last, samples=10
    )


def add_pod_with_sample(usage: Usage, labels: dict[str, str], at: int, name: str = "web-1") -> None:
    """Add a pod with one CPU sample."""
    key = PodKey("shop", name)
    facts = PodFacts(key=key, uid=name, labels=labels, active=True, containers=("app",))
    usage.put_pod(facts, at)
    rows = np.array([usage.pods[key].containers["app"]])
    usage.add_cpu(rows, np.array([at]), np.array([100]), at)


def samples(usage: Usage, key: VpaKey = WEB) -> int:
    """Return the number of CPU samples of the VPA's container."""
    return sum(int(usage.aggregates.samples[list(group.rows)].sum()) for group in usage.groups(key))


@pytest.mark.parametrize("has_new", [False, True], ids=["no new sample", "a new sample"])
@pytest.mark.parametrize(
    ("age", "is_expired"),
    [(LIFETIME - 1, False), (LIFETIME, True)],
    ids=["just less than eight days", "eight days"],
)
def test_loaded_history_expires_by_its_own_age(
    age: int, *, has_new: bool, is_expired: bool
) -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, from_map(OLD), ())
    merge_checkpoint(usage, WEB, "app", history(NOW - age), NOW)
    if has_new:
        add_pod_with_sample(usage, OLD, NOW)
    expire_loaded(usage, NOW)
    history_flags = usage.autoscalers[WEB].history_flags
    assert history_flags.expired == history_flags.forgotten == ({"app"} if is_expired else set())
    assert samples(usage) == (0 if is_expired else 10) + has_new


def test_nothing_expires_before_the_first_sample() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, from_map(OLD), ())
    merge_checkpoint(usage, WEB, "app", history(NOW - 2 * LIFETIME), NOW)
    expire_loaded(usage, 0)
    assert samples(usage) == 10
    expire_loaded(usage, NOW)
    assert samples(usage) == 0


@pytest.mark.parametrize("is_used", [False, True], ids=["idle", "used"])
def test_loaded_history_expires_with_the_last_sample_of_its_container(*, is_used: bool) -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, from_map(OLD), ())
    merge_checkpoint(usage, WEB, "app", history(NOW), NOW)
    expire_loaded(usage, NOW)
    if is_used:
        add_pod_with_sample(usage, OLD, NOW + LIFETIME)
    sum(collect(usage, NOW + LIFETIME, {WEB}))
    history_flags = usage.autoscalers[WEB].history_flags
    assert history_flags.expired == (set() if is_used else {"app"})
    assert samples(usage) == (11 if is_used else 0)


def test_history_that_expires_in_part_is_not_marked_as_expired() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, from_map(OLD), ())
    add_pod_with_sample(usage, OLD | {"hash": "1"}, NOW)
    usage.remove_pod(PodKey("shop", "web-1"))
    add_pod_with_sample(usage, OLD | {"hash": "2"}, NOW + LIFETIME)
    usage.autoscalers[WEB].history_flags.killed.add("app")
    sum(collect(usage, NOW + LIFETIME, {WEB}))
    history_flags = usage.autoscalers[WEB].history_flags
    assert (history_flags.forgotten, history_flags.expired, history_flags.killed) == (
        {"app"},
        set(),
        {"app"},
    )


@pytest.fixture
def relabeled() -> Usage:
    """Return a model of a workload whose selector changed; a pod with the old labels exists."""
    usage = Usage()
    usage.put_autoscaler(WEB, from_map(OLD), ())
    add_pod_with_sample(usage, OLD, NOW)
    usage.put_autoscaler(WEB, from_map(NEW), ())
    return usage


def test_q3_usage_of_pods_with_old_labels_counts_once_they_are_deleted(relabeled: Usage) -> None:
    keep_former_history(relabeled)
    assert samples(relabeled) == 0, "they may be another workload's by now"
    relabeled.remove_pod(PodKey("shop", "web-1"))
    keep_former_history(relabeled)
    assert samples(relabeled) == 1
    keep_former_history(relabeled)
    assert samples(relabeled) == 1
    relabeled.put_autoscaler(WEB, from_map(OLD), ())
    assert samples(relabeled) == 1, "it counts once, also where the labels come back"


def test_q3_usage_that_another_vpa_matches_is_not_moved(relabeled: Usage) -> None:
    relabeled.put_autoscaler(TWIN, from_map(OLD), ())
    relabeled.remove_pod(PodKey("shop", "web-1"))
    keep_former_history(relabeled)
    assert (samples(relabeled), samples(relabeled, TWIN)) == (0, 1)


def test_q3_nothing_moves_while_the_target_is_missing(relabeled: Usage) -> None:
    relabeled.put_autoscaler(WEB, NOTHING, ())
    relabeled.remove_pod(PodKey("shop", "web-1"))
    keep_former_history(relabeled)
    assert samples(relabeled) == 0
    relabeled.put_autoscaler(WEB, from_map(OLD), ())
    assert samples(relabeled) == 1


def test_x123_another_target_starts_over_despite_loaded_history(relabeled: Usage) -> None:
    merge_checkpoint(relabeled, WEB, "app", history(NOW), NOW)
    relabeled.put_autoscaler(WEB, from_map(NEW), (), target="Deployment/other")
    relabeled.remove_pod(PodKey("shop", "web-1"))
    keep_former_history(relabeled)
    assert relabeled.groups(WEB) == ()
    assert relabeled.autoscalers[WEB].history_flags.outdated == {"*"}


def test_x123_a_container_starts_over_for_one_vpa_alone() -> None:
    usage = Usage()
    for key in (WEB, TWIN):
        usage.put_autoscaler(key, from_map(OLD), ())
        merge_checkpoint(usage, key, "app", history(NOW - LIFETIME // 2), NOW)
    add_pod_with_sample(usage, OLD, NOW)
    assert (samples(usage), samples(usage, TWIN)) == (11, 11)
    start_over(usage, WEB, "app", NOW)
    assert (samples(usage), samples(usage, TWIN)) == (0, 11)
    add_pod_with_sample(usage, OLD, NOW + HOUR)
    assert (samples(usage), samples(usage, TWIN)) == (1, 12)
    history_flags = usage.autoscalers[WEB].history_flags
    assert (history_flags.forgotten, history_flags.outdated) == ({"app"}, {"app"})
    assert usage.autoscalers[TWIN].history_flags.outdated == set()
