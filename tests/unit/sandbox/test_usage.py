"""Usage models: values over time, and parsing of descriptions."""

from dataclasses import dataclass
from typing import Any

import pytest

from common.errors import ConfigError
from common.quantity import Quantity
from sandbox.kubelet.usage import Constant, Load, Moment, Ramp, Usage, parse_model, throttled

MIB = 1024 * 1024


def milli(quantity: Quantity) -> int:
    return quantity.milli


def model(raw: Any, *, seed: int = 0) -> Any:
    return parse_model(raw, amount=milli, field="cpu", seed=seed)


def at(*, now: float = 0.0, age: float = 0.0, run: int = 0) -> Moment:
    return Moment(now=now, age=age, run=run, replica="shop/web-0/app")


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    raw: Any
    moment: Moment
    want: float


DAILY = {"daily": {"low": "100m", "high": "900m", "period": "24h", "peak-at": "14h"}}
RAMP = {"ramp": {"from": "100m", "to": "300m", "after": "10s", "over": "20s"}}
LEAK = {"leak": {"from": "100m", "rate": "10m", "every": "1s", "after": "5s", "until": "200m"}}
RUNS = {"runs": ["10m", {"constant": "20m"}]}

CASES = [
    Case(id="constant", raw="250m", moment=at(now=5), want=250),
    Case(id="constant as a number", raw=2, moment=at(), want=2000),
    Case(id="daily at its peak", raw=DAILY, moment=at(now=14 * 3600), want=900),
    Case(id="daily at its lowest", raw=DAILY, moment=at(now=2 * 3600), want=100),
    Case(id="daily a day later", raw=DAILY, moment=at(now=38 * 3600), want=900),
    Case(id="daily between peak and lowest", raw=DAILY, moment=at(now=8 * 3600), want=500),
    Case(id="ramp before its start", raw=RAMP, moment=at(age=10), want=100),
    Case(id="ramp half-way", raw=RAMP, moment=at(age=20), want=200),
    Case(id="ramp at its end", raw=RAMP, moment=at(age=30), want=300),
    Case(id="ramp long after", raw=RAMP, moment=at(age=9999), want=300),
    Case(id="leak before its start", raw=LEAK, moment=at(age=5), want=100),
    Case(id="leak after three seconds", raw=LEAK, moment=at(age=8), want=130),
    Case(id="leak at its maximum", raw=LEAK, moment=at(age=9999), want=200),
    Case(id="first run", raw=RUNS, moment=at(run=0), want=10),
    Case(id="second run", raw=RUNS, moment=at(run=1), want=20),
    Case(id="later runs equal the last", raw=RUNS, moment=at(run=7), want=20),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_demand(case: Case) -> None:
    found = model(case.raw)
    assert found.at(case.moment) == pytest.approx(case.want)
    assert found.peak >= case.want - 1e-9


def test_noise_is_bounded_and_reproducible() -> None:
    noisy = model({"constant": "100m", "noise": 0.1}, seed=7)
    values = [noisy.at(at(now=float(second))) for second in range(0, 10_000, 10)]
    assert min(values) >= 90
    assert max(values) <= noisy.peak == pytest.approx(110)
    assert max(values) - min(values) > 15
    again = model({"constant": "100m", "noise": 0.1}, seed=7)
    assert [again.at(at(now=float(second))) for second in range(0, 10_000, 10)] == values


def test_noise_differs_between_seeds_and_between_replicas() -> None:
    one, other = (model({"constant": "100m", "noise": 0.1}, seed=seed) for seed in (1, 2))
    assert one.at(at()) != other.at(at())
    assert one.at(at()) != one.at(at()._replace(replica="shop/web-1/app"))


@dataclass(frozen=True, kw_only=True)
class Throttle:
    id: str
    want: Usage
    cpu_limit: int | None = None
    memory_limit: int | None = None
    node_cpu: int = 4000


BUSY = Load(cpu=Constant(2000), memory=Constant(100 * MIB))
THROTTLES = [
    Throttle(id="without limits", want=Usage(cpu_millicores=2000, memory_bytes=100 * MIB)),
    Throttle(
        id="cpu at its limit",
        cpu_limit=500,
        want=Usage(cpu_millicores=500, memory_bytes=100 * MIB),
    ),
    Throttle(
        id="cpu at its node",
        node_cpu=1000,
        cpu_limit=1500,
        want=Usage(cpu_millicores=1000, memory_bytes=100 * MIB),
    ),
    Throttle(
        id="memory never above its limit",
        memory_limit=80 * MIB,
        want=Usage(cpu_millicores=2000, memory_bytes=80 * MIB),
    ),
]


@pytest.mark.parametrize("case", THROTTLES, ids=lambda case: case.id)
def test_throttled(case: Throttle) -> None:
    found = throttled(
        BUSY,
        at(age=60),
        cpu_limit=case.cpu_limit,
        memory_limit=case.memory_limit,
        node_cpu=case.node_cpu,
    )
    assert found == case.want


def test_cpu_is_the_mean_over_the_window() -> None:
    load = Load(cpu=Ramp(start=0, end=1000, after=0, over=10), memory=Constant(1))
    found = throttled(load, at(age=10), cpu_limit=None, memory_limit=None, node_cpu=4000, window=10)
    assert found.cpu_millicores == pytest.approx((1000 + 800 + 600 + 400 + 200) / 5)


@dataclass(frozen=True, kw_only=True)
class Bad:
    id: str
    raw: Any
    want: str


BAD = [
    Bad(id="an invalid quantity", raw="fast", want="cpu: "),
    Bad(id="negative", raw="-1", want="cpu: a negative quantity: '-1'"),
    Bad(id="a list", raw=["1"], want="cpu: not a quantity: ['1']"),
    Bad(id="no model", raw={}, want="cpu: expected one of constant, daily"),
    Bad(id="two models", raw={**RAMP, **LEAK}, want="cpu: expected one of"),
    Bad(
        id="unknown field",
        raw={**RAMP, "speed": 1},
        want="cpu: Object contains unknown field `speed`",
    ),
    Bad(id="missing field", raw={"ramp": {"from": 1, "to": 2}}, want="cpu.ramp: Object missing"),
    Bad(
        id="an invalid duration",
        raw={"ramp": {"from": 1, "to": 2, "over": "soon"}},
        want="cpu.ramp.over: not a duration",
    ),
    Bad(
        id="division by zero",
        raw={"ramp": {"from": 1, "to": 2, "over": "0s"}},
        want="cpu.ramp.over: not a duration above 0",
    ),
    Bad(
        id="a leak that decreases",
        raw={"leak": {"from": 2, "rate": 1, "until": 1}},
        want="cpu.leak: a leak rises",
    ),
    Bad(id="no runs", raw={"runs": []}, want="cpu: expected one of"),
    Bad(id="nested", raw={"runs": [1, {"ramp": 3}]}, want="cpu.runs[1].ramp: Expected `object"),
    Bad(
        id="never is no duration",
        raw={"ramp": {"from": 1, "to": 2, "over": "1m", "after": "never"}},
        want="cpu.ramp.after: not a duration",
    ),
    Bad(
        id="a Boolean as a duration",
        raw={"ramp": {"from": 1, "to": 2, "over": True}},
        want="cpu.ramp.over: not a duration: True",
    ),
    Bad(
        id="negative noise",
        raw={"constant": 1, "noise": -0.1},
        want="cpu.noise: Expected `float` >= 0",
    ),
    Bad(id="noise", raw={"constant": 1, "noise": "much"}, want="cpu.noise: Expected `float`"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_an_invalid_description_is_named_in_the_error(case: Bad) -> None:
    with pytest.raises(ConfigError) as caught:
        model(case.raw)
    assert str(caught.value).startswith(case.want)
