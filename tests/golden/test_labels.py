"""Label selectors and keys of label sets compared with the reference."""

import msgspec

from common.api.meta import LabelSelector
from common.labels import (
    LabelSelectorError,
    Selector,
    canonical_labels,
    from_label_selector,
    parse_selector,
)
from golden_data import Differences, Row, rows


def _selector(row: Row) -> Selector | None:
    try:
        if "text" in row.input:
            return parse_selector(row.input["text"])
        structured = msgspec.convert(row.input["selector"], LabelSelector | None)
        return from_label_selector(structured)
    except LabelSelectorError:
        return None


def test_label_selectors() -> None:
    differences = Differences()
    for row in rows("label_selectors"):
        selector = _selector(row)
        differences.check(row.id, "valid", selector is not None, row.expected["valid"])
        if selector is not None:
            differences.check(row.id, "string", str(selector), row.expected.get("string"))
            matches = [selector.matches(labels) for labels in row.input["label_sets"]]
            differences.check(row.id, "matches", matches, row.expected.get("matches"))
    differences.none_in(1_400)


def test_label_set_key() -> None:
    differences = Differences()
    for row in rows("label_set_key"):
        differences.check(row.id, "key", canonical_labels(row.input), row.expected)
    differences.none_in(60)
