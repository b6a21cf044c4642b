"""The part of JSONPath that printer columns, scale paths and selectable fields use.

Fields (``.a.b``, ``['a']``), indexes (``[0]``, ``[-1]``, ``[*]``) and filters that compare a
field with a text (``[?(@.type=='Ready')]``, also ``"`` and ``!=``).
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""
      \.(?P<field>(?:[^.\[\]\\]|\\.)+)
    | \[\s*(?P<quote>['"])(?P<key>.*?)(?P=quote)\s*\]
    | \[\s*(?P<index>-?\d+|\*)\s*\]
    | \[\?\(\s*@\.(?P<path>[\w.\-/\\]+)\s*(?P<op>==|!=)\s*(?P<q>['"]?)(?P<want>.*?)(?P=q)\s*\)\]
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """A path uses what isn't supported."""


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[re.Match[str], ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if not text.startswith((".", "[")):
        text = f".{text}"
    steps = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise JsonPathError(f"not a supported JSONPath: {path!r}")
        steps.append(match)
        position = match.end()
    return tuple(steps)


def find(obj: Any, path: str) -> Any:
    """The first value at ``path``, None when there is none.

    Raises:
        JsonPathError: the path uses what isn't supported.
    """
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in _follow(value, step)]
    return values[0] if values else None


def _follow(value: Any, step: re.Match[str]) -> Iterator[Any]:
    name, index = step["field"] or step["key"], step["index"]
    if name is not None:
        name = re.sub(r"\\(.)", r"\1", name)
        if isinstance(value, dict) and name in value:
            yield value[name]
    elif not isinstance(value, list):
        return
    elif index == "*":
        yield from value
    elif index is not None:
        if -len(value) <= int(index) < len(value):
            yield value[int(index)]
    else:
        for item in value:
            actual = find(item, f".{step['path']}")
            if (str(actual) == step["want"]) is (step["op"] == "=="):
                yield item
