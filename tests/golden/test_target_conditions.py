"""The selector and conditions of a VPA's target compared with the reference."""

import msgspec

from common.api.autoscaling import TargetReference
from common.labels import NOTHING, parse_selector
from common.target.owners import Controller
from golden_data import Differences, Row, rows
from recommender.sources.target_resolution import TargetResolution, resolved, unchecked, unreadable


def resolution_of(row: Row) -> TargetResolution:
    given = row.input
    if given["selector"] is None:
        return unreadable(given["selector_error"] or "")
    target = msgspec.convert(given["targetRef"] or {}, TargetReference)
    if given["topmost_error"] is not None:
        return unchecked(target, given["topmost_error"])
    found = given["topmost"]
    topmost = (
        None
        if found is None
        else Controller(found["namespace"], found["kind"], found["name"], found["apiVersion"])
    )
    return resolved(parse_selector(given["selector"]), target, given["namespace"], topmost)


def test_target_conditions() -> None:
    differences = Differences()
    for row in rows("target_conditions"):
        resolution = resolution_of(row)
        nothing = resolution.selector == NOTHING
        differences.check(row.id, "selector", nothing, row.expected["matches_nothing"])
        messages = [
            condition["message"]
            for condition in row.expected["conditions"]
            if condition["type"] == "ConfigUnsupported" and not condition["delete"]
        ]
        got = [resolution.unsupported] if resolution.unsupported else []
        differences.check(row.id, "message", got, messages)
    differences.none_in(80)
