"""The subset of JSONPath that printer columns, scale paths and tables use.

It has fields (``.a.b``), indexes (``[0]``) and filters that compare a field with text
(``[?(@.type=='Ready')]``).
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""
      \.(?P<field>[^.\[\]]+)
    | \[(?P<index>\d+)\]
    | \[\?\(@\.(?P<path>[\w.]+)==(?P<quote>['"])(?P<want>.*?)(?P=quote)\)\]
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """An unsupported path."""


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[re.Match[str], ...]:
    steps = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise JsonPathError(f"not a supported JSONPath: {path!r}")
        steps.append(match)
        position = match.end()
    return tuple(steps)


def find(obj: Any, path: str) -> Any:
    """Return the first value at ``path``, None if there is none.

    Raises:
        JsonPathError: the path isn't supported.
    """
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in _follow(value, step)]
    return values[0] if values else None


def _follow(value: Any, step: re.Match[str]) -> Iterator[Any]:
    if step["field"]:
        if isinstance(value, dict) and step["field"] in value:
            yield value[step["field"]]
    elif not isinstance(value, list):
        return
    elif step["index"]:
        yield from value[int(step["index"]) :][:1]
    else:
        for item in value:
            if str(find(item, f".{step['path']}")) == step["want"]:
                yield item
