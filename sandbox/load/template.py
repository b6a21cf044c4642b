"""JSON documents of which all but a few places are prepared."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_PLACE = re.compile(rb'"<<(\w+)>>"|<(\w+)>')


class Template:
    """A document with places: ``<name>`` in a text, or ``<<name>>`` for a whole value.

    Filling it costs a copy of its bytes, whatever is in them.
    """

    def __init__(self, document: Any) -> None:
        text = msgspec.json.encode(document)
        self._names = tuple((a or b).decode() for a, b in _PLACE.findall(text))
        self._format = _PLACE.sub(b"%b", text.replace(b"%", b"%%"))

    def fill(self, values: Mapping[str, bytes]) -> bytes:
        """The document; a value for ``<<name>>`` is JSON, one for ``<name>`` plain text."""
        return self._format % tuple([values[name] for name in self._names])
