"""Label and field selectors of a list or a watch."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from common.labels import EVERYTHING, LabelSelectorError, Selector, parse_selector
from sandbox.errors import bad_request
from sandbox.objects.resources import Resource
from sandbox.objects.store import Stored

_TERM = re.compile(r"([^=!]+)(==|!=|=)(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPLIT = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """``path=value`` or ``path!=value``."""

    read: Callable[[Stored], str]
    value: str
    equal: bool

    def matches(self, stored: Stored) -> bool:
        return (self.read(stored) == self.value) is self.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The conditions for an object of a list or a watch."""

    namespace: str = ""  # empty: all of them
    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()

    @property
    def is_everything(self) -> bool:
        """True if only the namespace selects."""
        return self.labels == EVERYTHING and not self.fields

    def matches(self, stored: Stored) -> bool:
        """Return True if namespace, labels and fields match."""
        if self.namespace and stored.namespace != self.namespace:
            return False
        return all(term.matches(stored) for term in self.fields) and self.labels.matches(
            stored.labels
        )


def select(
    resource: Resource, *, namespace: str = "", labels: str = "", fields: str = ""
) -> Selection:
    """Parse the selectors of a request.

    Raises:
        ApiError: 400, a selector is invalid or names a field that isn't selectable.
    """
    try:
        by_label = parse_selector(labels) if labels else EVERYTHING
    except LabelSelectorError as error:
        raise bad_request(str(error)) from error
    by_field = tuple(_term(resource, text) for text in _SPLIT.split(fields) if text)
    return Selection(
        namespace=namespace if resource.namespaced else "", labels=by_label, fields=by_field
    )


def _term(resource: Resource, text: str) -> FieldTerm:
    match = _TERM.fullmatch(text)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path, operator, value = match.groups()
    return FieldTerm(_reader(resource, path.strip()), _ESCAPED.sub(r"\1", value), operator != "!=")


def _reader(resource: Resource, path: str) -> Callable[[Stored], str]:
    if path == "metadata.name":
        return lambda stored: stored.name
    if path == "metadata.namespace":
        return lambda stored: stored.namespace
    if path not in resource.fields:
        raise bad_request(f"field label not supported: {path}")
    position = resource.fields.index(path)
    return lambda stored: stored.fields[position]
