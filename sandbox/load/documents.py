"""The prepared documents of the load mode: JSON with placeholders, from ``documents.yaml``."""

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec
import yaml

_PLACEHOLDER = re.compile(rb'"<<(\w+)>>"|<(\w+)>')


class Template:
    """A document with placeholders: ``<name>`` in a text, or ``<<name>>`` for a whole value.

    Filling it costs a copy of its bytes.
    """

    def __init__(self, document: Any) -> None:
        text = msgspec.json.encode(document)
        self._names = tuple((a or b).decode() for a, b in _PLACEHOLDER.findall(text))
        self._format = _PLACEHOLDER.sub(b"%b", text.replace(b"%", b"%%"))

    def fill(self, values: Mapping[str, bytes]) -> bytes:
        """Return the document. A value for ``<<name>>`` is JSON, one for ``<name>`` plain text."""
        return self._format % tuple([values[name] for name in self._names])


_TEXT = (resources.files("sandbox.load") / "documents.yaml").read_bytes()
DOCUMENTS = {name: Template(document) for name, document in yaml.safe_load(_TEXT).items()}
