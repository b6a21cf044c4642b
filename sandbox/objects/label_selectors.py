"""Label selectors as objects hold them, from plain dictionaries.

Source: ``LabelSelectorAsSelector``, k8s.io/apimachinery pkg/apis/meta/v1/helpers.go.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from common.api.meta import LabelSelector
from common.labels import NOTHING, LabelSelectorError, Selector, from_label_selector


def read_selector(raw: Mapping[str, Any] | None) -> Selector | None:
    """Read a ``LabelSelector``: null selects nothing, ``{}`` everything.

    None where a requirement can't be understood.
    """
    if raw is None:
        return NOTHING
    try:
        return from_label_selector(msgspec.convert(raw, LabelSelector))
    except (LabelSelectorError, msgspec.ValidationError):
        return None


def selector_of(raw: Mapping[str, Any] | None) -> Selector:
    """As :func:`read_selector`; what can't be read selects nothing, as for controllers."""
    found = read_selector(raw)
    return NOTHING if found is None else found
