"""Get and list: pages, versions, continue tokens."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox import errors
from sandbox.apiserver.requests import Request
from sandbox.objects.resources import Resource
from sandbox.objects.selectors import Selection, select
from sandbox.objects.store import Store, Stored


class _Token(msgspec.Struct):
    """A continue token."""

    rv: int
    start: str  # the last name that was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some objects, and the list's metadata."""

    items: Sequence[Stored]
    meta: Mapping[str, Any]


class Reads:
    """The read path of one API server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, request: Request, resource: Resource, namespace: str) -> Page:
        """Return one page.

        Raises:
            ApiError: 400 for invalid parameters, 410 for an expired version.
        """
        selection = selection_of(request, resource, namespace)
        limit = max(request.number("limit") or 0, 0)
        request.number("timeoutSeconds")
        version = read_version(request)
        token = request.query.get("continue", "")
        if token:
            at, after = read_token(token)
            if version:
                raise errors.bad_request(
                    "specifying resource version is not allowed when using continue"
                )
            return self._page(resource, selection, limit, at=at, after=after)
        if request.query.get("resourceVersion") == "0":
            limit = 0  # the watch cache has no pages
        return self._page(resource, selection, limit, at=self._store.version, after="")

    def _page(
        self, resource: Resource, selection: Selection, limit: int, *, at: int, after: str
    ) -> Page:
        namespace = selection.namespace
        now = self._store.version
        if at == now:
            items: Sequence[Stored] = self._store.list(resource, namespace)
        else:
            items = self._store.list_at(resource, namespace, at)
        if after:
            items = items[bisect_right(items, after, key=lambda item: _start(item, namespace)) :]
        if not selection.is_everything:
            items = [item for item in items if selection.matches(item)]
        meta: dict[str, Any] = {"resourceVersion": str(at)}
        if limit and len(items) > limit:
            left = len(items) - limit
            items = items[:limit]
            meta["continue"] = write_token(at, _start(items[-1], namespace))
            if selection.is_everything:
                meta["remainingItemCount"] = left
        return Page(items=items, meta=meta)


def selection_of(request: Request, resource: Resource, namespace: str) -> Selection:
    """Return the parsed selectors of a request."""
    return select(
        resource,
        namespace=namespace,
        labels=request.query.get("labelSelector", ""),
        fields=request.query.get("fieldSelector", ""),
    )


def read_version(request: Request) -> int:
    """Return the resource version of a list or a watch; 0 without one.

    Raises:
        ApiError: 400, it isn't a number.
    """
    text = request.query.get("resourceVersion", "") or "0"
    if not (text.isascii() and text.isdecimal()):
        raise errors.bad_request(f"invalid resource version: {errors.shown(text)}")
    return int(text)


def write_token(version: int, start: str) -> str:
    """Return a continue token: the version of the list, and the last name that was sent."""
    return urlsafe_b64encode(msgspec.json.encode(_Token(rv=version, start=start))).decode()


def read_token(text: str) -> tuple[int, str]:
    """Return the version and the start of a continue token.

    Raises:
        ApiError: 400, the token is invalid.
    """
    try:
        token = msgspec.json.decode(urlsafe_b64decode(text), type=_Token)
    except ValueError as error:  # also of msgspec and of base64
        raise errors.bad_request(f"invalid continue token: {error}") from error
    return token.rv, token.start


def _start(item: Stored, namespace: str) -> str:
    """Return the position of an item in the order of its list."""
    return item.name if namespace or not item.namespace else f"{item.namespace}/{item.name}"
