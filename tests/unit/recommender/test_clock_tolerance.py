"""Tolerance for samples with future timestamps, by metrics window (X33)."""

from datetime import timedelta

import pytest

from recommender.model.clock_tolerance import LONGEST, MARGIN, tolerated


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        pytest.param("15s", 75, id="its window and a minute"),
        pytest.param("30.061s", 90.061, id="a Go duration"),
        pytest.param("1m0s", 120, id="a minute"),
        pytest.param("10m", 660, id="ten minutes"),
        pytest.param("10m1s", 660, id="more than ten minutes: ten"),
        pytest.param("9999999h", 660, id="centuries: ten"),
        pytest.param("9999999999999999999999h", 660, id="out of range: ten"),
        pytest.param("9" * 400 + "h", 120, id="longer than any duration: a minute"),
        pytest.param(None, 120, id="missing: a minute"),
        pytest.param("", 120, id="empty: a minute"),
        pytest.param("0s", 120, id="zero: a minute"),
        pytest.param("-5h", 120, id="negative: a minute"),
        pytest.param("an hour", 120, id="no duration: a minute"),
        pytest.param("3600", 120, id="without a unit: a minute"),
        pytest.param(3600, 120, id="a number: a minute"),
        pytest.param({"s": 15}, 120, id="an object: a minute"),
    ],
)
def test_tolerated(window: object, seconds: float) -> None:
    found = tolerated(window)
    assert found == timedelta(seconds=seconds)
    assert MARGIN < found <= LONGEST
