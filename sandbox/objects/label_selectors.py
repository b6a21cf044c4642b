"""Label selectors of objects, from plain dictionaries.

Source: ``LabelSelectorAsSelector``, k8s.io/apimachinery pkg/apis/meta/v1/helpers.go.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from common.api.meta import LabelSelector
from common.labels import NOTHING, LabelSelectorError, Selector, from_label_selector


def selector_of(raw: Mapping[str, Any] | None) -> Selector:
    """Read a ``LabelSelector``. Null and an invalid selector select nothing, ``{}`` everything."""
    try:
        return NOTHING if raw is None else from_label_selector(msgspec.convert(raw, LabelSelector))
    except (LabelSelectorError, msgspec.ValidationError):
        return NOTHING
