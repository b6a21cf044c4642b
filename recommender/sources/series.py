"""Answers of Prometheus: series of points, with the containers and pods that they are of.

Source: recommender.md 12.5; ``readHistory`` and ``readLastLabels``,
vertical-pod-autoscaler/pkg/recommender/input/history/history_provider.go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from common.errors import DecodeError
from recommender.model.backfill import RecordedSeries
from recommender.model.keys import PodKey
from recommender.sources.promql import ContainerLabels, PodLabels

# From the year 1 to 1970, in microseconds: instants count from there, Prometheus from here.
_EPOCH = 719_162 * 86_400 * 1_000_000


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: tuple[msgspec.Raw, ...] = ()


class _Answer(msgspec.Struct, rename="camel"):
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


class _Series(msgspec.Struct):
    metric: Mapping[str, str]
    values: list[tuple[float, str]] | None = None  # of a matrix
    value: tuple[float, str] | None = None  # of a vector


_answers = msgspec.json.Decoder(_Answer)
_series = msgspec.json.Decoder(_Series)


def complaint(body: bytes) -> tuple[str, str]:
    """Return the type and the text of the error in an answer; empty if it can't be read."""
    try:
        answer = _answers.decode(body)
    except msgspec.DecodeError:
        return "", ""
    return answer.error_type, answer.error


def undecoded_series(body: bytes) -> tuple[msgspec.Raw, ...]:
    """Return the undecoded series of an answer; empty if it holds none.

    Raises:
        DecodeError: it is no answer with a matrix or a vector.
    """
    try:
        answer = _answers.decode(body)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not an answer of Prometheus: {error}") from error
    if answer.data is None or answer.data.result_type not in ("matrix", "vector"):
        kind = answer.data.result_type if answer.data is not None else "nothing"
        raise DecodeError(f"a matrix was expected, but the answer is {kind or 'nothing'}")
    return answer.data.result


def container_series(
    raw: Iterable[msgspec.Raw], labels: ContainerLabels, amount: Callable[[float], int]
) -> Iterator[RecordedSeries | None]:
    """Yield the usage in undecoded series; None for one that can't be used.

    ``amount`` makes an amount of a point's number. A series without one of the labels fails
    the reference's whole query; here it costs itself.
    """
    for each in raw:
        try:
            series = _series.decode(each)
            namespace, pod, container = (
                series.metric[label] for label in (labels.namespace, labels.pod, labels.container)
            )
            points = _points(series)
            yield RecordedSeries(
                pod=PodKey(namespace, pod),
                container=container,
                times=[instant_of(seconds) for seconds, _ in points],
                amounts=[amount(float(text)) for _, text in points],
            )
        except (msgspec.DecodeError, KeyError, ValueError, OverflowError):
            yield None


def highest_number(raw: Iterable[msgspec.Raw]) -> int:
    """Return the highest number in undecoded series, 0 if there is none.

    Raises:
        DecodeError: they are no series of numbers.
    """
    highest = 0.0
    try:
        for each in raw:
            numbers = [float(text) for _, text in _points(_series.decode(each))]
            highest = max([highest, *numbers])
        return int(highest)
    except (ValueError, OverflowError) as error:  # msgspec.DecodeError is a ValueError
        raise DecodeError(f"not a count: {error}") from error


class LastLabels:
    """The labels of pods: those of the series that was seen last."""

    def __init__(self, labels: PodLabels) -> None:
        self._names = labels
        self._found: dict[PodKey, tuple[float, dict[str, str]]] = {}

    def add(self, raw: Iterable[msgspec.Raw]) -> int:
        """Look at undecoded series; returns how many can't be used."""
        unusable = 0
        for each in raw:
            try:
                series = _series.decode(each)
                pod = PodKey(series.metric[self._names.namespace], series.metric[self._names.pod])
            except (msgspec.DecodeError, KeyError):
                unusable += 1
                continue
            points = _points(series)
            last = points[-1][0] if points else 0.0
            known = self._found.get(pod)
            if known is None or known[0] <= last:
                self._found[pod] = last, self._labels(series.metric)
        return unusable

    def of(self, pod: PodKey) -> Mapping[str, str]:
        """Return a pod's labels; empty if no series has them."""
        found = self._found.get(pod)
        return {} if found is None else found[1]

    def _labels(self, metric: Mapping[str, str]) -> dict[str, str]:
        prefix = self._names.prefix
        own = (self._names.namespace, self._names.pod)
        return {
            name.removeprefix(prefix): value
            for name, value in metric.items()
            if name.startswith(prefix) and name not in own
        }


def instant_of(seconds: float) -> int:
    """Return the instant of a time that Prometheus wrote; it knows milliseconds."""
    return _EPOCH + round(seconds * 1000) * 1000


def unix_seconds(instant: int) -> str:
    """Return an instant as Prometheus reads it."""
    return f"{(instant - _EPOCH) / 1_000_000:.3f}"


def _points(series: _Series) -> list[tuple[float, str]]:
    if series.values is not None:
        return series.values
    return [] if series.value is None else [series.value]
