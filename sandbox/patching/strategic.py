"""Strategic merge patches: lists that merge by a key, and ``$patch: delete`` of their items.

A simple form of ``StrategicMergeMapPatchUsingLookupPatchMeta``,
k8s.io/apimachinery/pkg/util/strategicpatch: other directives are ignored, and new items of a merged
list are appended.
"""

from typing import Any, Final

from sandbox.errors import ApiError, shown
from sandbox.patching.merge_keys import Fields, MergedList

_PATCH: Final = "$patch"
_PLAIN: Final[Fields] = {}


def strategic_merge(
    original: dict[str, Any], patch: dict[str, Any], fields: Fields
) -> dict[str, Any]:
    """Merge ``patch`` into ``original``; both are consumed.

    Raises:
        ApiError: 500, an item of a merged list isn't a map, or lacks the merge key.
    """
    for name, value in patch.items():
        current, rule = original.get(name), fields.get(name)
        if name.startswith("$"):
            continue
        if value is None:
            original.pop(name, None)
        elif isinstance(current, dict) and isinstance(value, dict):
            nested = _PLAIN if rule is None or isinstance(rule, MergedList) else rule
            original[name] = strategic_merge(current, value, nested)
        elif isinstance(value, list) and isinstance(rule, MergedList):
            original[name] = _merge_lists(current or [], value, rule)
        else:
            original[name] = _clean(value)
    return original


def _merge_lists(original: list[Any], patch: list[Any], rule: MergedList) -> list[Any]:
    if not rule.key:
        return list(dict.fromkeys([*original, *patch]))
    merged = {one.get(rule.key): one for one in original}
    for item in patch:
        value = _merge_value(item, rule.key)
        if item.get(_PATCH) == "delete":
            merged.pop(value, None)
        elif value in merged:
            merged[value] = strategic_merge(merged[value], item, rule.item)
        else:
            merged[value] = _clean(item)
    return list(merged.values())


def _clean(value: Any) -> Any:
    """Return a value without directives and nulls, because there is nothing to merge with."""
    if isinstance(value, dict):
        return {
            name: _clean(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _merge_value(item: Any, key: str) -> Any:
    if not isinstance(item, dict) or not isinstance(item.get(key), str | int):
        text = f"map: {shown(item)} does not contain declared merge key: {key}"
        raise ApiError(500, "InternalError", text)
    return item[key]
