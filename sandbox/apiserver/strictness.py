"""``fieldValidation``: what becomes of unknown and of repeated fields.

Source: k8s.io/apiserver pkg/endpoints/handlers (create.go, patch.go), sigs.k8s.io/json and
sigs.k8s.io/yaml, whose words these are.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import yaml

from sandbox.errors import ApiError, cannot_be_handled, field_invalid, field_not_supported, invalid
from sandbox.objects.go_text import go_text
from sandbox.objects.resources import Resource
from sandbox.patching import ContentType

Json = dict[str, Any]

_CHOICES = ("", "Ignore", "Strict", "Warn")
_MOST = 100  # problems that are told of one body
_OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})


def check_choice(choice: str, options: str) -> None:
    """Refuse a value of the parameter that doesn't exist; ``options`` is ``PatchOptions``, ….

    Raises:
        ApiError: 422.
    """
    if choice not in _CHOICES:
        cause = field_not_supported("fieldValidation", choice, _CHOICES)
        raise invalid(options, "", [cause], group="meta.k8s.io")


def refuse_or_warn(
    resource: Resource,
    choice: str,
    problems: Sequence[str],
    quote: Callable[[], Json | str] | None,
) -> Sequence[str]:
    """The warnings that ``problems`` lead to; ``quote`` gives what is quoted of a patch.

    Raises:
        ApiError: 400 under ``Strict``, 422 for a patch.
    """
    problems = problems[:_MOST]
    if choice == "Ignore" or not problems:
        return ()
    if choice != "Strict":
        return [
            line.strip()
            for text in problems
            for line in text.removeprefix(_YAML_ERRORS).split("\n")
            if line.strip()
        ]
    text = f"strict decoding error: {', '.join(problems)}"
    if quote is None:
        raise cannot_be_handled(resource, text)
    raise unreadable_patch(quote(), text)


def problems_of(
    unknown: Sequence[str], repeated: Sequence[str], *, in_order: bool, custom: bool = False
) -> list[str]:
    """The sentences about the paths of unknown fields, after those about repeated names.

    ``in_order`` says that a real server has made JSON of the body, as of YAML or a patch, and
    finds them in the order of the alphabet; otherwise it reads once, and a name that is unknown
    isn't repeated. ``custom`` resources are read differently.
    """
    texts = [f'unknown field "{path}"' for path in unknown]
    if not custom:
        if in_order:
            texts.sort()
        else:
            repeated = [
                one for one in repeated if one.replace("duplicate", "unknown", 1) not in texts
            ]
    return [*repeated, *texts]


def unreadable_patch(patched: Json | str, text: str) -> ApiError:
    """422: what a patch makes, or the patch itself as a text, can't be read."""
    shown = patched if isinstance(patched, str) else msgspec.json.encode(patched).decode()
    cause = field_invalid("patch", shown, text)
    message = f' "" is invalid: {cause.field}: {cause.message}'
    return ApiError(422, "Invalid", message, causes=(cause,), details={})


def repeated(body: bytes, content_type: str) -> list[str]:
    """The problems that only the body's text shows: names that a map has twice.

    A patch in JSON also may not have operations with other fields than the four of RFC 6902.
    """
    if content_type == "application/yaml":
        return _repeated_in_yaml(body)
    decoded = msgspec.json.decode(body)
    if content_type == ContentType.JSON:
        return [f"json patch {text}" for text in _in_operations(body, decoded)]
    return list(_repeated(body, decoded))


def quoted(body: bytes, content_type: str, patched: Json) -> Json | str:
    """What a refusal quotes of a patch: itself, or what it makes."""
    if content_type == ContentType.STRATEGIC:
        return go_text(msgspec.json.decode(body))
    return patched


_YAML_ERRORS = "yaml: unmarshal errors:\n"


class _Pairs(list[tuple[str, Any]]):
    """A map as it is written, with names that come twice."""


def _repeated(body: bytes, decoded: Any) -> Iterator[str]:
    # Without repeated names nothing is lost in decoding; clients write JSON without spaces.
    if len(msgspec.json.encode(decoded)) == len(body.rstrip()):
        return
    for path in _twice(json.loads(body, object_pairs_hook=_Pairs), ""):
        yield f'duplicate field "{path}"'


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: dict[str, bool] = {}
        for name, item in value:
            below = f"{path}.{name}" if path else name
            if seen.get(name) is False:
                yield below
            seen[name] = name in seen
            yield from _twice(item, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _twice(item, f"{path}[{index}]")


def _in_operations(body: bytes, decoded: Any) -> Iterator[str]:
    yield from _repeated(body, decoded)
    if not isinstance(decoded, list):
        return
    for index, operation in enumerate(decoded):
        if isinstance(operation, dict):
            for name in sorted(operation.keys() - _OPERATION_FIELDS):
                yield f'unknown field "[{index}].{name}"'


def _repeated_in_yaml(body: bytes) -> list[str]:
    lines = list(_yaml_lines(yaml.compose(body, Loader=yaml.SafeLoader)))
    return [_YAML_ERRORS + "\n".join(lines)] if lines else []


def _yaml_lines(node: yaml.Node | None) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                yield f'  line {line}: key "{key.value}" already set in map'
            seen.add(key.value)
            yield from _yaml_lines(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _yaml_lines(item)
