"""Decoding of responses of Prometheus: series of points for containers and pods.

Source: recommender.md 12.5; ``readHistory`` and ``readLastLabels``,
vertical-pod-autoscaler/pkg/recommender/input/history/history_provider.go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from common.errors import DecodeError
from recommender.model.backfill import RecordedSeries
from recommender.model.keys import PodKey
from recommender.sources.usage_source_settings import UsageSourceSettings

# Microseconds from the year 1, the epoch of instants, to 1970, the epoch of Prometheus.
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


def error_in(body: bytes) -> tuple[str, str]:
    """Return the type and text of the error in a response; empty if it can't be decoded."""
    try:
        answer = _answers.decode(body)
    except msgspec.DecodeError:
        return "", ""
    return answer.error_type, answer.error


def undecoded_series(body: bytes) -> tuple[msgspec.Raw, ...]:
    """Return the undecoded series of a response.

    Raises:
        DecodeError: the response has neither a matrix nor a vector.
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
    raw: Iterable[msgspec.Raw], settings: UsageSourceSettings, amount: Callable[[float], int]
) -> Iterator[RecordedSeries | None]:
    """Yield the usage in undecoded series; None for an invalid one.

    ``amount`` converts the number of a point. A series without one of the labels is left out; in
    the reference it fails the whole query.
    """
    labels = (
        settings.container_namespace_label,
        settings.container_pod_name_label,
        settings.container_name_label,
    )
    for each in raw:
        try:
            series = _series.decode(each)
            namespace, pod, container = (series.metric[label] for label in labels)
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
        DecodeError: a series can't be decoded.
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
    """The labels of pods, from the series with the latest point of each pod."""

    def __init__(self, settings: UsageSourceSettings) -> None:
        self._names = settings.pod_namespace_label, settings.pod_name_label
        self._prefix = settings.pod_label_prefix
        self._found: dict[PodKey, tuple[float, dict[str, str]]] = {}

    def add(self, raw: Iterable[msgspec.Raw]) -> None:
        """Add the labels in undecoded series; ignore invalid ones."""
        for each in raw:
            try:
                series = _series.decode(each)
                pod = PodKey(*(series.metric[label] for label in self._names))
            except (msgspec.DecodeError, KeyError):
                continue
            points = _points(series)
            last = points[-1][0] if points else 0.0
            known = self._found.get(pod)
            if known is None or known[0] <= last:
                self._found[pod] = last, self._labels(series.metric)

    def of(self, pod: PodKey) -> Mapping[str, str]:
        """Return a pod's labels; empty if no series has them."""
        found = self._found.get(pod)
        return {} if found is None else found[1]

    def _labels(self, metric: Mapping[str, str]) -> dict[str, str]:
        return {
            name.removeprefix(self._prefix): value
            for name, value in metric.items()
            if name.startswith(self._prefix) and name not in self._names
        }


def instant_of(seconds: float) -> int:
    """Return the instant of a time from Prometheus, which has milliseconds."""
    return _EPOCH + round(seconds * 1000) * 1000


def unix_seconds(instant: int) -> str:
    """Return an instant in the format of Prometheus."""
    return f"{(instant - _EPOCH) / 1_000_000:.3f}"


def _points(series: _Series) -> list[tuple[float, str]]:
    if series.values is not None:
        return series.values
    return [] if series.value is None else [series.value]
