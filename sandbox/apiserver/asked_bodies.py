"""Bodies that ask for something and aren't stored: evictions, bindings, scales, tokens, reviews.

They are decoded as strictly as objects are, by ``fieldValidation``. Their fields are the same in
all versions of Kubernetes that this server can be.
"""

from collections.abc import Mapping
from typing import Any

from sandbox.apiserver.decoding import check_type_meta, read_body
from sandbox.apiserver.requests import Request
from sandbox.apiserver.strictness import (
    check_choice,
    problems_of,
    quoted,
    refuse_or_warn,
    repeated,
    unreadable_patch,
)
from sandbox.errors import cannot_be_handled
from sandbox.objects import fields
from sandbox.objects.go_decoding import type_problem
from sandbox.objects.resources import Resource
from sandbox.patching import apply_patch, copied
from sandbox.version import NEWEST_MINOR

Json = dict[str, Any]

BINDING = Resource(plural="bindings", kind="Binding")
EVICTION = Resource(group="policy", plural="evictions", kind="Eviction")
_OLD_VERSIONS = {"Eviction": ("policy/v1beta1",)}  # that are understood, too
_OPTIONS = {"PATCH": "PatchOptions", "PUT": "UpdateOptions"}


def read_asked(request: Request, resource: Resource) -> tuple[Json, list[str]]:
    """Decode a body; returns it with the warnings of what was dropped.

    Raises:
        ApiError: 400 and 415, it can't be read, or has unknown or repeated fields and they are
            refused; 422, ``fieldValidation`` is none.
    """
    choice = check_options(request)
    obj = read_body(request, resource)
    if obj.get("apiVersion") not in _OLD_VERSIONS.get(resource.kind, ()):
        check_type_meta(obj, resource)
    problem = type_problem(obj, resource.api_version, resource.kind)
    if problem:
        raise cannot_be_handled(resource, problem)
    twice = repeated(request.body, request.content_type) if choice != "Ignore" else []
    unknown = fields.drop_unknown(resource, obj, None, minor=NEWEST_MINOR)
    in_order = request.content_type == "application/yaml"
    problems = problems_of(unknown, twice, in_order=in_order)
    return obj, list(refuse_or_warn(resource, choice, problems, None))


def patched(
    request: Request, resource: Resource, current: Mapping[str, Any]
) -> tuple[Json, list[str]]:
    """What a patch makes of ``current``, with the warnings of what was dropped.

    Raises:
        ApiError: 400, 415 or 422, the patch can't be applied, or what it makes can't be read.
    """
    choice = check_options(request)
    content_type = request.headers.get("content-type", "")
    obj = apply_patch(content_type, copied(dict(current)), request.body, resource=resource)
    shown = quoted(request.body, request.content_type, copied(obj))
    problem = type_problem(obj, resource.api_version, resource.kind)
    if problem:
        raise unreadable_patch(shown, problem)
    twice = repeated(request.body, request.content_type) if choice != "Ignore" else []
    unknown = fields.drop_unknown(resource, obj, None, minor=NEWEST_MINOR)
    problems = problems_of(unknown, twice, in_order=True)
    return obj, list(refuse_or_warn(resource, choice, problems, lambda: shown))


def check_options(request: Request) -> str:
    """The request's ``fieldValidation``.

    Raises:
        ApiError: 422, it is none.
    """
    choice = request.query.get("fieldValidation", "")
    check_choice(choice, _OPTIONS.get(request.method, "CreateOptions"))
    return choice
