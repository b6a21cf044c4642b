"""Regular expressions of definitions: which a real API server takes, and what it says of others.

Go has no look-ahead, no look-behind and no references; what Python refuses is said in Go's words
as far as both know the mistake. Source: Go's regexp/syntax (``ErrorCode``, ``parsePerlFlags``).
"""

import re
from functools import lru_cache

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CLASS = re.compile(r"\[:(?P<name>\w+):\]")
_NAMED = re.compile(r"(?<!\\)\(\?<(?=\w)")
_ASSERTION = re.compile(r"(?<!\\)\(\?(?P<kind>[=!>(#]|P[=>])")
_LOOK_BEHIND = re.compile(r"(?<!\\)\(\?<[=!][^)]*\)?")
_ESCAPE = re.compile(r"\\(?P<letter>.)", re.DOTALL)
_BAD_ESCAPES = frozenset("123456789ZGceghijklmoqyHIJKLMNORTUVXY")
_REPETITION = re.compile(r"[*+?]|\{\d+(,\d*)?\}")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in Go's syntax.

    Raises:
        re.error: it is none, or uses what Python doesn't know, such as classes of Unicode.
    """
    text = _CLASS.sub(lambda found: _CLASSES.get(found["name"], found.group()), pattern)
    return re.compile(_NAMED.sub("(?P<", text).replace(r"\z", r"\Z"))


def problem(pattern: str) -> str:
    """Why a pattern is refused, empty if it isn't."""
    told = _unknown_to_go(pattern)
    if told:
        return told
    try:
        compiled(pattern)
    except re.error as error:
        return _in_words_of_go(pattern, error)
    return ""


def _unknown_to_go(pattern: str) -> str:
    found = _ASSERTION.search(pattern)
    if found is not None:
        return f"invalid or unsupported Perl syntax: `(?{found['kind'][0]}`"
    found = _LOOK_BEHIND.search(pattern)
    if found is not None:
        return f"invalid named capture: `{found.group()}`"
    unknown = [one for one in _CLASS.finditer(pattern) if one["name"] not in _CLASSES]
    if unknown:
        return f"invalid character class range: `{unknown[0].group()}`"
    for escape in _ESCAPE.finditer(pattern):
        if escape["letter"] in _BAD_ESCAPES:
            return f"invalid escape sequence: `{escape.group()}`"
    return ""


def _in_words_of_go(pattern: str, error: re.error) -> str:
    text, at = error.msg, error.pos or 0
    if text.startswith("missing ), unterminated"):
        return f"missing closing ): `{pattern}`"
    if text.startswith("unbalanced parenthesis"):
        return f"unexpected ): `{pattern}`"
    if text.startswith("unterminated character set"):
        return f"missing closing ]: `{pattern[at:]}`"
    if text.startswith("bad escape (end of pattern)"):
        return "trailing backslash at end of expression: ``"
    if text.startswith("nothing to repeat"):
        return f"missing argument to repetition operator: `{pattern[at : at + 1]}`"
    if text.startswith("multiple repeat"):
        before = [one.group() for one in _REPETITION.finditer(pattern, 0, at)][-1:]
        after = _REPETITION.match(pattern, at)
        both = "".join(before) + (after.group() if after else "")
        return f"invalid nested repetition operator: `{both}`"
    if text.startswith("bad character range"):
        return f"invalid character class range: `{text.removeprefix('bad character range ')}`"
    if text.startswith("missing -, : or )"):
        return f"invalid or unsupported Perl syntax: `{pattern[pattern.rfind('(?') :]}`"
    if text.startswith("min repeat greater"):
        repetition = _REPETITION.search(pattern, max(at - 1, 0))
        return f"invalid repeat count: `{repetition.group() if repetition else pattern}`"
    return f"the sandbox can't apply it ({text}): `{pattern}`"
