"""Get and list: pages, versions, continue tokens."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from common.errors import Cause
from sandbox import errors
from sandbox.apiserver.requests import Request
from sandbox.objects.resources import Resource
from sandbox.objects.selectors import Selection, select
from sandbox.objects.store import Store, Stored

_CONTINUE_FORMAT = "meta.k8s.io/v1"
_FUTURE_WAIT = 3.0  # seconds that a list waits for a version that isn't there yet
_EXPIRED_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct):
    """A continue token, as it was written."""

    v: str = ""
    rv: int = 0
    start: str = ""

    @property
    def problem(self) -> str:
        """Why nobody can go on from here; empty when one can."""
        if self.v != _CONTINUE_FORMAT:
            return f"server does not recognize this encoded version {self.v}"
        if not self.rv:
            return f"incorrect encoded start resourceVersion (version {self.v})"
        return "" if self.start else f"encoded start key empty (version {self.v})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some objects, and the list's metadata."""

    items: Sequence[Stored]
    meta: Mapping[str, Any]


class Reads:
    """The read path of one API server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, request: Request, resource: Resource, namespace: str, name: str) -> Stored:
        """One object.

        Raises:
            ApiError: 404; 500 for a version that can't be read, 504 for one that isn't there yet.
        """
        await self._reach(read_version(request))
        stored = self._store.get(resource, namespace, name)
        if stored is None:
            raise errors.not_found(resource, name)
        return stored

    def selected(self, request: Request, resource: Resource, namespace: str) -> list[Stored]:
        """Everything that the request's selectors choose."""
        selection = selection_of(request, resource, namespace)
        return [item for item in self._store.list(resource, namespace) if selection.matches(item)]

    async def list(self, request: Request, resource: Resource, namespace: str) -> Page:
        """One page.

        Raises:
            ApiError: 400 for parameters that can't be read, 410 for a version that is gone,
                504 for one that isn't there yet.
        """
        selection = selection_of(request, resource, namespace)
        limit = max(request.number("limit") or 0, 0)
        request.number("timeoutSeconds")
        version_text = request.query.get("resourceVersion", "")
        token = request.query.get("continue", "")
        if token:
            at, after = read_token(token)
            if version_text not in ("", "0"):
                raise errors.bad_request(
                    "specifying resource version is not allowed when using continue"
                )
            return self._page(resource, selection, limit, at=at, after=after)
        version = _listed_version(version_text)
        await self._reach(version)
        if version_text == "0":
            limit = 0  # from the watch cache, which knows no pages
        return self._page(resource, selection, limit, at=self._store.version, after="")

    async def _reach(self, version: int) -> None:
        """Wait for a version a little.

        Raises:
            ApiError: 504, it didn't come.
        """
        if version > self._store.version:
            await asyncio.sleep(_FUTURE_WAIT)
            if version > self._store.version:
                raise _too_large(version, self._store.version)

    def _page(
        self, resource: Resource, selection: Selection, limit: int, *, at: int, after: str
    ) -> Page:
        namespace = selection.namespace
        now = self._store.version
        if at < 0:  # an inconsistent continuation, after 410
            at = now
        if at == now:
            items: Sequence[Stored] = self._store.list(resource, namespace)
        else:
            try:
                items = self._store.list_at(resource, namespace, at)
            except errors.ApiError as error:
                if not after:
                    raise
                token = write_token(-1, after)
                raise errors.expired(_EXPIRED_PAGE, continue_token=token) from error
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
    """The selectors of a request, parsed."""
    return select(
        resource,
        namespace=namespace,
        labels=request.query.get("labelSelector", ""),
        fields=request.query.get("fieldSelector", ""),
    )


def read_version(request: Request) -> int:
    """The version that a get or a watch asks for; 0 when it doesn't matter.

    Raises:
        ApiError: 500, it is no number.
    """
    text = request.query.get("resourceVersion", "")
    if _is_version(text):
        return int(text or 0)
    raise errors.ApiError(500, "", _no_version(text))


def _listed_version(text: str) -> int:
    """The version that a list asks for; 0 when it doesn't matter.

    Raises:
        ApiError: 400, it is no number.
    """
    if _is_version(text):
        return int(text or 0)
    raise errors.bad_request(f"invalid resource version: {_no_version(text)}")


def _is_version(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal())


def _no_version(text: str) -> str:
    return (
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        "invalid syntax"
    )


def write_token(version: int, start: str) -> str:
    """A continue token: the version of the list, and the last name that was sent.

    The token of an inconsistent continuation has the version -1 and lacks the first slash.
    """
    place = f"/{start}\0" if version >= 0 else f"{start}\0"
    token = msgspec.json.encode({"v": _CONTINUE_FORMAT, "rv": version, "start": place})
    return urlsafe_b64encode(token).rstrip(b"=").decode()


def read_token(text: str) -> tuple[int, str]:
    """Return the version and the start of a continue token.

    Raises:
        ApiError: 400, this server never gave out such a token.
    """
    try:
        token = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
        problem = token.problem
    except ValueError as error:  # also of msgspec and of base64
        token, problem = _Token(), str(error)
    if problem:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {problem}")
    return token.rv, token.start.strip("/\0")


def _start(item: Stored, namespace: str) -> str:
    """Where an item stands in the order of its list."""
    return item.name if namespace or not item.namespace else f"{item.namespace}/{item.name}"


def _too_large(version: int, current: int) -> errors.ApiError:
    return errors.ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        causes=[Cause(reason="ResourceVersionTooLarge", message="Too large resource version")],
        details={},
        retry_after=1,
    )
