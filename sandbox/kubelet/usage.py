"""Models of the usage of a container, as pure functions of time.

A model returns the demand for one resource: CPU in millicores, memory in bytes. :func:`throttled`
limits it; the kubelet handles memory above the limit. The same seed, names and times always give
the same numbers.

Models are described by small mappings (:func:`parse_model`)::

    30m                                                            short for constant: 30m
    daily:    {low: 100m, high: 900m, period: 24h, peak-at: 14h}   a sine over the time of day
    ramp:     {from: 50m, to: 2, over: 10m, after: 1m}             since the container's start
    leak:     {from: 60Mi, rate: 2Mi, every: 1s, after: 30s, until: 300Mi}
    runs:     [{leak: ...}, 240Mi]       one per run of the container; the last one repeats

and ``noise: 0.1`` beside any of them varies it by up to ten percent, every ten seconds.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from common.errors import ConfigError
from common.quantity import Quantity
from sandbox.description import Amount, Described, PositiveSeconds, Seconds, read

_NOISE_STEP = 10.0  # seconds for which noise keeps its value


class Moment(NamedTuple):
    """The time, and the age of a container, for which a model is evaluated."""

    now: float  # Unix time, seconds
    age: float  # seconds since the container's present run started
    run: int = 0  # the number of restarts before
    replica: str = ""  # namespace/pod/container: the same model differs between replicas

    def earlier(self, seconds: float) -> "Moment":
        return self._replace(now=self.now - seconds, age=self.age - seconds)


class Model(Protocol):
    """The demand for one resource."""

    @property
    def peak(self) -> float:
        """The upper bound of the demand; it may be infinite."""
        ...

    def at(self, moment: Moment) -> float:
        """Return the demand in millicores or bytes, never negative."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant demand."""

    value: float

    @property
    def peak(self) -> float:
        return self.value

    def at(self, moment: Moment) -> float:  # noqa: ARG002 - a constant needs no time
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """A sine between ``low`` and ``high`` over the time of day (UTC)."""

    low: float
    high: float
    period: float  # seconds
    peak_at: float  # seconds after midnight

    @property
    def peak(self) -> float:
        return max(self.low, self.high)

    def at(self, moment: Moment) -> float:
        phase = 2 * math.pi * (moment.now - self.peak_at) / self.period
        return (self.low + self.high) / 2 + (self.high - self.low) / 2 * math.cos(phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """Linear from ``start`` to ``end``, then constant; counts from the container's start."""

    start: float
    end: float
    after: float  # seconds before it begins
    over: float  # its duration in seconds

    @property
    def peak(self) -> float:
        return max(self.start, self.end)

    def at(self, moment: Moment) -> float:
        share = min(1.0, max(0.0, (moment.age - self.after) / self.over))
        return self.start + (self.end - self.start) * share


@dataclass(frozen=True, slots=True)
class Runs:
    """A model per run of the container; the last one serves all later runs."""

    models: tuple[Model, ...]

    @property
    def peak(self) -> float:
        return max(model.peak for model in self.models)

    def at(self, moment: Moment) -> float:
        return self.models[min(moment.run, len(self.models) - 1)].at(moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """Another model with pseudo-random variation by seed, replica and time."""

    model: Model
    relative: float  # 0.1 is ten percent up or down
    seed: int

    @property
    def peak(self) -> float:
        return self.model.peak * (1 + self.relative)

    def at(self, moment: Moment) -> float:
        key = f"{self.seed}/{moment.replica}/{int(moment.now // _NOISE_STEP)}"
        chance = zlib.crc32(key.encode()) / 0xFFFF_FFFF * 2 - 1
        return max(0.0, self.model.at(moment) * (1 + self.relative * chance))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The demand of one container: CPU in millicores, memory in bytes."""

    cpu: Model = Constant(10)
    memory: Model = Constant(16 * 1024**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of one container."""

    cpu_millicores: float
    memory_bytes: int


def throttled(
    load: Load,
    moment: Moment,
    *,
    cpu_limit: int | None,
    memory_limit: int | None,
    node_cpu: int,
    window: float = 0.0,
) -> Usage:
    """Return the usage for a demand: CPU up to limit and node, memory up to the limit.

    Limits are in millicores and bytes; None is no limit. With a ``window`` (seconds) CPU is the
    mean over ``window`` before the moment, as a metrics server reports it; memory is a gauge.
    """
    ceiling = node_cpu if cpu_limit is None else min(cpu_limit, node_cpu)
    memory = load.memory.at(moment)
    if memory_limit is not None:
        memory = min(memory, memory_limit)
    return Usage(cpu_millicores=_mean(load.cpu, moment, ceiling, window), memory_bytes=int(memory))


def _mean(model: Model, moment: Moment, ceiling: float, window: float) -> float:
    if window <= 0 or isinstance(model, Constant):
        return min(ceiling, model.at(moment))
    points = 5
    moments = (moment.earlier(window * index / points) for index in range(points))
    return sum(min(ceiling, model.at(one)) for one in moments if one.age >= 0) / points


class _Daily(Described, frozen=True, kw_only=True):
    low: Amount
    high: Amount
    period: PositiveSeconds = 86_400.0
    peak_at: Seconds = 50_400.0

    def model(self, amount: Callable[[Quantity], int]) -> Model:
        low, high = amount(self.low.quantity), amount(self.high.quantity)
        return Daily(low=low, high=high, period=self.period, peak_at=self.peak_at)


class _Ramp(Described, frozen=True, kw_only=True):
    start: Amount = msgspec.field(name="from")
    to: Amount
    after: Seconds = 0.0
    over: PositiveSeconds

    def model(self, amount: Callable[[Quantity], int]) -> Model:
        start, end = amount(self.start.quantity), amount(self.to.quantity)
        return Ramp(start=start, end=end, after=self.after, over=self.over)


class _Leak(Described, frozen=True, kw_only=True):
    """A ramp that is described by its slope."""

    start: Amount = msgspec.field(name="from")
    until: Amount
    rate: Amount
    every: PositiveSeconds = 1.0
    after: Seconds = 0.0

    def __post_init__(self) -> None:
        if self.rate.quantity.nanos <= 0 or self.until.quantity < self.start.quantity:
            raise ValueError("a leak rises: rate above 0, until above from")

    def model(self, amount: Callable[[Quantity], int]) -> Model:
        start, end = amount(self.start.quantity), amount(self.until.quantity)
        over = max(end - start, 1) * self.every / amount(self.rate.quantity)
        return Ramp(start=start, end=end, after=self.after, over=over)


class _DescribedModel(Described, frozen=True, kw_only=True):
    constant: Amount | None = None
    daily: _Daily | None = None
    ramp: _Ramp | None = None
    leak: _Leak | None = None
    runs: tuple[Any, ...] | None = None
    noise: Annotated[float, msgspec.Meta(ge=0)] = 0.0


def parse_model(
    raw: object, *, amount: Callable[[Quantity], int], field: str, seed: int = 0
) -> Model:
    """Build a model from its description; ``amount`` turns a quantity into the model's unit.

    Raises:
        ConfigError: the description is invalid; the message names the ``field``.
    """
    if not isinstance(raw, Mapping):
        return Constant(amount(read(raw, Amount, field).quantity))
    described = read(raw, _DescribedModel, field)
    shapes = (described.daily, described.ramp, described.leak)
    models = [shape.model(amount) for shape in shapes if shape is not None]
    if described.constant is not None:
        models.append(Constant(amount(described.constant.quantity)))
    if described.runs:
        runs = (
            parse_model(run, amount=amount, field=f"{field}.runs[{index}]", seed=seed)
            for index, run in enumerate(described.runs)
        )
        models.append(Runs(tuple(runs)))
    if len(models) != 1:
        raise ConfigError(f"{field}: expected one of constant, daily, ramp, leak, runs")
    (model,) = models
    return Noisy(model=model, relative=described.noise, seed=seed) if described.noise else model
