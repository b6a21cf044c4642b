"""The model with history from Prometheus equals one that observed all samples in order."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from common.labels import from_map
from common.resources import CPU, MEMORY
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.vpa_estimates import estimate_vpas
from recommender.model.autoscalers import ContainerRule
from recommender.model.backfill import Backfill, KnownUntil, RecordedSeries
from recommender.model.column_table import Ints
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import NEVER, instant, span
from recommender.model.usage import Usage

NOW = datetime(2026, 1, 9, 12, tzinfo=UTC)
WEB, GONE = PodKey("shop", "web-1"), PodKey("shop", "web-0")
VPA = VpaKey("shop", "web")
LABELS: Mapping[str, str] = {"app": "web"}
MIB = 2**20
Sample = tuple[float, int]  # hours from NOW, amount


def model(*pods: PodKey, labels: Mapping[str, str] = LABELS) -> Usage:
    usage = Usage()
    usage.put_autoscaler(VPA, from_map(LABELS), ())
    for pod in pods:
        usage.put_pod(facts(pod, labels), instant(NOW))
    return usage


def facts(pod: PodKey, labels: Mapping[str, str] = LABELS) -> PodFacts:
    return PodFacts(key=pod, uid="1", labels=labels, active=True, containers=("app",))


def at(hours: float) -> int:
    return instant(NOW + timedelta(hours=hours))


def feed(usage: Usage, resource: str, samples: Sequence[Sample], pod: PodKey = WEB) -> None:
    rows = np.full(len(samples), usage.pods[pod].containers["app"], dtype=np.int64)
    times = np.array([at(hours) for hours, _ in samples], dtype=np.int64)
    amounts = np.array([amount for _, amount in samples], dtype=np.int64)
    add = usage.add_cpu if resource == CPU else usage.add_memory
    add(rows, times, amounts, instant(NOW))


def recorded(samples: Sequence[Sample], pod: PodKey = WEB) -> RecordedSeries:
    times = [at(hours) for hours, _ in samples]
    return RecordedSeries(
        pod=pod, container="app", times=times, amounts=[amount for _, amount in samples]
    )


def backfill_of(
    usage: Usage,
    *,
    known_until: KnownUntil | None = None,
    matched_only: bool = False,
) -> Backfill:
    return Backfill(
        usage,
        "shop",
        known_until=known_until or {},
        matched_only=matched_only,
        now=instant(NOW),
    )


def join(backfill: Backfill) -> None:
    for _ in backfill.join(instant(NOW)):
        pass


def labels_of(_: PodKey) -> Mapping[str, str]:
    return LABELS


def row_of(usage: Usage, labels: Mapping[str, str] = LABELS) -> Ints:
    return np.array([usage.aggregate("shop", labels, "app", instant(NOW))])


FRACTIONS = (0.1, 0.5, 0.9, 0.95, 1.0)


def assert_same(ours: Usage, theirs: Usage) -> None:
    """Assert that two models are equal in the state of the container."""
    mine, other = ours.aggregates, theirs.aggregates
    a, b = row_of(ours), row_of(theirs)
    for x, y in ((mine.cpu, other.cpu), (mine.memory, other.memory)):
        assert x.percentiles(a, FRACTIONS).tolist() == y.percentiles(b, FRACTIONS).tolist()
        half_lives = (x.reference[a] - y.reference[b]) / span(x.half_life)
        assert (x.total[a] * 2.0**half_lives).tolist() == pytest.approx(y.total[b].tolist())
    for column in ("samples", "first_sample", "last_sample"):
        assert getattr(mine, column)[a].tolist() == getattr(other, column)[b].tolist(), column
    if WEB not in ours.pods:
        return
    c = np.array([ours.pods[WEB].containers["app"]])
    d = np.array([theirs.pods[WEB].containers["app"]])
    for column in ("last_cpu", "last_memory", "window_end", "peak", "oom_peak"):
        left, right = getattr(ours.containers, column), getattr(theirs.containers, column)
        assert left[c].tolist() == right[d].tolist(), column


HISTORY = [(-100 + hour, (hour % 7 + 1) * 50) for hour in range(100)]
PEAKS = [(-100 + hour, (hour % 5 + 1) * 100 * MIB) for hour in range(100)]  # last window: -4 to 20
LIVE = [(minute / 60, 400) for minute in range(1, 30)]


@pytest.mark.parametrize(
    ("history", "seen"),
    [
        pytest.param(HISTORY, LIVE, id="history and live samples"),
        pytest.param(HISTORY, [], id="history alone"),
        pytest.param([], LIVE, id="live samples alone"),
    ],
)
def test_cpu_equals_that_of_samples_in_order(
    history: Sequence[Sample], seen: Sequence[Sample]
) -> None:
    undisturbed = model(WEB)
    feed(undisturbed, CPU, [*history, *seen])
    usage = model(WEB)
    feed(usage, CPU, seen)
    backfill = backfill_of(usage)
    assert backfill.add(CPU, [recorded(history)], labels_of) == len(history)
    join(backfill)
    assert_same(usage, undisturbed)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([], id="no live samples"),
        pytest.param([(0.1, 50 * MIB)], id="less than the open window's peak"),
        pytest.param([(0.1, 900 * MIB)], id="more than the open window's peak"),
        pytest.param([(0.1, 900 * MIB), (0.2, 50 * MIB), (0.3, 2000 * MIB)], id="rising usage"),
        pytest.param([(0.1, 0)], id="a first sample of zero"),
    ],
)
def test_the_open_memory_window_continues(seen: Sequence[Sample]) -> None:
    undisturbed = model(WEB)
    feed(undisturbed, MEMORY, [*PEAKS, *seen])
    usage = model(WEB)
    feed(usage, MEMORY, seen)
    backfill = backfill_of(usage)
    backfill.add(MEMORY, [recorded(PEAKS)], labels_of)
    join(backfill)
    assert_same(usage, undisturbed)
    feed(usage, MEMORY, [(1.0, 5000 * MIB), (30.0, 10 * MIB)])  # in the window and after it
    feed(undisturbed, MEMORY, [(1.0, 5000 * MIB), (30.0, 10 * MIB)])
    assert_same(usage, undisturbed)


def test_a_window_that_ended_during_the_fetch_counts_beside_the_live_one() -> None:
    usage = model(WEB)
    history = [(-24.5, 100 * MIB), (-1.0, 300 * MIB)]  # a window until -0.5, and one until 23.5
    feed(usage, MEMORY, [(0.1, 700 * MIB), (24.0, 50 * MIB)])
    backfill = backfill_of(usage)
    backfill.add(MEMORY, [recorded(history)], labels_of)
    join(backfill)
    row = row_of(usage)
    assert usage.aggregates.memory.percentiles(row, (1.0,))[0][0] > 700 * MIB
    window = usage.containers.window_end[[usage.pods[WEB].containers["app"]]]
    assert window.tolist() == [at(24.1)]  # the live one


def test_history_in_chunks_equals_history_at_once() -> None:
    whole, parts = model(WEB), model(WEB)
    first, second = backfill_of(whole), backfill_of(parts)
    first.add(CPU, [recorded(HISTORY)], labels_of)
    first.add(MEMORY, [recorded(PEAKS)], labels_of)
    for start in range(0, 100, 7):
        second.add(CPU, [recorded(HISTORY[start : start + 7])], labels_of)
        second.add(MEMORY, [recorded(PEAKS[start : start + 7])], labels_of)
    join(first)
    join(second)
    assert_same(parts, whole)


@pytest.mark.parametrize(
    ("known", "began_at", "counted"),
    [
        pytest.param(None, None, 100, id="no checkpoint and no live samples"),
        pytest.param(None, -10.0, 90, id="history ends where the live feed began"),
        pytest.param(-50.0, None, 49, id="history begins where the checkpoint ends"),
        pytest.param(-50.0, -10.0, 39, id="only the gap between the two"),
        pytest.param(0.0, None, 0, id="a checkpoint covers all history"),
    ],
)
def test_no_sample_counts_twice(known: float | None, began_at: float | None, counted: int) -> None:
    usage = model(WEB)
    if began_at is not None:
        feed(usage, CPU, [(began_at, 1000)])
    until = {} if known is None else {(VPA, "app"): NOW + timedelta(hours=known)}
    backfill = backfill_of(usage, known_until=until)
    assert backfill.add(CPU, [recorded(HISTORY)], labels_of) == counted
    join(backfill)
    expected = counted + (began_at is not None)
    assert usage.aggregates.samples[row_of(usage)].tolist() == [expected]


def test_a_live_sample_that_is_no_newer_than_history_is_refused() -> None:
    usage = model(WEB)
    backfill = backfill_of(usage)
    backfill.add(CPU, [recorded(HISTORY)], labels_of)
    join(backfill)
    feed(usage, CPU, [(-1.0, 999)])  # the time of the last sample of history
    assert usage.aggregates.samples[row_of(usage)].tolist() == [100]


def test_samples_of_deleted_pods_count_with_their_recorded_labels() -> None:
    undisturbed = model(WEB, GONE)
    feed(undisturbed, CPU, HISTORY, GONE)
    feed(undisturbed, CPU, [(0.5, 10)])
    usage = model(WEB)
    feed(usage, CPU, [(0.5, 10)])
    backfill = backfill_of(usage)
    backfill.add(CPU, [recorded(HISTORY, GONE)], labels_of)
    join(backfill)
    assert GONE not in usage.pods
    assert usage.pod_count(VPA) == 1
    assert_same(usage, undisturbed)


def test_samples_of_existing_pods_count_with_their_current_labels() -> None:
    usage = model(WEB, labels={"app": "web", "version": "2"})
    backfill = backfill_of(usage)
    backfill.add(CPU, [recorded(HISTORY)], labels_of)
    join(backfill)
    present = row_of(usage, {"app": "web", "version": "2"})
    assert usage.aggregates.samples[present].tolist() == [100]


@pytest.mark.parametrize(("matched_only", "counted"), [(False, 100), (True, 0)])
def test_pods_that_no_vpa_matches(*, matched_only: bool, counted: int) -> None:
    backfill = backfill_of(model(), matched_only=matched_only)
    assert backfill.add(CPU, [recorded(HISTORY)], lambda _: {"app": "other"}) == counted


def test_pods_of_other_namespaces_and_negative_samples_are_skipped() -> None:
    backfill = backfill_of(model())
    elsewhere = recorded(HISTORY, PodKey("bank", "web-1"))
    assert backfill.add(CPU, [elsewhere], labels_of) == 0
    assert backfill.add(CPU, [recorded([(-2, -5), (-1, 5)])], labels_of) == 1
    assert backfill.add(CPU, [], labels_of) == 0


def test_history_is_split_into_the_windows_of_the_vpa_s_policy() -> None:
    usage = model()
    rule = ContainerRule(interval=timedelta(hours=1))
    usage.put_autoscaler(VPA, from_map(LABELS), (rule,))
    backfill = backfill_of(usage)
    backfill.add(MEMORY, [recorded(PEAKS)], labels_of)
    join(backfill)
    memory = usage.aggregates.memory
    whole = memory.total[row_of(usage)][0]
    assert whole > 50  # about a hundred windows instead of five


def test_a_reused_row_starts_over() -> None:
    usage = model(WEB)
    feed(usage, CPU, [(-20.0, 1)])
    usage.remove_pod(WEB)
    usage.put_pod(facts(WEB), instant(NOW))
    row = usage.pods[WEB].containers["app"]
    assert usage.containers.first_sample[row] == NEVER
    feed(usage, CPU, [(-1.0, 1)])
    assert usage.containers.first_sample[row] == at(-1.0)


def test_eight_days_of_hourly_points_give_little_confidence() -> None:
    """Worked example G of the specification: the upper bound is far above the target."""
    usage = model(WEB)
    hours = [(-192.0 + hour, 100) for hour in range(192)]
    backfill = backfill_of(usage)
    backfill.add(CPU, [recorded(hours)], labels_of)
    join(backfill)
    (found,) = estimate_vpas(usage, [VPA], EstimationSettings(), instant(NOW)).of(VPA).containers
    assert found.confidence[CPU] == pytest.approx(192 / 1440)
    assert found.target[CPU] == 126
    assert found.upper[CPU] == int(126 * 8.5)
