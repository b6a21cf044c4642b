"""Annotations: values that we write parse back, and values of other clients cause no error."""

import pytest

from common.annotations import (
    OriginalResources,
    boosted_containers,
    observed_containers_value,
    parse_observed_containers,
    parse_startup_boost,
    startup_boost_key,
    startup_boost_value,
)
from common.resources import parse_quantities


def test_observed_containers_round_trip() -> None:
    assert observed_containers_value(["app", "side-car"]) == "app, side-car"
    assert parse_observed_containers("app, side-car") == ("app", "side-car")
    assert parse_observed_containers(observed_containers_value([])) == ()


def test_original_resources_round_trip() -> None:
    original = OriginalResources(
        requests=parse_quantities({"memory": "64Mi", "cpu": "100m", "storage": "1Gi"}), limits={}
    )
    text = startup_boost_value(original)
    assert text == '{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{}}'
    read = parse_startup_boost(text)
    assert read is not None
    assert read.requests == parse_quantities({"cpu": "100m", "memory": "64Mi"})
    assert read.limits == {}


@pytest.mark.parametrize(
    "value", ["", "{", "[]", '{"requests":{"cpu":"much"}}', '{"requests":{"cpu":1}}', "null"]
)
def test_unreadable_original_resources_are_ignored(value: str) -> None:
    assert parse_startup_boost(value) is None


def test_missing_maps_are_empty() -> None:
    assert parse_startup_boost('{"requests":null}') == OriginalResources(requests={}, limits={})


def test_boosted_containers() -> None:
    annotations = {startup_boost_key("b"): "{}", startup_boost_key("a"): "{}", "vpaUpdates": ""}
    assert boosted_containers(annotations) == ("a", "b")
    assert boosted_containers(None) == ()
