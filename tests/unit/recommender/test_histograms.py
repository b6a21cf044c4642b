"""Histograms: buckets, decay, merging, saving; recommender.md 3 and its worked examples."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.model import buckets
from recommender.model.aggregates import Aggregates, HalfLives
from recommender.model.buckets import Buckets
from recommender.model.column_table import Ints
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.timestamps import instant, moment

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
START_AT = instant(START)


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def at(**after: float) -> int:
    return instant(START + timedelta(**after))


Weighed = tuple[int, float, int]  # amount, weight, time


def histogram(*samples: Weighed, table: Buckets = buckets.CPU) -> Histograms:
    """Return one row with samples of amount, weight and time."""
    found = Histograms(table, DAY)
    row = found.new()
    for amount, weight, time in samples:
        found.add(ints(row), ints(amount), ints(time), weight)
    return found


@pytest.mark.parametrize(
    ("table", "amount", "bucket"),
    [
        pytest.param(buckets.CPU, 9, 0, id="9m"),
        pytest.param(buckets.CPU, 10, 1, id="10m"),
        pytest.param(buckets.CPU, 20, 1, id="20m"),
        pytest.param(buckets.CPU, 21, 2, id="21m"),
        pytest.param(buckets.CPU, 10**14, 175, id="beyond the last bucket"),
        pytest.param(buckets.CPU, -1, 0, id="negative"),
        pytest.param(buckets.MEMORY, 9_999_999, 0, id="just below 10 MB"),
        pytest.param(buckets.MEMORY, 10_000_000, 1, id="10 MB"),
        pytest.param(buckets.MEMORY, 20_500_000, 1, id="a round number in the lower bucket"),
        pytest.param(buckets.MEMORY, 31_525_000, 2, id="another round number in the lower bucket"),
        pytest.param(buckets.MEMORY, 43_101_250, 4, id="a number where libm differs"),
    ],
)
def test_buckets(table: Buckets, amount: int, bucket: int) -> None:
    assert table.of(ints(amount)).tolist() == [bucket]


def test_an_empty_histogram_has_no_percentiles() -> None:
    empty = histogram()
    assert empty.is_empty(ints(0)).tolist() == [True]
    assert empty.percentiles(ints(0), (0.0, 0.5, 1.0)).tolist() == [[0, 0, 0]]
    assert empty.save(ints(0)) == [SavedHistogram(weights={}, total=0.0, reference=0)]


def test_the_last_bucket_has_no_end() -> None:
    top = histogram((2_000_000, 1.0, at()))
    assert top.percentiles(ints(0), (0.5,)).tolist() == [[1_021_109]]


@pytest.mark.parametrize(
    ("hour", "reference"),
    [
        pytest.param(11, START, id="before noon: the last midnight"),
        pytest.param(12, START + DAY, id="noon: rounds up"),
        pytest.param(13, START + DAY, id="after noon: the next midnight"),
    ],
)
def test_the_first_sample_sets_the_reference_time(hour: int, reference: datetime) -> None:
    found = histogram((40, 0.1, at(hours=hour)))
    assert moment(int(found.reference[0])) == reference


def test_example_b_the_very_first_sample() -> None:
    cpu = histogram((40, 0.1, at(hours=13)))
    assert cpu.weights[0, 3] == pytest.approx(0.07278265914210938, rel=1e-12)
    memory = histogram((314_572_800, 1.0, at(hours=37)), table=buckets.MEMORY)
    assert memory.weights[0, 19] == pytest.approx(0.7278265914210937, rel=1e-12)


@pytest.mark.parametrize(
    ("after", "shifted"),
    [
        pytest.param(DAY * 100, False, id="exactly a hundred half-lives"),
        pytest.param(DAY * 100 + timedelta(microseconds=1), True, id="a little more"),
    ],
)
def test_weights_are_renormalised_after_a_hundred_half_lives(
    *, after: timedelta, shifted: bool
) -> None:
    found = histogram((100, 1.0, at()), (100, 1.0, instant(START + after)))
    assert (moment(int(found.reference[0])) == START) is not shifted
    assert found.total[0] == pytest.approx(1.0 if shifted else 2.0**100)


def test_example_f_old_samples_fade() -> None:
    cpu = Histograms(buckets.CPU, DAY)
    row = cpu.new()
    for number in range(2880):
        amount = 200 if number < 1440 else 50
        cpu.add(ints(row), ints(amount), ints(at(minutes=number)), 0.1)
    assert cpu.percentiles(ints(row), (0.66, 0.67)).tolist() == [[55, 215]]


def test_example_e_a_checkpoint_rounds() -> None:
    found = histogram((96, 3.0, at()), (111, 1.0, at()), (331, 0.0001, at()))
    (saved,) = found.save(ints(0))
    assert saved.weights == {8: 10000, 9: 3333}
    assert saved.total == pytest.approx(4.0001)
    again = found.new()
    found.load(again, saved)
    assert found.weights[again, 8] == pytest.approx(3.0001500037500937, rel=1e-12)
    assert found.weights[again, 9] == pytest.approx(0.9999499962499062, rel=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"weights": {176: 1}}, id="no such bucket"),
        pytest.param({"weights": {-1: 1}}, id="negative bucket"),
        pytest.param({"weights": {3: -1}}, id="negative weight"),
        pytest.param({"total": -1.0}, id="negative total"),
        pytest.param({"total": float("nan")}, id="no number"),
    ],
)
def test_invalid_histograms_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"bucket|total"):
        SavedHistogram(**{"weights": {}, "total": 1.0, "reference": 0, **bad})  # type: ignore[arg-type]  # fields by name


def test_merging_does_not_change_the_source() -> None:
    old, young = histogram((100, 1.0, at())), histogram((100, 1.0, at(days=3)))
    before = (old.weights.copy(), old.reference.copy())
    young.merge(ints(0), old, ints(0))
    assert young.total[0] == pytest.approx(1.125)
    assert np.array_equal(old.weights, before[0])
    assert np.array_equal(old.reference, before[1])


def test_subtracting_undoes_adding() -> None:
    found = histogram((100, 1.0, at()), (500, 1.0, at()))
    found.subtract(ints(0), ints(500), ints(at()), 1.0)
    assert found.percentiles(ints(0), (1.0,)).tolist() == [[110]]
    found.subtract(ints(0), ints(100), ints(at()), 1.0)
    assert found.is_empty(ints(0)).tolist() == [True]


Sample = st.tuples(st.integers(0, 2_000_000), st.integers(0, 40_000))  # amount, minute
ContainerSamples = st.lists(Sample, min_size=1, max_size=30)


@settings(max_examples=50, deadline=None)
@given(ContainerSamples)
def test_a_batch_equals_its_samples_one_by_one(samples: list[tuple[int, int]]) -> None:
    one_by_one = histogram(*((amount, 0.1, at(minutes=minute)) for amount, minute in samples))
    batch = Histograms(buckets.CPU, DAY)
    row = batch.new()
    amounts = ints(*(amount for amount, _ in samples))
    times = ints(*(at(minutes=minute) for _, minute in samples))
    batch.add(np.full(len(samples), row), amounts, times, 0.1)
    np.testing.assert_allclose(batch.weights[0], one_by_one.weights[0], rtol=1e-9)
    assert batch.reference[0] == one_by_one.reference[0]


@settings(max_examples=50, deadline=None)
@given(st.lists(ContainerSamples, min_size=2, max_size=4))
def test_the_order_of_merging_does_not_matter(parts: list[list[tuple[int, int]]]) -> None:
    sources = [
        histogram(*((amount, 1.0, at(minutes=minute)) for amount, minute in part)) for part in parts
    ]
    merged = []
    for order in (sources, sources[::-1]):
        found = histogram()
        for source in order:
            found.merge(ints(0), source, ints(0))
        merged.append(found)
    # Weights below the threshold of a bucket may be lost in one order only.
    np.testing.assert_allclose(merged[0].weights[0], merged[1].weights[0], rtol=1e-9, atol=1e-3)
    assert merged[0].reference[0] == merged[1].reference[0]


# Few and many reference times: runs of equal ones, as in production, and single ones.
Histories = st.lists(
    st.tuples(st.sampled_from([0, 1440, 2880, 14_400]), ContainerSamples, st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(Histories, Histories)
def test_folding_equals_merging_one_by_one(
    others: list[tuple[int, list[tuple[int, int]], bool]],
    mine: list[tuple[int, list[tuple[int, int]], bool]],
) -> None:
    table = Histograms(buckets.CPU, DAY)
    for day, samples, is_loaded in (*others, *mine):
        row = table.new()
        for amount, minute in samples:
            when = ints(at(minutes=day + minute % 1440))
            table.add(ints(row), ints(amount), when, 0.1)
        if is_loaded:  # the reference time of a checkpoint is not rounded
            table.reference[row] += 12_345_678
    rows = ints(*range(len(others)))
    merged = [Histograms(buckets.CPU, DAY) for _ in range(2)]
    for found in merged:
        found.new()
        for number in range(len(others), len(table)):
            found.merge(ints(0), table, ints(number))
    one_by_one, folded = merged
    for number in range(len(others)):
        one_by_one.merge(ints(0), table, ints(number))
    folded.fold(0, table, rows)
    for mine_there, folded_there in zip(one_by_one.columns, folded.columns, strict=True):
        assert np.array_equal(mine_there[:1], folded_there[:1])


@pytest.mark.parametrize("sizes", [(99, 100, 101), (101, 0, 1), (300, 300)])
def test_groups_of_many_members_are_merged_equally(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(sizes))
    aggregates = Aggregates(HalfLives(cpu=DAY, memory=DAY))
    rows, table = aggregates.new_rows(sum(sizes)), aggregates.cpu
    times = np.array([at(days=int(day)) for day in rng.integers(0, 9, rows.size)])
    table.add(rows, rng.integers(1, 9000, rows.size), times, 0.1)
    ends = np.cumsum(sizes)
    members = [
        rows[end - size : end].tolist() for size, end in zip(sizes, ends.tolist(), strict=True)
    ]
    merged = aggregates.merged(members).cpu
    for row, group in enumerate(members):
        expected = histogram()
        for member in group:
            expected.merge(ints(0), table, ints(member))
        assert np.array_equal(merged.weights[row], expected.weights[0])
        assert merged.total[row] == expected.total[0]
        assert merged.reference[row] == expected.reference[0]


def merged_once(one: Histograms, other: Histograms) -> Histograms:
    """Return ``one`` with the part of ``other`` that it lacks."""
    found = one.copy(ints(0))
    found.merge(ints(0), one.rest(ints(0), other, ints(0)), ints(0))
    return found


OBSERVED = tuple((100 + 40 * hour, 1.0, at(hours=hour)) for hour in range(30))


@pytest.mark.parametrize(
    ("ours", "theirs", "want"),
    [
        pytest.param((), (), (), id="both empty"),
        pytest.param(OBSERVED, (), OBSERVED, id="other empty"),
        pytest.param((), OBSERVED, OBSERVED, id="own empty"),
        pytest.param(OBSERVED, OBSERVED, OBSERVED, id="equal samples count once"),
        pytest.param(OBSERVED, OBSERVED[:20], OBSERVED, id="own has more"),
        pytest.param(OBSERVED[:20], OBSERVED, OBSERVED, id="other has more"),
        pytest.param(OBSERVED[:20], OBSERVED[10:], OBSERVED, id="overlapping"),
        pytest.param(OBSERVED[:10], OBSERVED[20:], (*OBSERVED[:10], *OBSERVED[20:]), id="disjoint"),
    ],
)
def test_samples_of_both_histories_count_once(
    ours: tuple[Weighed, ...], theirs: tuple[Weighed, ...], want: tuple[Weighed, ...]
) -> None:
    one, other, expected = (histogram(*samples) for samples in (ours, theirs, want))
    found = merged_once(one, other)
    expected.shift(ints(0), found.reference[:1])
    assert found.weights[0] == pytest.approx(expected.weights[0], rel=1e-9, abs=1e-3)
    assert found.total[0] == pytest.approx(expected.total[0], rel=1e-9, abs=1e-3)
    assert merged_once(found, other).total[0] == found.total[0]  # merging again adds nothing


def test_repeated_merging_of_a_rounded_checkpoint_adds_nothing() -> None:
    one = histogram(*OBSERVED, (5000, 0.001, START_AT), (50, 300.0, START_AT))
    known = one.copy(ints(0))
    for _ in range(100):
        stored = histogram()
        stored.load(0, known.save(ints(0))[0])
        known = merged_once(known, stored)
    assert known.weights[0].tolist() == one.weights[0].tolist()


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.1, 50), st.integers(0, 10**12))),
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.1, 50), st.integers(0, 10**12))),
)
@settings(max_examples=50, deadline=None)
def test_merged_histories_lose_nothing(ours: list[Weighed], theirs: list[Weighed]) -> None:
    one, other = (
        histogram(*((amount, weight, START_AT + after) for amount, weight, after in samples))
        for samples in (ours, theirs)
    )
    found = merged_once(one, other)
    for each in (one, other):
        each.shift(ints(0), np.maximum(each.reference, found.reference)[:1])
        assert found.total[0] >= each.total[0] * (1 - 1e-9)
