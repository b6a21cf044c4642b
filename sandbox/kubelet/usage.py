"""What a container would like to use, as pure functions of time.

A model returns the demand for one resource: CPU in millicores, memory in bytes. What becomes of
the demand (CPU is throttled at the limit, memory above the limit is death) is :func:`throttled`
and the kubelet's affair. The same seed, names and times give the same numbers, always.

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
from functools import partial
from typing import NamedTuple, Protocol

from common.errors import ConfigError
from common.quantity import Quantity
from sandbox import description
from sandbox.description import Section

_NOISE_STEP = 10.0  # seconds for which noise keeps its value


class Moment(NamedTuple):
    """When, and in the life of which container, a model is asked."""

    now: float  # Unix time, seconds
    age: float  # seconds since the container's present run started
    run: int = 0  # how often it was restarted before
    replica: str = ""  # namespace/pod/container: the same model differs between replicas

    def earlier(self, seconds: float) -> "Moment":
        return self._replace(now=self.now - seconds, age=self.age - seconds)


class Model(Protocol):
    """The demand for one resource."""

    @property
    def peak(self) -> float:
        """Never exceeded; infinite where there is no such bound."""
        ...

    def at(self, moment: Moment) -> float:
        """Demand in millicores or bytes, never negative."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

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
    """Straight from ``start`` to ``end``, then flat; counts from the container's start."""

    start: float
    end: float
    after: float  # seconds before it begins to move
    over: float  # seconds that it takes

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
    """Another model, varied by chance that is fixed by seed, replica and time."""

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
    """What one container wants: CPU in millicores, memory in bytes."""

    cpu: Model = Constant(10)
    memory: Model = Constant(16 * 1024**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one container uses."""

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
    """What is left of the demand: CPU up to limit and node, memory up to the limit.

    Limits are in millicores and bytes; None is no limit. With a ``window`` (seconds) CPU is the
    mean over ``window`` up to the moment, as a metrics server reports it; memory is a gauge.
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


def parse_model(
    raw: object, *, amount: Callable[[Quantity], int], field: str, seed: int = 0
) -> Model:
    """Build a model from its description; ``amount`` turns a quantity into the model's unit.

    Raises:
        ConfigError: the description isn't one; the message names the ``field``.
    """

    def convert(value: object) -> float:
        return float(amount(description.quantity(value)))

    if not isinstance(raw, Mapping):
        try:
            return Constant(convert(raw))
        except ValueError as error:
            raise ConfigError(f"{field}: {error}") from error
    section = Section(raw, field)
    noise = section.take("noise", description.number, 0.0)
    kinds = [name for name in _KINDS if name in section]
    if len(kinds) != 1:
        raise ConfigError(f"{field}: expected one of {', '.join(_KINDS)}")
    kind = kinds[0]
    model: Model
    if kind == "constant":
        model = Constant(section.take(kind, convert))
    elif kind == "runs":
        parse = partial(parse_model, amount=amount, seed=seed)
        models = tuple(parse(item, field=path) for item, path in section.items(kind))
        if not models:
            raise ConfigError(f"{section.field(kind)}: empty")
        model = Runs(models)
    else:
        inner = section.section(kind)
        model = _SHAPES[kind](inner, convert)
        inner.close()
    section.close()
    return Noisy(model=model, relative=noise, seed=seed) if noise else model


def _daily(section: Section, convert: Callable[[object], float]) -> Model:
    return Daily(
        low=section.take("low", convert),
        high=section.take("high", convert),
        period=section.take("period", _positive, 86_400.0),
        peak_at=section.take("peak-at", description.seconds, 50_400.0),
    )


def _ramp(section: Section, convert: Callable[[object], float]) -> Model:
    return Ramp(
        start=section.take("from", convert),
        end=section.take("to", convert),
        after=section.take("after", description.seconds, 0.0),
        over=section.take("over", _positive),
    )


def _leak(section: Section, convert: Callable[[object], float]) -> Model:
    """A leak is a ramp that is known by its slope."""
    start = section.take("from", convert)
    until = section.take("until", convert)
    rate = section.take("rate", convert) / section.take("every", _positive, 1.0)
    if rate <= 0 or until < start:
        raise ConfigError(f"{section.path}: a leak rises: rate above 0, until above from")
    after = section.take("after", description.seconds, 0.0)
    return Ramp(start=start, end=until, after=after, over=max(until - start, 1.0) / rate)


def _positive(value: object) -> float:
    """A duration in seconds that time can be divided by."""
    seconds = description.seconds(value)
    if seconds <= 0:
        raise ValueError(f"not a duration above 0: {value!r}")
    return seconds


_SHAPES: Mapping[str, Callable[[Section, Callable[[object], float]], Model]] = {
    "daily": _daily,
    "ramp": _ramp,
    "leak": _leak,
}
_KINDS = ("constant", *_SHAPES, "runs")
