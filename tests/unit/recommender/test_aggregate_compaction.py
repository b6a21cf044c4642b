"""What pods leave behind moves together, and no VPA can tell: X82."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest

from common.labels import Selector, from_map
from recommender.model.aggregate_compaction import MADE_UP, compact
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


def watched(selector: Selector = MATCHING) -> Usage:
    usage = Usage()
    usage.put_autoscaler(WEB, selector, ())
    return usage


def lived(
    usage: Usage, labels: Mapping[str, str], at: int, *, cpu: int = 100, memory: int = 300
) -> None:
    """A pod of these labels came, was seen once, and went."""
    key = PodKey("shop", "web-1")
    facts = PodFacts(key=key, uid=str(at), labels=labels, active=True, containers=("app",))
    usage.put_pod(facts, at)
    rows = np.array([usage.pods[key].containers["app"]])
    usage.add_cpu(rows, np.array([at]), np.array([cpu]), at)
    usage.add_memory(rows, np.array([at]), np.array([memory << 20]), at)
    usage.remove_pod(key)


def rollout(number: int) -> dict[str, str]:
    return {"app": "web", HASH: f"{number:x}"}


def all_retired(usage: Usage) -> Usage:
    for _ in compact(usage):
        pass
    return usage


def seen(usage: Usage, key: VpaKey = WEB) -> Aggregates:
    """All that the VPA knows, added up."""
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


@pytest.mark.parametrize("label", sorted(MADE_UP))
def test_pods_that_only_their_controller_distinguishes_leave_one_row(label: str) -> None:
    usage, untouched = watched(), watched()
    for number in range(5):
        for each in (usage, untouched):
            labels = {"app": "web", label: str(number)}
            lived(each, labels, NOW + number * MINUTE, cpu=100 + 90 * number, memory=300 * number)
    all_retired(usage)
    assert (usage.aggregate_count(), untouched.aggregate_count()) == (1, 5)
    assert len(usage.aggregates) == 1
    assert_same(seen(usage), seen(untouched))


def test_another_label_distinguishes_pods_for_good() -> None:
    usage = watched()
    for version in ("1", "2"):
        lived(usage, {"app": "web", "version": version}, NOW)
    assert all_retired(usage).aggregate_count() == 2


def test_what_a_pod_still_adds_to_stays_where_it_is() -> None:
    usage = watched()
    lived(usage, rollout(1), NOW)
    facts = PodFacts(
        key=PodKey("shop", "web-2"), uid="2", labels=rollout(2), active=True, containers=("app",)
    )
    usage.put_pod(facts, NOW)
    row = usage.containers.aggregate[usage.pods[facts.key].containers["app"]]
    all_retired(usage)
    assert usage.containers.aggregate[usage.pods[facts.key].containers["app"]] == row
    assert usage.matching.label_set("shop", rollout(2)).aggregates == {"app": row}


def test_each_hour_has_its_row_and_each_row_goes_a_lifetime_later() -> None:
    usage = watched()
    for number in range(4):
        lived(usage, rollout(number), NOW + number * HOUR // 2)  # half past, one, half past, two
        all_retired(usage)
    assert usage.aggregate_count() == 3
    left = []
    for hours in (-1, 0, 1, 2):
        collect(usage, NOW + 8 * DAY + hours * HOUR, {WEB})
        left.append(usage.aggregate_count())
    assert left == [3, 2, 1, 0]
    assert list(usage.matching) == []


def test_without_a_sample_the_time_of_creation_counts() -> None:
    usage = watched()
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
        usage.add_memory(row, np.array([at]), np.array([300 << 20]), at)  # X97: so it is kept
        usage.remove_pod(facts.key)
    lived(usage, rollout(9), NOW)
    assert all_retired(usage).aggregate_count() == 2
    collect(usage, NOW + 8 * DAY + MINUTE, {WEB})  # the last sample was too long ago
    assert usage.aggregate_count() == 1
    collect(usage, NOW + 8 * DAY + 2 * MINUTE, {WEB})
    assert usage.aggregate_count() == 0


def test_an_old_revision_that_comes_back_adds_to_what_it_left() -> None:
    usage = watched()
    for number in (1, 2, 1):
        lived(usage, rollout(number), NOW + usage.aggregate_count() * MINUTE)
        all_retired(usage)
    assert seen(usage).samples[0] == 3


def test_a_selector_that_names_such_a_label_keeps_its_pods_apart() -> None:
    """As that of a Job does: no other pod may have its history."""
    usage = Usage()
    usage.put_autoscaler(WEB, from_map({HASH: "1"}), ())
    usage.put_autoscaler(DB, from_map({"app": "web"}), ())
    for number in range(4):
        lived(usage, rollout(number), NOW)
    all_retired(usage)
    assert seen(usage, WEB).samples.max() == 1
    assert seen(usage, DB).samples.max() == 4
    assert usage.aggregate_count() == 2


def test_a_vpa_that_comes_later_finds_what_its_pods_left() -> None:
    usage = Usage()
    for number in range(3):
        lived(usage, rollout(number), NOW)
    all_retired(usage)
    usage.put_autoscaler(WEB, MATCHING, ())
    assert seen(usage).samples.max() == 3
    usage.put_autoscaler(WEB, from_map({"app": "db"}), ())
    assert usage.groups(WEB) == ()


def test_days_of_rollouts_are_the_same_with_a_sixth_of_the_rows() -> None:
    """Against a twin that never retires anything, hour by hour, until the first of it expires."""
    rng = Random(7)
    usage, twin = watched(), watched()
    at = NOW
    for number in range(2 * 144):
        at += 10 * MINUTE
        cpu, memory = rng.randrange(20, 3000), rng.randrange(50, 4000)
        for each in (usage, twin):
            lived(each, rollout(number), at, cpu=cpu, memory=memory)
        if number % 6 == 5:
            all_retired(usage)
            assert collect(usage, at, {WEB}) == 0
    ours, theirs = seen(usage), seen(twin)
    for mine, others in ((ours.cpu, theirs.cpu), (ours.memory, theirs.memory)):
        assert mine.weights[0] == pytest.approx(others.weights[0], rel=1e-9)
    assert_same(ours, theirs)
    assert (len(usage.aggregates), len(twin.aggregates)) == (49, 288)
