"""Rules of names, labels and annotations of all kinds.

Source: ``ValidateObjectMeta``, k8s.io/apimachinery pkg/api/validation/objectmeta.go. The sentences
are shorter than those of a real API server; the fields and reasons are the same.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_invalid, field_required
from sandbox.objects.resources import EVENTS, Resource

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_LONGEST_SUBDOMAIN: Final = 253
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_HOST_NAMES: Final = frozenset({"Namespace", "StatefulSet"})  # their names are parts of DNS names


def name_causes(resource: Resource, name: str) -> Iterator[Cause]:
    """Yield why an object can't have this name."""
    if not name:
        yield field_required("metadata.name", "name or generateName is required")
    elif resource is EVENTS:
        if name in (".", "..") or "/" in name or "%" in name:
            yield field_invalid("metadata.name", name, "may not be part of a path")
    elif resource.kind in _HOST_NAMES:
        if _DNS_LABEL.fullmatch(name) is None:
            yield field_invalid("metadata.name", name, "must be a lowercase RFC 1123 label")
    elif not _is_subdomain(name):
        yield field_invalid("metadata.name", name, "must be a lowercase RFC 1123 subdomain")


def metadata_causes(meta: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield every rule that labels and annotations break."""
    for key, value in (meta.get("labels") or {}).items():
        yield from key_causes(key, "metadata.labels")
        if value and _NAME.fullmatch(value) is None:
            yield field_invalid("metadata.labels", value, "must be a label value or empty")
    for key in meta.get("annotations") or ():
        yield from key_causes(key.lower(), "metadata.annotations")


def key_causes(key: str, path: str) -> Iterator[Cause]:
    """Check the key of a label: at most 63 characters, with a DNS subdomain as optional prefix."""
    if not _is_key(key):
        yield field_invalid(path, key, "must be a name with an optional DNS subdomain prefix")


@lru_cache(maxsize=1024)
def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or _is_subdomain(prefix))


def _is_subdomain(name: str) -> bool:
    return len(name) <= _LONGEST_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(name) is not None
