"""Estimation of amounts from usage: formulas, minimums, worked examples of recommender.md 17."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from common.labels import from_map
from recommender.estimate.estimation import (
    EstimationSettings,
    confidence,
    confidence_factors,
    scaled,
    with_margin,
)
from recommender.estimate.vpa_estimates import ContainerEstimate, estimate_vpas
from recommender.model.aggregates import History
from recommender.model.autoscalers import ContainerRule
from recommender.model.column_table import Ints
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MIB = 1 << 20
WEB = VpaKey("shop", "web")


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("history", "lower", "upper"),
    [
        pytest.param(timedelta(minutes=5), 602_8, 289, id="five minutes"),
        pytest.param(timedelta(hours=1), 953_7, 25, id="an hour"),
        pytest.param(timedelta(days=1), 998_0, 2, id="a day"),
    ],
)
def test_bounds_narrow_with_history(history: timedelta, lower: int, upper: int) -> None:
    samples = ints(history // timedelta(minutes=1))
    found = confidence(ints(1), ints(1 + span(history)), samples, DAY)
    amount = ints(10_000)
    down = scaled(amount, confidence_factors(found, multiplier=0.001, exponent=-2.0))
    up = scaled(amount, confidence_factors(found, multiplier=1.0, exponent=1.0))
    assert abs(int(down[0]) - lower) <= 1
    assert up.tolist() == [10_000 * upper]


@pytest.mark.parametrize(
    ("amount", "multiplier", "exponent", "want"),
    [
        pytest.param(49, 0.001, -2.0, 0, id="lower bound without history"),
        pytest.param(49, 1.0, 1.0, 10**14, id="upper bound without history"),
        pytest.param(0, 1.0, 1.0, -(2**63), id="zero times infinity: below any minimum"),
    ],
)
def test_without_history(amount: int, multiplier: float, exponent: float, want: int) -> None:
    factors = confidence_factors(np.array([0.0]), multiplier=multiplier, exponent=exponent)
    found = scaled(ints(amount), factors)
    assert found.tolist() == [want]


def test_each_step_truncates() -> None:
    assert with_margin(ints(43, 110), 0.15).tolist() == [49, 126]
    assert scaled(ints(10**14, 7), 1.5).tolist() == [10**14, 10]


def track(usage: Usage, *containers: str) -> dict[str, int]:
    key = PodKey("shop", "web-1")
    labels = {"app": "web"}
    facts = PodFacts(key=key, uid="1", labels=labels, active=True, containers=containers)
    usage.put_pod(facts, instant(START))
    return usage.pods[key].containers


def model(*containers: str, rules: tuple[ContainerRule, ...] = ()) -> tuple[Usage, dict[str, int]]:
    usage = Usage()
    usage.put_autoscaler(WEB, from_map({"app": "web"}), rules)
    return usage, track(usage, *containers)


def estimates(usage: Usage, now: datetime = START) -> tuple[ContainerEstimate, ...]:
    return estimate_vpas(usage, [WEB], EstimationSettings(), instant(now)).of(WEB).containers


def feed(usage: Usage, row: int, cpu: list[int], memory: int, start: datetime = START) -> None:
    for number, amount in enumerate(cpu):
        at = instant(start + timedelta(minutes=number))
        usage.add_cpu(ints(row), ints(at), ints(amount), at)
        usage.add_memory(ints(row), ints(at), ints(memory), at)


def test_example_a_one_steady_day() -> None:
    usage, rows = model("app")
    feed(usage, rows["app"], [100] * 1440, 200 * MIB)
    (app,) = estimates(usage)
    assert app.target == {"cpu": 126, "memory": 250 * MIB}
    assert app.lower == {"cpu": 125, "memory": 250 * MIB}
    assert app.upper == {"cpu": 252, "memory": 496_479_408}
    assert app.confidence["cpu"] == pytest.approx(0.9993055555555556)


def test_example_b_the_very_first_sample() -> None:
    usage, rows = model("app")
    feed(usage, rows["app"], [40], 300 * MIB, START + timedelta(hours=13))
    (app,) = estimates(usage)
    assert app.target == {"cpu": 49, "memory": 380_258_472}
    assert app.lower == {"cpu": 25, "memory": 250 * MIB}
    assert app.upper == {"cpu": 10**14, "memory": 10**14}


def test_example_c_one_bursty_hour() -> None:
    usage, rows = model("app")
    feed(usage, rows["app"], [500, 50, 50, 50, 50] * 12, 120 * MIB)
    (app,) = estimates(usage)
    assert app.target == {"cpu": 587, "memory": 250 * MIB}
    assert app.lower == {"cpu": 60, "memory": 250 * MIB}
    assert app.upper == {"cpu": 14_913, "memory": 4_150_910_143}


@pytest.mark.parametrize(
    ("containers", "cpu", "memory"),
    [
        pytest.param(1, 25, 262_144_000, id="one container"),
        pytest.param(3, 8, 87_381_333, id="three containers"),
        pytest.param(7, 3, 37_449_142, id="seven containers"),
    ],
)
def test_containers_share_the_minimum_of_the_pod(containers: int, cpu: int, memory: int) -> None:
    usage, _ = model(*(f"c{number}" for number in range(containers)))
    for one in estimates(usage):
        assert one.target == one.lower == {"cpu": cpu, "memory": memory}


def test_containers_and_resources_that_are_off_are_left_out() -> None:
    rules = (
        ContainerRule(container="off", off=True),
        ContainerRule(container="half", controlled=("memory",)),
        ContainerRule(container="none", controlled=()),
    )
    usage, _ = model("off", "half", "none", rules=rules)
    found = {one.container: one.target for one in estimates(usage)}
    assert found == {"half": {"memory": 125 * MIB}, "none": {}}


@pytest.mark.parametrize(
    ("age", "names"),
    [
        pytest.param(timedelta(days=7, hours=23), ["app", "old"], id="not yet eight days old"),
        pytest.param(timedelta(days=8), ["app"], id="eight days old"),
    ],
)
def test_a_container_that_only_a_checkpoint_has_q5(age: timedelta, names: list[str]) -> None:
    usage, _ = model("app")
    histogram = SavedHistogram(weights={30: 10000}, total=1.0, reference=instant(START))
    history = History(
        cpu=histogram,
        memory=histogram,
        first_sample=instant(START),
        last_sample=instant(START),
        samples=1,
    )
    usage.load_history(WEB, "old", history)
    found = estimates(usage, START + age)
    assert [one.container for one in found] == names
    assert found[0].target["cpu"] == 25 // len(names)
