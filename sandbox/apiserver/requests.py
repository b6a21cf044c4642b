"""Paths and parameters of requests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from sandbox.admission.request import UserInfo
from sandbox.errors import bad_request, field_not_supported, invalid

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_PROXY = "proxy"
_INTEGER = re.compile("[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request of an authenticated user. Header names are lower case.

    The last value of a repeated query parameter counts.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    user: UserInfo
    body: bytes = b""

    @property
    def user_agent(self) -> str:
        return self.headers.get("user-agent", "")

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    def flag(self, name: str) -> bool:
        """Return a Boolean parameter: false only if it is missing, ``0`` or ``false``.

        Source: ``Convert_Slice_string_To_bool``, k8s.io/apimachinery pkg/runtime/conversion.go.
        """
        text = self.query.get(name)
        return text is not None and text != "0" and text.lower() != "false"

    def number(self, name: str) -> int | None:
        """Return an integer parameter, None if it is missing.

        Raises:
            ApiError: 400, it isn't a number.
        """
        text = self.query.get(name)
        if text is None:
            return None
        if _INTEGER.fullmatch(text) is None:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if int(text) not in _INT64:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text)

    @property
    def is_dry_run(self) -> bool:
        """True if nothing may be stored.

        Raises:
            ApiError: 422, ``dryRun`` has another value than ``All``.
        """
        return dry_run(self.query.get("dryRun", ""), _OPTIONS.get(self.method, "CreateOptions"))


_OPTIONS = {"DELETE": "DeleteOptions", "PATCH": "PatchOptions", "PUT": "UpdateOptions"}


def dry_run(text: str, options: str) -> bool:
    """Parse a ``dryRun`` parameter of these ``options``, whose only value is ``All``.

    Raises:
        ApiError: 422, it has another value.
    """
    if text not in ("", "All"):
        cause = field_not_supported("dryRun", [text], ("All",))
        raise invalid(options, "", [cause], group="meta.k8s.io")
    return text == "All"


def parse_query(raw: bytes) -> dict[str, str]:
    """Return the query string as a mapping."""
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)) if raw else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The target of a path: a collection, an object or a subresource of a group version."""

    group: str
    version: str
    plural: str = ""  # empty: the group version itself
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    subpath: str = ""  # of the subresource proxy

    def verb(self, method: str, *, watch: bool) -> str:
        """Return the request's verb, as in RBAC and audit logs."""
        if method in ("GET", "HEAD"):
            if self.name:
                return "get"
            return "watch" if watch else "list"
        if method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return _VERBS.get(method, method.lower())


def parse_place(path: str) -> Place | None:
    """Parse a resource path. Return None for another path.

    ``/api/v1/…`` and ``/apis/<group>/<version>/…`` lead to ``namespaces/<ns>/<plural>``,
    ``<plural>`` and below, as k8s.io/apiserver pkg/endpoints/request/requestinfo.go has it.
    """
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, *below = [*rest, "", ""][: max(2, len(rest))]
    proxied = below[:1] == [_PROXY]
    return Place(
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=_PROXY if proxied else "/".join(below),
        subpath="/".join(below[1:]) if proxied else "",
    )
