"""Normalization of responses: it removes values that always differ between two servers."""

import re
from collections.abc import Iterable
from typing import Any

# Removed completely. The sandbox doesn't have ``managedFields``.
_VOLATILE = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "storageVersionHash",
        "continue",
        "token",
        "clusterIP",
        "clusterIPs",
        "caBundle",
        "remainingItemCount",
        "description",  # of a column: the field's documentation
    }
)
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_CURRENT = re.compile(r"\bcurrent: \d+")  # the current resource version of the server
# A real server appends a diff of its Go types to the refusal of a pod's change.
_DIFF = re.compile(r"(pod updates may not change fields other than [^\n]+)\n@@ -\d.*", re.DOTALL)
_AGE = re.compile(r"^\d+(ms|s|m)$")  # in a table


def normal(body: Any, versions: Iterable[str] = ()) -> Any:
    """Return a copy without identities, times, ports and generated names."""
    known = sorted({version for version in versions if len(version) > 1}, key=len, reverse=True)
    # The number of an RFC may be that of a version.
    versions_in_text = re.compile(rf"(?<!RFC )\b({'|'.join(known)})\b") if known else None
    return _normal(body, versions_in_text)


def _normal(value: Any, versions: re.Pattern[str] | None) -> Any:
    if isinstance(value, dict):
        result = {
            key: _normal(item, versions) for key, item in value.items() if key not in _VOLATILE
        }
        if value.get("kind") == "APIResourceList":
            result["resources"].sort(key=lambda one: str(one["name"]))  # a map of Go, once
        if "cells" in value:
            cells = result["cells"]
            result["cells"] = [
                _AGE.sub("<age>", cell) if isinstance(cell, str) else cell for cell in cells
            ]
        prefix = value.get("generateName")
        if prefix and str(value.get("name", "")).startswith(prefix):
            result["name"] = f"{prefix}<generated>"
        if "labels" in result and isinstance(result["labels"], dict):
            for label in ("pod-template-hash", "controller-revision-hash"):
                if label in result["labels"]:
                    result["labels"][label] = "<hash>"
        return result
    if isinstance(value, list):
        return [_normal(item, versions) for item in value if not _is_authority(item)]
    if not isinstance(value, str):
        return value
    text = _PORT.sub("127.0.0.1:<port>", _TIME.sub("<time>", _UID.sub("<uid>", value)))
    text = _DIFF.sub(r"\1", text)
    text = _CURRENT.sub("current: <version>", text)
    return versions.sub("<version>", text) if versions and " " in text else text


def _is_authority(value: Any) -> bool:
    """Return True for the config map that a controller creates in every new namespace."""
    meta = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(meta, dict) and meta.get("name") == "kube-root-ca.crt"


def differences(got: Any, want: Any, path: str = "") -> list[str]:
    """Yield a line for each difference of two responses."""
    if isinstance(got, dict) and isinstance(want, dict):
        return [
            line
            for key in sorted({*got, *want})
            for line in differences(
                got.get(key, _NOTHING), want.get(key, _NOTHING), f"{path}.{key}"
            )
        ]
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        return [
            line
            for index, (mine, theirs) in enumerate(zip(got, want, strict=True))
            for line in differences(mine, theirs, f"{path}[{index}]")
        ]
    return [] if got == want else [f"{path}: got {_shown(got)}, want {_shown(want)}"]


_NOTHING = object()


def _shown(value: Any) -> str:
    return "nothing" if value is _NOTHING else repr(value)
