"""Nulls where texts belong: Go's decoder takes one in a map or a list for the empty text.

Asked when an object is refused otherwise, so that nobody else pays for it.
"""

from typing import Any, Final

from sandbox.objects import fields

_TEXTS: Final = frozenset({"{string", "{bytes", "[string"})


def fill(value: Any, type_: str) -> bool:
    """Write empty texts, in place, into a value of a recorded type; whether there was a null."""
    if not isinstance(value, dict):
        return False
    found = False
    for name, held in fields.types_of(type_).items():
        item, form, below = value.get(name), held[:1], held.lstrip("[{")
        if held in _TEXTS:
            found = _emptied(item, form) or found
        elif fields.has_fields(below):
            for one in fields.items_of(item, held.removesuffix(below)):
                found = fill(one, below) or found
    return found


def _emptied(item: Any, form: str) -> bool:
    places: list[Any] = []
    if form == "{" and isinstance(item, dict):
        places = [key for key, text in item.items() if text is None]
    elif form == "[" and isinstance(item, list):
        places = [index for index, text in enumerate(item) if text is None]
    for place in places:
        item[place] = ""
    return bool(places)
