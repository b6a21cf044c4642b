"""The rules of label selectors in specs.

Source: ``ValidateLabelSelector``, k8s.io/apimachinery pkg/apis/meta/v1/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_required
from sandbox.objects.rules.metadata import key_causes, label_causes, value_causes

Json = Mapping[str, Any]


def selector_causes(selector: Json | None, path: str) -> Iterator[Cause]:
    """Every requirement that can't be understood."""
    if selector is None:
        return
    yield from label_causes(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement_causes(one, f"{path}.matchExpressions[{index}]")


def _requirement_causes(one: Json, path: str) -> Iterator[Cause]:
    operator, values = one.get("operator", ""), one.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            yield field_required(f"{path}.values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield field_forbidden(f"{path}.values", text)
    else:
        yield field_invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from key_causes(one.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        yield from value_causes(value, f"{path}.values[{index}]")


def is_empty(selector: Json) -> bool:
    """Whether it asks for nothing, and so selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def in_go_order(selector: Json | None) -> Json | None:
    """The selector as a real API server quotes it: labels by name, empty parts left out."""
    if selector is None:
        return None
    shown: dict[str, Any] = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            {name: one[name] for name in ("key", "operator", "values") if name in one}
            for one in selector["matchExpressions"]
        ]
    return shown
