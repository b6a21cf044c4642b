"""Prometheus's answers, and their invalid parts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from common.errors import DecodeError
from common.resources import cpu_from_cores, memory_from_bytes
from recommender.model.backfill import RecordedSeries
from recommender.model.keys import PodKey
from recommender.model.timestamps import instant, moment
from recommender.sources.series import (
    LastLabels,
    container_series,
    error_in,
    highest_number,
    instant_of,
    undecoded_series,
    unix_seconds,
)
from recommender.sources.usage_source_settings import UsageSourceSettings

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SECONDS = NOON.timestamp()
WEB = {"namespace": "shop", "pod_name": "web-1", "name": "app"}


def answer(*result: Any, kind: str = "matrix") -> bytes:
    data = {"resultType": kind, "result": result}
    return msgspec.json.encode({"status": "success", "data": data})


def series(metric: Any, *values: str, first: float = SECONDS) -> Any:
    return {"metric": metric, "values": [(first + at, text) for at, text in enumerate(values)]}


def recorded(*result: Any, of: Any = cpu_from_cores) -> list[RecordedSeries | None]:
    return list(container_series(undecoded_series(answer(*result)), UsageSourceSettings(), of))


def test_cores_are_truncated_to_millicores() -> None:
    found = recorded(series(WEB, "0.0019999", "1.5"))
    assert found == [
        RecordedSeries(
            pod=PodKey("shop", "web-1"),
            container="app",
            times=[instant(NOON), instant(NOON + timedelta(seconds=1))],
            amounts=[1, 1500],
        )
    ]


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1048576", 2**20), ("1.048576e+06", 2**20), ("+Inf", 10**14), ("-1", 0)],
)
def test_bytes(text: str, amount: int) -> None:
    (one,) = recorded(series(WEB, text), of=memory_from_bytes)
    assert one is not None
    assert one.amounts == [amount]


def test_a_sample_that_is_not_a_number_is_negative_and_thus_refused() -> None:
    (one,) = recorded(series(WEB, "NaN"))
    assert one is not None
    assert one.amounts[0] < 0


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param(series({"namespace": "shop", "name": "app"}, "1"), id="a label is missing"),
        pytest.param(series(WEB, "much"), id="no number"),
        pytest.param({"metric": 7}, id="no series"),
        pytest.param(series(WEB, "1", first=float(2**80)), id="an invalid time"),
    ],
)
def test_an_invalid_series_is_skipped_alone(strange: Any) -> None:
    found = recorded(strange, series(WEB, "1"))
    assert [one is None for one in found][-1:] == [False]
    assert len(found) == 2


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="no JSON"),
        pytest.param(b'{"status": "success"}', id="no data"),
        pytest.param(answer(kind="scalar"), id="a scalar"),
        pytest.param(answer(kind="string"), id="a text"),
    ],
)
def test_invalid_answers(body: bytes) -> None:
    with pytest.raises(DecodeError):
        undecoded_series(body)


def test_the_error_contains_the_server_s_message() -> None:
    body = b'{"status": "error", "errorType": "execution", "error": "too many samples"}'
    assert error_in(body) == ("execution", "too many samples")
    assert error_in(b"<html>") == ("", "")


def test_times_have_a_precision_of_milliseconds() -> None:
    assert moment(instant_of(SECONDS + 0.123)) == NOON + timedelta(milliseconds=123)
    assert unix_seconds(instant(NOON)) == f"{SECONDS:.3f}"


def labels(pod: str, **more: str) -> dict[str, str]:
    return {"kubernetes_namespace": "shop", "kubernetes_pod_name": pod, "job": "x", **more}


def test_labels_are_those_of_the_latest_series() -> None:
    found = LastLabels(UsageSourceSettings())
    old = series(labels("web-1", pod_label_app="old"), "1", "1")
    new = series(labels("web-1", pod_label_app="new", pod_label_tier="x"), "1", "1", "1")
    found.add(undecoded_series(answer(new, old)))
    assert found.of(PodKey("shop", "web-1")) == {"app": "new", "tier": "x"}


def test_labels_also_come_as_a_vector_and_invalid_series_are_ignored() -> None:
    found = LastLabels(UsageSourceSettings(pod_label_prefix=""))
    vector = {"metric": labels("web-1", app="web"), "value": (SECONDS, "1")}
    strange = {"metric": {"app": "web"}, "value": (SECONDS, "1")}
    found.add(undecoded_series(answer(strange, vector, kind="vector")))
    assert found.of(PodKey("shop", "web-1")) == {"app": "web", "job": "x"}
    assert found.of(PodKey("shop", "unknown")) == {}


def test_the_highest_count() -> None:
    assert highest_number(undecoded_series(answer(series({}, "3", "12", "4")))) == 12
    assert highest_number(undecoded_series(answer())) == 0
    with pytest.raises(DecodeError, match="not a count"):
        highest_number(undecoded_series(answer(series({}, "many"))))
