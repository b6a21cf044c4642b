"""The reference's quirks that recommender.md 18 advises to keep, without another test."""

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from builders import vpa
from common.labels import EVERYTHING, from_map
from recommender.concurrency import run_concurrently
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.vpa_estimates import active_groups, estimate_vpas, recommended_groups
from recommender.model import buckets
from recommender.model.aggregates import History
from recommender.model.autoscalers import ContainerRule
from recommender.model.column_table import Ints
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.keys import PodKey, VpaKey
from recommender.model.timestamps import NEVER, instant, moment
from recommender.model.usage import Usage
from recommender.publish.status import StatusFindings, next_status
from recommender_golden import pod_facts
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
WEB = VpaKey("ns", "web")
EMPTY = SavedHistogram(weights={}, total=0.0, reference=NEVER)


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def at(after: timedelta = timedelta()) -> int:
    return instant(START + after)


def use(usage: Usage, name: str, labels: dict[str, str], cpu: int, *, minutes: range) -> None:
    """Add CPU samples of a pod, and the pod if it is missing."""
    key = PodKey("ns", name)
    usage.put_pod(pod_facts(key, labels=labels), at())
    row = ints(usage.pods[key].containers["app"])
    for minute in minutes:
        usage.add_cpu(row, ints(at(MINUTE * minute)), ints(cpu), at())


def target(usage: Usage, after: timedelta) -> int:
    (app,) = estimate_vpas(usage, [WEB], EstimationSettings(), at(after)).of(WEB).containers
    return app.target["cpu"]


def confidence(usage: Usage, after: timedelta) -> float:
    (app,) = estimate_vpas(usage, [WEB], EstimationSettings(), at(after)).of(WEB).containers
    return app.confidence["cpu"]


def test_a_selector_mixes_workloads_of_different_owners_q13() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, from_map({"tier": "front"}), ())
    for name, cpu in (("web-1", 50), ("shop-1", 500)):
        use(usage, name, {"tier": "front", "app": name}, cpu, minutes=range(60))
    assert target(usage, HOUR) == 587, "the larger workload's target for both"


def test_confidence_grows_across_restarts_and_rollouts_q16() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, EVERYTHING, ())
    history = History(
        cpu=EMPTY, memory=EMPTY, first_sample=at(-DAY), last_sample=at(), samples=1440
    )
    usage.load_history(WEB, "app", history)
    use(usage, "web-1", {"pod-template-hash": "1"}, 100, minutes=range(1, 721))
    use(usage, "web-2", {"pod-template-hash": "2"}, 100, minutes=range(721, 1441))
    assert confidence(usage, DAY) == 2.0


def test_a_gap_in_the_metrics_changes_nothing_q17() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, EVERYTHING, ())
    use(usage, "web-1", {}, 100, minutes=range(61))
    before = estimate_vpas(usage, [WEB], EstimationSettings(), at(HOUR)).of(WEB).containers
    later = estimate_vpas(usage, [WEB], EstimationSettings(), at(7 * DAY)).of(WEB).containers
    assert later == before


def test_the_time_for_checkpoints_counts_from_their_step_q22() -> None:
    """The duration of the earlier steps of the cycle doesn't count."""
    done: list[int] = []

    async def write(number: int) -> None:
        await asyncio.sleep(20)
        done.append(number)

    async def main(_: VirtualClock) -> None:
        await asyncio.sleep(3600)  # the earlier steps
        await run_concurrently(range(10), write, workers=2, seconds=60)

    virtual_time.run(main)
    assert done == list(range(6)), "two workers, each for a minute"


def test_weights_without_a_time_vanish_with_the_first_sample_q23() -> None:
    found = Histograms(buckets.CPU, DAY)
    row = found.new()
    found.load(row, SavedHistogram(weights={30: 10_000}, total=100.0, reference=NEVER))
    assert found.percentiles(ints(row), (0.9,)).tolist() == [[buckets.CPU.percentiles[30]]]
    found.add(ints(row), ints(40), ints(at()), 0.1)
    assert found.percentiles(ints(row), (0.0, 1.0)).tolist() == [[43, 43]]
    assert moment(int(found.reference[row])) == START


def test_a_container_that_is_off_has_usage_and_a_checkpoint_q26() -> None:
    usage = Usage()
    usage.put_autoscaler(WEB, EVERYTHING, (ContainerRule(container="app", off=True),))
    use(usage, "web-1", {}, 100, minutes=range(61))
    (kept,) = active_groups(usage, WEB, at(HOUR))
    assert kept.container == "app"
    assert usage.aggregates.merged([kept.rows]).samples[:1].tolist() == [61]
    assert recommended_groups(usage, WEB, at(HOUR)) == ()


def test_the_status_has_the_generation_and_its_conditions_do_not_q28() -> None:
    found = next_status(vpa(), StatusFindings(recommendation=(), pods=0), START)
    assert found.observed_generation == 1
    assert [one.observed_generation for one in found.conditions or ()] == [0, 0]


@pytest.mark.parametrize(
    ("half_life", "reference"),
    [
        pytest.param(DAY, timedelta(hours=7), id="written with another half-life"),
        pytest.param(DAY, timedelta(), id="written with the same half-life"),
    ],
)
def test_a_reference_time_is_not_rounded_and_shifts_by_whole_half_lives_q30(
    half_life: timedelta, reference: timedelta
) -> None:
    found = Histograms(buckets.CPU, half_life)
    row = found.new()
    found.load(row, SavedHistogram(weights={8: 10_000}, total=8.0, reference=at(reference)))
    assert moment(int(found.reference[row])) == START + reference
    found.shift(ints(row), ints(at(3 * DAY)))
    assert moment(int(found.reference[row])) == START + 3 * DAY
    assert found.total[row] == 1.0, "three half-lives, although the time may be a little shorter"
