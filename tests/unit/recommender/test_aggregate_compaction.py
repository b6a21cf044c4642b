"""X82: compaction of the aggregates of deleted pods changes no recommendation."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest

from common.labels import Selector, from_map
from recommender.model.aggregate_compaction import GENERATED_LABELS, compact
from recommender.model.aggregates import Aggregates
from recommender.model.expiry import collect
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage

NOW = instant(datetime(2026, 1, 10, 0, 30, tzinfo=UTC))
MINUTE = span(timedelta(minutes=1))
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEB, DB = VpaKey("shop", "web"), VpaKey("shop", "db")
MATCHING = from_map({"app": "web"})
HASH = "pod-template-hash"


def usage_with_vpa(selector: Selector = MATCHING) -> Usage:
    usage = Usage()
    usage.put_autoscaler(WEB, selector, ())
    return usage


def run_and_delete_pod(
    usage: Usage, labels: Mapping[str, str], at: int, *, cpu: int = 100, memory: int = 300
) -> None:
    """Add a pod with these labels and one sample of each resource, and delete it."""
    key = PodKey("shop", "web-1")
    facts = PodFacts(key=key, uid=str(at), labels=labels, active=True, containers=("app",))
    usage.put_pod(facts, at)
    rows = np.array([usage.pods[key].containers["app"]])
    usage.add_cpu(rows, np.array([at]), np.array([cpu]), at)
    usage.add_memory(rows, np.array([at]), np.array([memory << 20]), at)
    usage.remove_pod(key)


def rollout(number: int) -> dict[str, str]:
    return {"app": "web", HASH: f"{number:x}"}


def compacted(usage: Usage) -> Usage:
    for _ in compact(usage):
        pass
    return usage


def merged_aggregates(usage: Usage, key: VpaKey = WEB) -> Aggregates:
    """Return the VPA's aggregates, merged."""
    return usage.aggregates.merged([group.rows for group in usage.groups(key)])


def assert_same(one: Aggregates, other: Aggregates) -> None:
    assert len(one) == len(other)
    rows = np.arange(len(one))
    for mine, theirs in zip(one.save(rows), other.save(rows), strict=True):
        assert mine.samples == theirs.samples
        assert (mine.first_sample, mine.last_sample) == (theirs.first_sample, theirs.last_sample)
        for ours, others in ((mine.cpu, theirs.cpu), (mine.memory, theirs.memory)):
            assert (ours.weights, ours.reference) == (others.weights, others.reference)
            assert ours.total == pytest.approx(others.total, rel=1e-12)


@pytest.mark.parametrize("label", sorted(GENERATED_LABELS))
def test_pods_that_differ_in_a_generated_label_leave_one_row(label: str) -> None:
    usage, untouched = usage_with_vpa(), usage_with_vpa()
    for number in range(5):
        for each in (usage, untouched):
            labels = {"app": "web", label: str(number)}
            run_and_delete_pod(
                each, labels, NOW + number * MINUTE, cpu=100 + 90 * number, memory=300 * number
            )
    compacted(usage)
    assert (usage.aggregate_count(), untouched.aggregate_count()) == (1, 5)
    assert len(usage.aggregates) == 1
    assert_same(merged_aggregates(usage), merged_aggregates(untouched))


def test_pods_that_differ_in_another_label_keep_separate_rows() -> None:
    usage = usage_with_vpa()
    for version in ("1", "2"):
        run_and_delete_pod(usage, {"app": "web", "version": version}, NOW)
    assert compacted(usage).aggregate_count() == 2


def test_the_aggregate_of_a_running_pod_is_not_moved() -> None:
    usage = usage_with_vpa()
    run_and_delete_pod(usage, rollout(1), NOW)
    facts = PodFacts(
        key=PodKey("shop", "web-2"), uid="2", labels=rollout(2), active=True, containers=("app",)
    )
    usage.put_pod(facts, NOW)
    row = usage.containers.aggregate[usage.pods[facts.key].containers["app"]]
    compacted(usage)
    assert usage.containers.aggregate[usage.pods[facts.key].containers["app"]] == row
    assert usage.matching.label_set("shop", rollout(2)).aggregates == {"app": row}


def test_each_hour_has_a_row_that_expires_a_lifetime_later() -> None:
    usage = usage_with_vpa()
    for number in range(4):
        run_and_delete_pod(
            usage, rollout(number), NOW + number * HOUR // 2
        )  # 00:30, 01:00, 01:30, 02:00
        compacted(usage)
    assert usage.aggregate_count() == 3
    left = []
    for hours in (-1, 0, 1, 2):
        sum(collect(usage, NOW + 8 * DAY + hours * HOUR, {WEB}))
        left.append(usage.aggregate_count())
    assert left == [3, 2, 1, 0]
    assert list(usage.matching) == []


def test_without_a_sample_the_time_of_creation_counts() -> None:
    usage = usage_with_vpa()
    for number in range(3):
        facts = PodFacts(
            key=PodKey("shop", "web-1"),
            uid=str(number),
            labels=rollout(number),
            active=True,
            containers=("app",),
        )
        at = NOW + number * MINUTE
        usage.put_pod(facts, at)
        row = np.array([usage.pods[facts.key].containers["app"]])
        usage.add_memory(
            row, np.array([at]), np.array([300 << 20]), at
        )  # keeps the aggregate (X97)
        usage.remove_pod(facts.key)
    run_and_delete_pod(usage, rollout(9), NOW)
    assert compacted(usage).aggregate_count() == 2
    sum(collect(usage, NOW + 8 * DAY + MINUTE, {WEB}))  # the last sample has expired
    assert usage.aggregate_count() == 1
    sum(collect(usage, NOW + 8 * DAY + 2 * MINUTE, {WEB}))
    assert usage.aggregate_count() == 0


def test_a_rollback_adds_to_the_compacted_row() -> None:
    usage = usage_with_vpa()
    for number in (1, 2, 1):
        run_and_delete_pod(usage, rollout(number), NOW + usage.aggregate_count() * MINUTE)
        compacted(usage)
    assert merged_aggregates(usage).samples[0] == 3


def test_a_selector_with_a_generated_label_keeps_its_pods_separate() -> None:
    """A Job's selector has one; other pods must not get its history."""
    usage = Usage()
    usage.put_autoscaler(WEB, from_map({HASH: "1"}), ())
    usage.put_autoscaler(DB, from_map({"app": "web"}), ())
    for number in range(4):
        run_and_delete_pod(usage, rollout(number), NOW)
    compacted(usage)
    assert merged_aggregates(usage, WEB).samples.max() == 1
    assert merged_aggregates(usage, DB).samples.max() == 4
    assert usage.aggregate_count() == 2


def test_a_vpa_that_is_created_later_gets_the_compacted_rows() -> None:
    usage = Usage()
    for number in range(3):
        run_and_delete_pod(usage, rollout(number), NOW)
    compacted(usage)
    usage.put_autoscaler(WEB, MATCHING, ())
    assert merged_aggregates(usage).samples.max() == 3
    usage.put_autoscaler(WEB, from_map({"app": "db"}), ())
    assert usage.groups(WEB) == ()


def test_two_days_of_rollouts_are_equal_with_a_sixth_of_the_rows() -> None:
    """The other model is never compacted. Nothing expires in these two days."""
    rng = Random(7)
    usage, uncompacted = usage_with_vpa(), usage_with_vpa()
    at = NOW
    for number in range(2 * 144):
        at += 10 * MINUTE
        cpu, memory = rng.randrange(20, 3000), rng.randrange(50, 4000)
        for each in (usage, uncompacted):
            run_and_delete_pod(each, rollout(number), at, cpu=cpu, memory=memory)
        if number % 6 == 5:
            compacted(usage)
            assert sum(collect(usage, at, {WEB})) == 0
    ours, theirs = merged_aggregates(usage), merged_aggregates(uncompacted)
    for mine, others in ((ours.cpu, theirs.cpu), (ours.memory, theirs.memory)):
        assert mine.weights[0] == pytest.approx(others.weights[0], rel=1e-9)
    assert_same(ours, theirs)
    assert (len(usage.aggregates), len(uncompacted.aggregates)) == (49, 288)
