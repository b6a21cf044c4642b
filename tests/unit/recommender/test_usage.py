"""The model: aggregates of containers, VPAs, loaded history and expiry."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from common.api.core import PodSpec
from common.labels import EVERYTHING, NOTHING, Selector, from_map
from common.scheduling.eligibility import ANYWHERE
from common.scheduling.pod_claims import PodShape
from recommender.model.aggregates import AggregationRules, History
from recommender.model.autoscalers import ContainerRule, rule_for
from recommender.model.column_table import Ints
from recommender.model.expiry import collect
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import PodKey, VpaKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage

NOW = instant(datetime(2026, 1, 10, tzinfo=UTC))
MINUTE = span(timedelta(minutes=1))
WEB = VpaKey("shop", "web")
MATCHING = from_map({"app": "web"})
HISTORY = History(
    cpu=SavedHistogram(weights={30: 10000}, total=100.0, reference=NOW),
    memory=SavedHistogram(weights={30: 10000}, total=10.0, reference=NOW),
    first_sample=NOW - 1440 * MINUTE,
    last_sample=NOW,
    samples=1440,
)


def pod(name: str = "web-1", **changes: object) -> PodFacts:
    facts = PodFacts(
        key=PodKey("shop", name),
        uid=f"uid-{name}",
        labels={"app": "web"},
        active=True,
        containers=("app",),
    )
    return replace(facts, **changes)  # type: ignore[arg-type] # field names as keywords


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def row(usage: Usage, name: str = "web-1", container: str = "app") -> int:
    return usage.pods[PodKey("shop", name)].containers[container]


def aggregate(usage: Usage, name: str = "web-1") -> int:
    return int(usage.containers.aggregate[row(usage, name)])


def with_pods(*pods: PodFacts) -> Usage:
    usage = Usage()
    for one in pods:
        usage.put_pod(one, NOW)
    return usage


def test_pods_with_equal_labels_share_an_aggregate() -> None:
    usage = with_pods(pod(), pod("web-2"), pod("db-1", labels={"app": "db"}))
    assert aggregate(usage) == aggregate(usage, "web-2") != aggregate(usage, "db-1")
    assert usage.aggregate_count() == 2


def test_cpu_samples_must_be_newer_and_not_negative() -> None:
    usage = with_pods(pod())
    one = row(usage)
    times = ints(NOW, NOW, NOW - 1, NOW + 1, NOW + 2)
    amounts = ints(100, 100, 100, -1, 100)
    accepted = usage.add_cpu(np.full(5, one), times, amounts, NOW)
    assert accepted.tolist() == [True, False, False, False, True]
    assert usage.aggregates.samples[aggregate(usage)] == 2


def test_a_new_pod_of_the_same_name_starts_over_q33() -> None:
    usage = with_pods(pod())
    usage.add_cpu(ints(row(usage)), ints(NOW), ints(100), NOW)
    usage.add_memory(ints(row(usage)), ints(NOW), ints(500), NOW)
    usage.put_pod(pod(uid="another"), NOW)
    assert usage.containers.peak[row(usage)] == 0
    assert usage.add_cpu(ints(row(usage)), ints(NOW), ints(100), NOW).tolist() == [True]
    assert usage.aggregates.samples[aggregate(usage)] == 2  # the aggregate stayed


def test_a_container_that_was_removed_from_the_spec_is_forgotten_q33() -> None:
    usage = with_pods(pod(containers=("app", "sidecar")))
    usage.put_pod(pod(), NOW)
    assert list(usage.pods[PodKey("shop", "web-1")].containers) == ["app"]


def test_new_labels_begin_a_new_window_q10() -> None:
    usage = with_pods(pod())
    usage.add_memory(ints(row(usage)), ints(NOW), ints(500), NOW)
    before = aggregate(usage)
    usage.put_pod(pod(labels={"app": "web", "track": "new"}), NOW)
    assert aggregate(usage) != before
    usage.add_memory(ints(row(usage)), ints(NOW + 1), ints(600), NOW)
    # The old aggregate keeps its peak, and the new one has its own.
    assert usage.aggregates.memory.total[before] > 0
    assert usage.aggregates.memory.total[aggregate(usage)] > 0


def test_the_pod_count_of_a_vpa_follows_its_pods_q32() -> None:
    usage = with_pods(pod(), pod("web-2"), pod("db-1", labels={"app": "db"}))
    usage.put_autoscaler(WEB, MATCHING, ())
    assert usage.pod_count(WEB) == 2
    usage.remove_pod(PodKey("shop", "web-2"))
    assert usage.pod_count(WEB) == 1
    usage.put_pod(pod(labels={"app": "db"}), NOW)
    assert usage.pod_count(WEB) == 0


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(MATCHING, 1, id="matching"),
        pytest.param(EVERYTHING, 1, id="everything"),
        pytest.param(NOTHING, 0, id="nothing"),
        pytest.param(from_map({"app": "db"}), 0, id="not matching"),
    ],
)
def test_a_vpa_has_the_containers_that_its_selector_matches(selector: Selector, want: int) -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, selector, ())
    assert len(usage.groups(WEB)) == want


def test_everything_and_nothing_are_different_selectors_q31() -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, NOTHING, ())
    usage.put_autoscaler(WEB, EVERYTHING, ())
    assert usage.pod_count(WEB) == 1


def test_loaded_history_survives_a_change_of_selector_q3() -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, MATCHING, ())
    usage.load_history(WEB, "app", HISTORY)
    for selector in (NOTHING, MATCHING):
        usage.put_autoscaler(WEB, selector, ())
    (group,) = usage.groups(WEB)
    merged = usage.aggregates.merged([group.rows])
    assert merged.samples[0] == 1440


def test_removed_overrides_no_longer_count_q12() -> None:
    usage = with_pods(pod())
    rule = ContainerRule(container="*", oom_bump_up_ratio=2.0, interval=timedelta(hours=1))
    usage.put_autoscaler(WEB, MATCHING, (rule,))
    assert usage.aggregates.oom_bump_up_ratio[aggregate(usage)] == 2.0
    usage.put_autoscaler(WEB, MATCHING, ())
    assert usage.aggregates.oom_bump_up_ratio[aggregate(usage)] == 1.2
    assert usage.aggregates.interval[aggregate(usage)] == span(timedelta(days=1))


def test_the_mode_of_an_aggregate_is_that_of_the_vpa_that_recommends_for_it() -> None:
    usage = with_pods(pod())
    table = usage.aggregates

    def mode() -> str | None:
        return table.modes[int(table.mode[aggregate(usage)])]

    assert mode() is None  # no VPA
    usage.put_autoscaler(WEB, MATCHING, (), "Initial")
    assert mode() == "Initial"
    usage.put_autoscaler(WEB, MATCHING, (), "Off")  # this mode has recommendations, too
    assert mode() == "Off"
    usage.put_pod(pod("web-2", labels={"app": "web", "version": "2"}), NOW)
    assert table.modes[int(table.mode[aggregate(usage, "web-2")])] == "Off"
    table.recommended_cpu[aggregate(usage)] = 100
    usage.put_autoscaler(WEB, MATCHING, (ContainerRule(off=True),), "Off")
    assert mode() is None
    assert table.recommended_cpu[aggregate(usage)] == 0
    usage.put_autoscaler(WEB, MATCHING, (), "")
    assert mode() == ""
    usage.put_autoscaler(VpaKey("shop", "younger"), MATCHING, (), "Recreate")  # the last name wins
    assert mode() == "Recreate"
    usage.put_autoscaler(VpaKey("shop", "younger"), NOTHING, (), "Recreate")
    assert mode() == ""
    usage.remove_autoscaler(WEB)
    assert mode() is None


def test_removing_a_vpa_removes_its_overrides_and_loaded_history() -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, MATCHING, (ContainerRule(oom_bump_up_ratio=2.0),))
    usage.load_history(WEB, "app", HISTORY)
    usage.remove_autoscaler(WEB)
    assert usage.aggregates.oom_bump_up_ratio[aggregate(usage)] == 1.2
    assert len(usage.aggregates) == 1


def rule(name: str, *, off: bool = False) -> ContainerRule:
    return ContainerRule(container=name, off=off)


@pytest.mark.parametrize(
    ("rules", "off"),
    [
        pytest.param((), False, id="no rules"),
        pytest.param((rule("app"), rule("app", off=True)), False, id="the first rule of the name"),
        pytest.param((rule("*"), rule("*", off=True)), True, id="the last wildcard"),
        pytest.param((rule("*", off=True), rule("app")), False, id="the name before the wildcard"),
        pytest.param((rule("other", off=True),), False, id="another container's rule"),
    ],
)
def test_rule_for(*, rules: tuple[ContainerRule, ...], off: bool) -> None:
    assert rule_for(rules, "app").off is off


@pytest.mark.parametrize(
    ("last", "accepted"),
    [
        pytest.param(NOW, True, id="older than the new sample"),
        pytest.param(NOW + 11 * MINUTE, False, id="at the tolerance"),
        pytest.param(
            NOW + 11 * MINUTE + 1, True, id="beyond the tolerance: the clock was set back"
        ),
    ],
)
def test_a_last_sample_before_the_clock_was_set_back(last: int, *, accepted: bool) -> None:
    usage = with_pods(pod())
    rows = ints(row(usage))
    for feed in (usage.add_cpu, usage.add_memory):
        feed(rows, ints(last), ints(100), last)
        usage.containers.forget_times_after(NOW + 11 * MINUTE, rows)
        assert feed(rows, ints(NOW + 1), ints(100), NOW + 1).tolist() == [accepted]


def test_an_oom_kill_of_an_unknown_container_is_reported() -> None:
    learnt = with_pods(pod()).add_oom(PodKey("shop", "gone"), "app", at=NOW, request=1, now=NOW)
    assert learnt.outcome is OomOutcome.UNKNOWN_CONTAINER


def test_an_oom_kill_raises_the_peak() -> None:
    usage = with_pods(pod())
    usage.add_memory(ints(row(usage)), ints(NOW), ints(480 << 20), NOW)
    learnt = usage.add_oom(PodKey("shop", "web-1"), "app", at=NOW + 1, request=500 << 20, now=NOW)
    assert learnt.outcome is OomOutcome.RECORDED
    assert learnt.amount == 600 << 20
    memory = usage.aggregates.memory
    assert memory.percentiles(ints(aggregate(usage)), (0.9,)).tolist() == [[664_388_475]]


DAY = 1440 * MINUTE


@pytest.mark.parametrize(
    ("active", "contributive", "sampled", "days", "kept"),
    [
        pytest.param(True, False, False, 0, True, id="empty, of an active pod"),
        pytest.param(False, False, False, 0, False, id="empty, of a finished pod"),
        pytest.param(False, True, False, 0, True, id="empty, of an existing target"),
        pytest.param(False, False, True, 7.99, True, id="used in the last eight days"),
        pytest.param(True, True, True, 8, False, id="not used for eight days"),
        pytest.param(True, True, False, 8, False, id="empty for eight days"),
    ],
)
def test_collecting(
    *, active: bool, contributive: bool, sampled: bool, days: float, kept: bool
) -> None:
    usage = with_pods(pod(active=active))
    usage.put_autoscaler(WEB, MATCHING, ())
    if sampled:
        usage.add_cpu(ints(row(usage)), ints(NOW), ints(100), NOW)
    sum(collect(usage, NOW + int(days * DAY), {WEB} if contributive else set()))
    assert usage.aggregate_count() == (1 if kept else 0)


@pytest.mark.parametrize(
    ("memory", "contributive", "kept"),
    [
        pytest.param(False, True, False, id="no samples"),
        pytest.param(True, True, True, id="X97: memory peaks, the target exists"),
        pytest.param(True, False, False, id="memory peaks, the target is gone"),
    ],
)
def test_aggregates_without_pods(*, memory: bool, contributive: bool, kept: bool) -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, MATCHING, ())
    if memory:
        usage.add_memory(ints(row(usage)), ints(NOW), ints(500), NOW)
    usage.remove_pod(PodKey("shop", "web-1"))
    sum(collect(usage, NOW + DAY, {WEB} if contributive else set()))
    assert usage.aggregate_count() == (1 if kept else 0)


def test_a_sample_after_collection_makes_a_new_aggregate_q10() -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, MATCHING, ())
    usage.add_memory(ints(row(usage)), ints(NOW), ints(500), NOW)
    later = NOW + 8 * DAY
    assert sum(collect(usage, later, {WEB})) == 1
    assert usage.groups(WEB) == ()
    usage.add_cpu(ints(row(usage)), ints(later), ints(100), later)
    (group,) = usage.groups(WEB)
    assert usage.aggregates.samples[list(group.rows)].tolist() == [1]
    assert usage.containers.window_end[row(usage)] == 0


def test_rollouts_leave_no_aggregates() -> None:
    usage = Usage(defaults=AggregationRules(interval=timedelta(hours=1), interval_count=1))
    usage.put_autoscaler(WEB, MATCHING, ())
    for number in range(50):
        at = NOW + number * DAY
        usage.put_pod(pod(labels={"app": "web", "pod-template-hash": str(number)}), at)
        usage.add_cpu(ints(row(usage)), ints(at), ints(100), at)
        sum(collect(usage, at, {WEB}))
    assert len(list(usage.matching)) == 1
    assert len(usage.aggregates) == 1


def test_a_checkpoint_excludes_the_running_window() -> None:
    usage = with_pods(pod())
    usage.put_autoscaler(WEB, MATCHING, ())
    usage.add_memory(ints(row(usage)), ints(NOW), ints(500 << 20), NOW)
    groups = usage.groups(WEB)
    running = usage.without_open_peaks(groups, NOW + DAY - 1)
    ended = usage.without_open_peaks(groups, NOW + DAY)
    assert running.memory.save(ints(0))[0].weights == {}
    assert running.memory.save(ints(0))[0].reference == NOW + DAY
    assert ended.memory.save(ints(0))[0].weights == {26: 10000}
    assert usage.aggregates.memory.total[aggregate(usage)] == 1  # the model itself is unchanged


# Shapes of pods

OLD = PodShape(ANYWHERE, PodSpec(node_name="old"))
NEW = PodShape(ANYWHERE, PodSpec(node_name="new"))


def with_shapes(*pods: tuple[PodFacts, PodShape | None]) -> Usage:
    usage = Usage()
    usage.put_autoscaler(WEB, MATCHING, ())
    for one, shape in pods:
        usage.put_pod(one, NOW, shape)
    return usage


V1, V2 = {"app": "web", "version": "1"}, {"app": "web", "version": "2"}


def test_the_shape_of_a_vpa_is_that_of_the_pod_that_came_last() -> None:
    usage = with_shapes((pod(labels=V1), OLD), (pod("web-2", labels=V2), NEW))
    assert usage.pod_shape(WEB) is NEW
    usage.put_pod(pod(labels=V1), NOW, OLD)  # known already
    assert usage.pod_shape(WEB) is NEW
    usage.remove_pod(PodKey("shop", "web-2"))
    assert usage.pod_shape(WEB) is OLD
    usage.remove_pod(PodKey("shop", "web-1"))
    assert usage.pod_shape(WEB) is None


def test_a_pod_that_a_vpa_does_not_match_gives_it_no_shape() -> None:
    assert with_shapes((pod(labels={"app": "db"}), NEW)).pod_shape(WEB) is None


def test_a_pod_with_new_labels_takes_its_shape_along() -> None:
    usage = with_shapes((pod(labels={"app": "db"}), NEW))
    usage.put_pod(pod(labels=V1), NOW, NEW)
    assert usage.pod_shape(WEB) is NEW
