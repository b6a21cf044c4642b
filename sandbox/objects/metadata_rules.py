"""The rules that labels and annotations keep, whatever the kind.

Source: ``ValidateObjectMeta``, k8s.io/apimachinery pkg/api/validation/objectmeta.go, and
pkg/util/validation/validation.go there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_invalid

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def metadata_causes(meta: Mapping[str, Any], path: str = "metadata") -> Iterator[Cause]:
    """Every label and annotation whose name or value has characters that it may not have."""
    for key, value in (meta.get("labels") or {}).items():
        if not _is_name(key):
            yield field_invalid(f"{path}.labels", key, _NAME_RULE)
        if value and _NAME.fullmatch(value) is None:
            yield field_invalid(f"{path}.labels", value, _VALUE_RULE)
    for key in meta.get("annotations") or {}:
        if not _is_name(key.lower()):
            yield field_invalid(f"{path}.annotations", key, _NAME_RULE)


def _is_name(key: str) -> bool:
    return _NAME.fullmatch(key.rpartition("/")[2]) is not None
