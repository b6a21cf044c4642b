"""Label selectors as objects hold them, from plain dictionaries."""

from collections.abc import Mapping
from typing import Any

import msgspec

from common.api.meta import LabelSelector
from common.labels import NOTHING, LabelSelectorError, Selector, from_label_selector


def selector_of(raw: Mapping[str, Any] | None) -> Selector:
    """Read a ``LabelSelector``: null selects nothing, ``{}`` everything.

    One that can't be read selects nothing, which is what a controller makes of it.
    """
    if raw is None:
        return NOTHING
    try:
        return from_label_selector(msgspec.convert(raw, LabelSelector))
    except (LabelSelectorError, msgspec.ValidationError):
        return NOTHING
