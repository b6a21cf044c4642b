"""The rules that labels and annotations keep, whatever the kind.

Source: ``ValidateObjectMeta``, k8s.io/apimachinery pkg/api/validation/objectmeta.go, and
pkg/api/validate/content/kube.go there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_invalid
from sandbox.objects.dns_names import subdomain_problems

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST = 63
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_RULE = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def metadata_causes(meta: Mapping[str, Any], path: str = "metadata") -> Iterator[Cause]:
    """Every label and annotation whose name or value is none."""
    yield from label_causes(meta.get("labels"), f"{path}.labels")
    yield from annotation_causes(meta.get("annotations"), f"{path}.annotations")


def label_causes(labels: Mapping[str, str] | None, path: str) -> Iterator[Cause]:
    """Every label of a map, told at the place of the map."""
    for key, value in (labels or {}).items():
        yield from key_causes(key, path)
        yield from value_causes(value, path)


def annotation_causes(annotations: Mapping[str, str] | None, path: str) -> Iterator[Cause]:
    """The names of annotations are those of labels, in any case."""
    for key in annotations or ():
        for problem in _key_problems(key.lower()):
            yield field_invalid(path, key, problem)


def key_causes(key: str, path: str) -> Iterator[Cause]:
    """A label's name: at most 63 characters, behind a DNS subdomain and a slash if it has one."""
    for problem in _key_problems(key):
        yield field_invalid(path, key, problem)


def value_causes(value: str, path: str) -> Iterator[Cause]:
    """A label's value: at most 63 characters, or empty."""
    if len(value) > _LONGEST:
        yield field_invalid(path, value, f"must be no more than {_LONGEST} bytes")
    if value and _NAME.fullmatch(value) is None:
        yield field_invalid(path, value, _VALUE_RULE)


def _key_problems(key: str) -> Iterator[str]:
    if key.count("/") > 1:
        yield f"a valid label key {_NAME_RULE} {_PREFIX_RULE}"
        return
    prefix, slash, name = key.rpartition("/")
    if slash:
        problems = subdomain_problems(prefix) if prefix else ("must be non-empty",)
        yield from (f"prefix part {problem}" for problem in problems)
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _LONGEST:
        yield f"name part must be no more than {_LONGEST} bytes"
    if _NAME.fullmatch(name) is None:
        yield f"name part {_NAME_RULE}"
