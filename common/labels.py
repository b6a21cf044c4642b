"""Label selectors: parsing, matching, comparison and text form.

Source: k8s.io/apimachinery/pkg/labels/selector.go, ``LabelSelectorAsSelector`` in
k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go.
"""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from common.api.meta import LabelSelector
from common.errors import DecodeError
from common.quantity import MAX_INT64

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DNS_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_KEY_NAME = re.compile(_NAME)
_VALUE = re.compile(rf"(?:{_NAME})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),><]|[^=!(),>< \t\r\n]+|$)")


class LabelSelectorError(DecodeError, ValueError):
    """A selector violates a rule of labels; the message says which."""


class _LabelError(LabelSelectorError):
    """A key or a value of a selector is no valid label."""


class Operator(enum.StrEnum):
    """The operator of a requirement; the values are those of the text form."""

    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    GREATER_THAN = ">"
    LESS_THAN = "<"


_STRUCTURED = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_SETS = (Operator.IN, Operator.NOT_IN)
_NEGATIVE = (Operator.NOT_IN, Operator.NOT_EQUALS)
_EXISTENCE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_ORDERING = (Operator.GREATER_THAN, Operator.LESS_THAN)
_BINARY = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()  # sorted

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels meet the requirement; a missing label meets a negative one."""
        value = labels.get(self.key)
        if self.operator is Operator.EXISTS:
            return value is not None
        if self.operator is Operator.DOES_NOT_EXIST:
            return value is None
        if self.operator in _NEGATIVE:
            return value is None or value not in self.values
        if value is None:
            return False
        if self.operator in _ORDERING:
            return _ordered(value, self.operator, self.values[0])
        return value in self.values

    def __str__(self) -> str:
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in _SETS:
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A list of requirements that must all hold, sorted by key; an empty one selects everything.

    ``nothing`` is the selector that no object matches. Its text equals that of the one that
    selects everything, so compare selectors as values, never as texts (recommender.md Q31).
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return True if an object with these labels is selected; None: it has no labels."""
        if self.nothing:
            return False
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def from_label_selector(selector: LabelSelector | None) -> Selector:
    """Translate a structured selector: an absent one selects nothing, an empty one everything.

    Raises:
        LabelSelectorError: a key, a value, an operator or the number of values is not allowed.
    """
    if selector is None:
        return NOTHING
    found = [
        _requirement(key, Operator.EQUALS, (value,))
        for key, value in (selector.match_labels or {}).items()
    ]
    for expression in selector.match_expressions or ():
        operator = _STRUCTURED.get(expression.operator)
        if operator is None:
            raise LabelSelectorError(
                f'"{expression.operator}" is not a valid label selector operator'
            )
        found.append(_requirement(expression.key, operator, expression.values or ()))
    return _selector(found)


def from_map(labels: Mapping[str, str] | None) -> Selector:
    """Return a selector for all these labels: None selects nothing, an empty map everything.

    Raises:
        LabelSelectorError: a key or a value is no label.
    """
    if labels is None:
        return NOTHING
    return _selector(_requirement(key, Operator.EQUALS, (labels[key],)) for key in labels)


def parse_selector(text: str) -> Selector:
    """Parse the text form, such as ``app=web,tier in (a,b),!canary``; empty selects everything.

    Raises:
        LabelSelectorError: the text is no selector.
    """
    return _selector(_SelectorParser(text).requirements())


def canonical_labels(labels: Mapping[str, str] | None) -> str:
    """Return the text of a label set that is equal for equal sets: its sorted pairs.

    The pairs are sorted, not the keys: ``a.b/c=`` precedes ``a=``.

    Source: recommender.md 5.1; ``labels.Set.String``.
    """
    return ",".join(sorted(f"{key}={value}" for key, value in (labels or {}).items()))


class _SelectorParser:
    """A recursive descent parser over the tokens of a selector's text."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._peek() and not self._begins_one():
            raise self._error("!, identifier, or 'end of string'")
        while self._peek():
            try:
                found.append(self._one())
            except _LabelError:
                raise
            except LabelSelectorError as error:
                raise LabelSelectorError(f"unable to parse requirement: {error}") from error
            if not self._peek():
                break
            if not self._take_if(","):
                raise self._error("',' or 'end of string'")
            if not self._begins_one():
                raise self._error("identifier after ','")
        return found

    def _one(self) -> Requirement:
        negated = self._take_if("!")
        key = self._word()
        _check_key(key, place="<nil>")
        if negated:
            return _requirement(key, Operator.DOES_NOT_EXIST, ())
        if self._peek() in ("", ","):
            return _requirement(key, Operator.EXISTS, ())
        operator = self._operator()
        if operator in _SETS:
            return _requirement(key, operator, sorted(self._set()))
        value = "" if self._peek() in ("", ",") else self._word()
        return _requirement(key, operator, (value,))

    def _operator(self) -> Operator:
        token = self._peek()
        if token in ("exists", "!") or token not in list(Operator):
            raise self._error(_BINARY)
        self._next += 1
        return Operator(token)

    def _set(self) -> set[str]:
        """Parse values in parentheses; a missing one, as in ``(a,)``, is the empty text."""
        if not self._take_if("("):
            raise LabelSelectorError(f"found '{self._peek()}' expected: '('")
        if not self._is_word() and self._peek() not in (",", ")"):
            raise self._error("',', ')' or identifier")
        values: set[str] = set()
        while True:
            named = self._is_word()
            values.add(self._word() if named else "")
            if self._take_if(")"):
                return values
            if not self._take_if(","):
                raise self._error("',' or ')'" if named else "',', or identifier")

    def _begins_one(self) -> bool:
        return self._is_word() or self._peek() == "!"

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _is_word(self) -> bool:
        token = self._peek()
        return bool(token) and token[0] not in "=!(),><"

    def _word(self) -> str:
        if not self._is_word():
            raise self._error("identifier")
        self._next += 1
        return self._tokens[self._next - 1]

    def _take_if(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._next += 1
        return True

    def _error(self, wanted: str) -> LabelSelectorError:
        return LabelSelectorError(f"found '{self._peek()}', expected: {wanted}")


def _selector(requirements: Iterable[Requirement]) -> Selector:
    found = tuple(sorted(requirements, key=lambda requirement: requirement.key))
    return Selector(found) if found else EVERYTHING


def _requirement(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
    """Check one requirement as ``labels.NewRequirement`` does."""
    _check_key(key, place="key")
    if operator in _SETS and not values:
        raise LabelSelectorError("for 'in', 'notin' operators, values set can't be empty")
    if operator in _EXISTENCE and values:
        raise LabelSelectorError("values set must be empty for exists and does not exist")
    if operator in _ORDERING and _integer(values[0]) is None:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise LabelSelectorError(f'values[0]: Invalid value: "{values[0]}": {text}')
    for index, value in enumerate(values):
        if len(value) > 63 or _VALUE.fullmatch(value) is None:
            raise _LabelError(f"values[{index}][{key}]: not a label value: {value!r}")
    return Requirement(key, operator, tuple(sorted(values)))


def _check_key(key: str, *, place: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good = _KEY_NAME.fullmatch(name) is not None and (
        not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
    )
    if not good:
        raise _LabelError(f"{place}: not a label key: {key!r}")


def _ordered(value: str, operator: Operator, bound: str) -> bool:
    left, right = _integer(value), _integer(bound)
    if left is None or right is None:
        return False
    return left > right if operator is Operator.GREATER_THAN else left < right


def _integer(text: str) -> int | None:
    """Return a number that fits an int64, or None."""
    if len(text) > 63 or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -MAX_INT64 - 1 <= number <= MAX_INT64 else None
