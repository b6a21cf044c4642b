"""Strategic merge patches: merge keys, ``$patch`` and the order of merged lists.

Other directives, which ``kubectl apply`` sends, are left out: what they add is the order of lists
and keys that go.

Follows ``StrategicMergeMapPatchUsingLookupPatchMeta`` of
k8s.io/apimachinery/pkg/util/strategicpatch, as an API server runs it (parallel lists are
merged, unmatched nulls are ignored).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from sandbox.errors import shown
from sandbox.patching.merge_keys import Fields, MergedList, Replaced

_PATCH: Final = "$patch"
_PLAIN: Final[Fields] = {}


class StrategicPatchError(ValueError):
    """A directive that makes no sense; ``status`` is the HTTP status of the answer."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


def strategic_merge(original: dict[str, Any], patch: dict[str, Any], fields: Fields) -> Any:
    """Merge ``patch`` into ``original``; both are consumed.

    Raises:
        StrategicPatchError: a directive has a wrong form, or a merge key is missing.
    """
    if _PATCH in patch:
        return _whole_map(patch)
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            original.pop(name, None)
            continue
        current = original.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            original[name] = _merge_maps(current, value, fields.get(name, _PLAIN))
        elif isinstance(current, list) and isinstance(value, list):
            original[name] = _merge_lists(current, value, fields.get(name))
        else:
            original[name] = _clean(value)
    return original


def _merge_maps(
    original: dict[str, Any], patch: dict[str, Any], rule: Fields | MergedList | Replaced
) -> Any:
    if isinstance(rule, Replaced):
        return _clean(patch)
    return strategic_merge(original, patch, _PLAIN if isinstance(rule, MergedList) else rule)


def _merge_lists(original: list[Any], patch: list[Any], rule: object) -> list[Any]:
    if not isinstance(rule, MergedList):
        cleaned: list[Any] = _clean(patch)
        return cleaned
    if not rule.key:
        if any(isinstance(item, dict | list) for item in patch):
            raise StrategicPatchError("an item of a list of scalars is none", status=422)
        merged = list(dict.fromkeys([*original, *patch]))
        return _ordered(merged, patch, original, _itself)
    key = rule.key
    before = original
    replaced, changes = False, []
    for item in patch:
        directive = _map(item).get(_PATCH)
        if directive is None:
            changes.append(item)
        elif directive == "delete":
            wanted = _merge_value(item, key)
            original = [one for one in original if one.get(key) != wanted]
        elif directive == "replace":
            replaced = True
        else:
            raise _unknown_directive(item)
    if replaced:
        return [_clean(item) for item in changes]
    identify = partial(_value_of, key)
    places = _places(original, identify)
    merged = list(original)
    for item in changes:
        place = places.get(_merge_value(item, key))
        if place is None:
            places[item[key]] = len(merged)
            merged.append(_clean(item))
        else:
            merged[place] = strategic_merge(merged[place], dict(item), rule.item)
    return _ordered(merged, changes, before, identify)


def _ordered(
    merged: Sequence[Any],
    patch: Sequence[Any],
    server: Sequence[Any],
    identify: Callable[[Any], Any],
) -> list[Any]:
    """Items of the patch in the patch's order, the others put between them as they stood.

    An item that only the server has comes before the first item of the patch that it
    preceded on the server, so an item that is new goes to the front.
    """
    wanted = _places(patch, identify)
    stood = _places(server, identify)
    named = sorted(
        (item for item in merged if identify(item) in wanted),
        key=lambda item: wanted[identify(item)],
    )
    others = [item for item in merged if identify(item) not in wanted]
    result: list[Any] = []
    place = 0
    for item in named:
        limit = stood.get(identify(item), -1)
        while place < len(others) and stood[identify(others[place])] < limit:
            result.append(others[place])
            place += 1
        result.append(item)
    return result + others[place:]


def _places(items: Sequence[Any], identify: Callable[[Any], Any]) -> dict[Any, int]:
    """Where each item stands; of several that are alike, the first."""
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(identify(item), place)
    return places


def _whole_map(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch[_PATCH]
    if directive == "delete":
        return {}
    if directive != "replace":
        raise _unknown_directive(patch)
    kept: dict[str, Any] = _clean(patch)
    return kept


def _clean(value: Any) -> Any:
    """A value that meets nothing to merge with: without its directives and nulls."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {
            name: _clean(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [
            _clean(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_PATCH) in ("delete", "replace"))
        ]
    return value


def _itself(item: Any) -> Any:
    return item


def _value_of(key: str, item: object) -> Any:
    return _map(item).get(key)


def _map(item: object) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise StrategicPatchError("an item of a merged list is no map", status=422)
    return item


def _merge_value(item: dict[str, Any], key: str) -> Any:
    if not isinstance(item.get(key), str | int):
        raise StrategicPatchError(
            f"map: {shown(item)} does not contain declared merge key: {key}", status=500
        )
    return item[key]


def _unknown_directive(patch: dict[str, Any]) -> StrategicPatchError:
    return StrategicPatchError(f"unknown patch type found in: {shown(patch)}", status=422)
