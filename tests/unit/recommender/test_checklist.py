"""Rules of recommender.md 20 without another test; docs/conformance.md lists all rules."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import cast

import msgspec
import numpy as np
import pytest

from builders import vpa
from common.api.autoscaling import VerticalPodAutoscaler, VpaCondition, VpaStatus
from common.kube.client import KubeClient
from common.labels import EVERYTHING
from common.patches import Operation
from recommender.checkpoints.codec import encode
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.vpa_estimates import estimate_vpas
from recommender.metrics import RecommenderMetrics
from recommender.model import buckets
from recommender.model.aggregates import Aggregates, HalfLives, History
from recommender.model.autoscalers import ContainerRule
from recommender.model.buckets import Buckets
from recommender.model.column_table import Ints
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.keys import PodKey, VpaKey
from recommender.model.timestamps import instant, moment
from recommender.model.usage import Usage
from recommender.publish.status import StatusFindings, next_status
from recommender.publish.status_decision import PublishingSettings
from recommender.publish.status_difference import status_difference
from recommender.publish.status_writer import StatusWriter
from recommender_golden import lone_container, pod_facts

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MIB = 1 << 20
WEB = VpaKey("ns", "web")


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def at(after: timedelta = timedelta()) -> int:
    return instant(START + after)


# 176 buckets each; table lookups give the CSV's integers


def start_of(bucket: int, first_size: int) -> Fraction:
    """Return the exact start of a bucket, in millicores or bytes."""
    ratio = Fraction(21, 20)
    return first_size * (ratio**bucket - 1) / (ratio - 1)


# If a bucket starts at a whole number, the rounding of the reference's powers decides: whether that
# number is in the bucket, and whether a percentile that ends there is one less.
IN_THE_BUCKET_BELOW = {(buckets.MEMORY, 2), (buckets.MEMORY, 3)}
PERCENTILE_ONE_LESS = {(buckets.MEMORY, 1), (buckets.MEMORY, 2), (buckets.MEMORY, 3)}


@pytest.mark.parametrize(
    ("table", "first_size"),
    [pytest.param(buckets.CPU, 10, id="cpu"), pytest.param(buckets.MEMORY, 10**7, id="memory")],
)
def test_the_table_has_176_buckets_of_the_formula(table: Buckets, first_size: int) -> None:
    starts = [start_of(bucket, first_size) for bucket in range(177)]
    assert len(table.starts) == len(table.firsts) == len(table.percentiles) == 176
    for bucket in range(176):
        first = -(-starts[bucket] // 1) + ((table, bucket) in IN_THE_BUCKET_BELOW)
        assert table.firsts[bucket] == first, bucket
        assert table.of(ints(int(first) - 1, int(first))).tolist() == [max(bucket - 1, 0), bucket]
        end = starts[min(bucket + 1, 175)] // 1 - ((table, bucket) in PERCENTILE_ONE_LESS)
        assert table.percentiles[bucket] == end, bucket


def cpu_of(*samples: tuple[int, float]) -> Histograms:
    """Return one row with samples of millicores and weight, all of the same time."""
    found = Histograms(buckets.CPU, DAY)
    row = found.new()
    for amount, weight in samples:
        found.add(ints(row), ints(amount), ints(at()), weight)
    return found


# Percentile returns the bucket end; last bucket returns its start


@pytest.mark.parametrize(
    ("fraction", "want"),
    [
        pytest.param(0.0, 20, id="zero: the end of the first filled bucket"),
        pytest.param(0.25, 20, id="exactly a quarter of the weight: the same bucket"),
        pytest.param(0.26, 110, id="a little more: the end of the next filled bucket"),
        pytest.param(1.0, 1_021_109, id="all of the weight: the start of the last bucket"),
    ],
)
def test_a_percentile_is_the_end_of_its_bucket(fraction: float, want: int) -> None:
    found = cpu_of((10, 1.0), (100, 2.0), (2_000_000, 1.0))
    assert found.percentiles(ints(0), (fraction,)).tolist() == [[want]]


# Save: max bucket 10000, round half up, zero dropped; load: share of totalWeight, tighten borders


@pytest.mark.parametrize(
    ("weight", "saved"),
    [
        pytest.param(20_000.0, {8: 10_000, 20: 10_000}, id="as heavy as the heaviest"),
        pytest.param(3.0, {8: 10_000, 20: 2}, id="one and a half rounds up"),
        pytest.param(1.0, {8: 10_000, 20: 1}, id="a half rounds up"),
        pytest.param(0.999, {8: 10_000}, id="less than a half is dropped"),
    ],
)
def test_a_checkpoint_is_relative_to_its_heaviest_bucket(
    weight: float, saved: dict[int, int]
) -> None:
    (found,) = cpu_of((100, 20_000.0), (340, weight)).save(ints(0))
    assert found.weights == saved
    assert found.total == 20_000.0 + weight


def loaded(saved: SavedHistogram) -> Histograms:
    found = Histograms(buckets.CPU, DAY)
    found.load(found.new(), saved)
    return found


def test_a_loaded_histogram_distributes_the_total_weight() -> None:
    found = loaded(SavedHistogram(weights={3: 10_000, 9: 2_500}, total=50.0, reference=at()))
    assert found.weights[0, [3, 9]].tolist() == [40.0, 10.0]
    assert found.total[0] == 50.0


@pytest.mark.parametrize(
    ("weights", "low", "high"),
    [
        pytest.param({3: 1, 8: 10_000, 9: 9_000}, 8, 9, id="at the lower border"),
        pytest.param({8: 9_000, 9: 10_000, 20: 1}, 8, 9, id="at the upper border"),
        pytest.param({3: 9_000, 8: 1, 9: 10_000}, 3, 9, id="not in between"),
    ],
)
def test_negligible_weights_after_loading_are_no_border(
    weights: dict[int, int], low: int, high: int
) -> None:
    found = loaded(SavedHistogram(weights=weights, total=1.0, reference=at()))
    assert (found.low(ints(0)).tolist(), found.high[:1].tolist()) == ([low], [high])
    assert not found.is_empty(ints(0))[0]
    assert found.percentiles(ints(0), (0.0,)).tolist() == [[buckets.CPU.percentiles[low]]]


def test_the_reference_time_of_a_checkpoint_is_not_rounded() -> None:
    found = loaded(SavedHistogram(weights={3: 1}, total=1.0, reference=at(timedelta(hours=7))))
    assert moment(int(found.reference[0])) == START + timedelta(hours=7)


# CPU duplicates rejected, equal-timestamp memory accepted, one peak per window at window end


def test_memory_of_the_same_time_is_accepted_and_cpu_is_not() -> None:
    usage = Usage()
    row = ints(lone_container(usage))
    add = (usage.add_cpu, usage.add_memory)
    first = [each(row, ints(at()), ints(100), at()).tolist() for each in add]
    again = [each(row, ints(at()), ints(200), at()).tolist() for each in add]
    assert (first, again) == ([[True], [True]], [[False], [True]])


def test_each_window_gives_one_peak_at_its_end() -> None:
    usage = Usage()
    row = lone_container(usage)
    peaks = []
    for hours, mib in ((0, 100), (6, 300), (23, 200), (24, 50), (30, 40), (80, 120)):
        time = at(timedelta(hours=hours))
        usage.add_memory(ints(row), ints(time), ints(mib * MIB), time)
        peaks.append(int(usage.containers.window_end[row]))
    ends = [START + DAY * days for days in (1, 1, 1, 2, 2, 4)]
    assert [moment(end) for end in peaks] == ends
    want = Histograms(buckets.MEMORY, DAY)
    for days, mib in ((1, 300), (2, 50), (4, 120)):
        one = ints(want.new()) if not len(want) else ints(0)
        want.add(one, ints(mib * MIB), ints(at(DAY * days)), 1.0)
    got = usage.aggregates.memory
    assert got.weights[usage.containers.aggregate[row]] == pytest.approx(want.weights[0])


# Integer truncation after percentile, margin and multiplier, in this order; minimum last


@pytest.mark.parametrize(
    ("minimum", "lower", "target"),
    [
        # The bucket ends at 305.39m; with the fractions the results would be 334 and 351.
        pytest.param(1, 333, 350, id="each step truncates"),
        pytest.param(340, 340, 350, id="low confidence does not lower the minimum"),
        pytest.param(400, 400, 400, id="the minimum gets no margin"),
    ],
)
def test_the_order_of_the_steps(minimum: float, lower: int, target: int) -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, EVERYTHING, ())
    row = lone_container(usage)
    for minute in range(61):  # for a confidence of 1/24
        time = at(timedelta(minutes=minute))
        usage.add_cpu(ints(row), ints(time), ints(300), time)
    policy = EstimationSettings(pod_min_cpu=minimum)
    (app,) = estimate_vpas(usage, [WEB], policy, at(HOUR)).of(WEB).containers
    assert app.confidence["cpu"] == 1 / 24
    assert (app.lower["cpu"], app.target["cpu"]) == (lower, target)
    assert app.upper["cpu"] == 350 * 25


# n counts checkpoint-only containers and excludes mode Off

NO_CPU_OF_IT = History(
    cpu=SavedHistogram(weights={}, total=0.0, reference=at()),
    memory=SavedHistogram(weights={8: 10_000}, total=1.0, reference=at()),
    first_sample=at(),
    last_sample=at(DAY),
    samples=1440,
)


@pytest.mark.parametrize(
    ("loaded_too", "off", "minimums"),
    [
        pytest.param((), (), {"app": 12, "sidecar": 12}, id="containers of the pod"),
        pytest.param(
            ("old",), (), {"app": 8, "old": 8, "sidecar": 8}, id="containers of a checkpoint, too"
        ),
        pytest.param(("app",), (), {"app": 12, "sidecar": 12}, id="each name once"),
        pytest.param((), ("sidecar",), {"app": 25}, id="without containers that are off"),
        pytest.param(
            ("old",),
            ("old",),
            {"app": 12, "sidecar": 12},
            id="a container of a checkpoint that is off",
        ),
    ],
)
def test_which_containers_share_the_minimum(
    loaded_too: tuple[str, ...], off: tuple[str, ...], minimums: dict[str, int]
) -> None:
    usage = Usage()
    rules = tuple(ContainerRule(container=name, off=True) for name in off)
    usage.put_autoscaler(WEB, EVERYTHING, rules)
    usage.put_pod(pod_facts(PodKey("ns", "web-1"), ("app", "sidecar")), at())
    for name in loaded_too:
        usage.load_history(WEB, name, NO_CPU_OF_IT)
    found = estimate_vpas(usage, [WEB], EstimationSettings(), at(DAY)).of(WEB).containers
    assert {one.container: one.target["cpu"] for one in found} == minimums


# Status comparison by value; JSON patch `add /status`; conditions sorted by type


class PatchedClient:
    """Records the patch of a VPA."""

    def __init__(self) -> None:
        self.patch_of_status: Sequence[Operation] = ()

    async def patch(
        self, _endpoint: object, _name: str, patch: Sequence[Operation], **_: object
    ) -> VerticalPodAutoscaler:
        self.patch_of_status = patch
        return vpa()


async def test_a_status_is_replaced_by_one_add_with_its_conditions_sorted_by_type() -> None:
    before = msgspec.structs.replace(
        vpa(), status=VpaStatus(conditions=(condition("Theirs"), condition("Another")))
    )
    findings = StatusFindings(recommendation=(), pods=0, unsupported="why", fetching_history=True)
    wanted = next_status(before, findings, START)
    assert status_difference(before.status, wanted) > 0
    client = PatchedClient()
    metrics, settings = RecommenderMetrics(), PublishingSettings()
    writer = StatusWriter(cast("KubeClient", client), settings=settings, metrics=metrics)
    await writer.replace_status(before, wanted)
    version, operation = msgspec.to_builtins(client.patch_of_status)
    assert version["path"] == "/metadata/resourceVersion"
    assert (operation["op"], operation["path"]) == ("add", "/status")
    assert [one["type"] for one in operation["value"]["conditions"]] == [
        *("Another", "ConfigUnsupported", "FetchingHistory", "NoPodsMatched"),
        *("RecommendationProvided", "Theirs"),
    ]
    assert status_difference(wanted, wanted) == 0


def condition(kind: str) -> VpaCondition:
    return VpaCondition(type=kind, status="True", last_transition_time=START)


# Worked examples that no other module tests


def test_example_c_as_a_checkpoint() -> None:
    table = Aggregates(HalfLives())
    row = ints(table.new())
    for minute in range(60):
        time = at(timedelta(minutes=minute))
        table.add_cpu(row, ints(time), ints(500 if minute % 5 == 4 else 50))
    (history,) = table.save(row)
    histogram = encode(history, START).cpu_histogram
    assert histogram is not None
    assert histogram.bucket_weights == {"4": 10_000, "25": 2503}
    assert histogram.total_weight == pytest.approx(6.086018580629955, rel=1e-12)


def test_example_c_with_another_container_in_the_pod() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, EVERYTHING, ())
    key = PodKey("ns", "web-1")
    usage.put_pod(pod_facts(key, ("app", "sidecar")), at())
    row = ints(usage.pods[key].containers["app"])
    for minute in range(60):
        time = ints(at(timedelta(minutes=minute)))
        usage.add_cpu(row, time, ints(500 if minute % 5 == 4 else 50), at())
        usage.add_memory(row, time, ints(120 * MIB), at())
    app, _ = estimate_vpas(usage, [WEB], EstimationSettings(), at(HOUR)).of(WEB).containers
    assert app.target == {"cpu": 587, "memory": 163_378_051}
    assert app.lower == {"cpu": 60, "memory": 155_685_735}
    assert app.upper == {"cpu": 14_913, "memory": 4_150_910_143}


def test_example_f_old_memory_peaks_fade() -> None:
    memory = Histograms(buckets.MEMORY, DAY)
    row = ints(memory.new())
    for day, mib in ((1, 400), (2, 100), (3, 100), (4, 100)):
        memory.add(row, ints(mib * MIB), ints(at(DAY * day)), 1.0)
    assert memory.percentiles(row, (0.9, 0.95)).tolist() == [[110_265_643, 445_019_988]]
