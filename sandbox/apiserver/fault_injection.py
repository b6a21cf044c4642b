"""Applies scripted faults to a call, before its handler or on its response."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from sandbox import errors
from sandbox.apiserver.answers import Answer, raw_headers, refusal, text_answer
from sandbox.apiserver.faults import Effect, Refusal
from sandbox.apiserver.requests import Place
from sandbox.errors import ApiError
from sandbox.listener import DROP

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handle = Callable[[Receive, Send], Awaitable[None]]

_OVERLOADED = "Too many requests, please try again later.\n"
_FLOW_CONTROL = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Kubernetes-Pf-Flowschema-Uid", "00000000-0000-4000-8000-000000000001"),
    ("X-Kubernetes-Pf-Prioritylevel-Uid", "00000000-0000-4000-8000-000000000002"),
)
_BOOKMARK = b'{"type":"BOOKMARK"'


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInjection:
    """The fault of one call."""

    effect: Effect
    place: Place
    verb: str
    drop: Callable[[], None]  # breaks the connection

    async def run(self, handle: Handle, receive: Receive, send: Send) -> int | None:
        """Answer the call with the fault, or let ``handle`` answer it.

        Return the code of a refusal that ``handle`` didn't see, else None.
        """
        effect = self.effect
        if effect.delay:
            await asyncio.sleep(effect.delay)
        if not effect.drop and effect.refuse is None:
            await self._pass_on(handle, receive, send)
            return None
        done = bool(effect.done) and self.verb != "watch"
        if done:
            await handle(receive, _discard)
        if effect.drop:
            self.drop()
            while (await receive())["type"] != "http.disconnect":
                pass
            return None
        answer = refused(effect, self.place)
        headers = raw_headers(answer)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})
        return None if done else answer.status

    async def _pass_on(self, handle: Handle, receive: Receive, send: Send) -> None:
        if self.verb != "watch":
            await handle(receive, send)
            return
        loop, effect = asyncio.get_running_loop(), self.effect
        if effect.watch_end is not None:
            receive = _ending(receive, loop.time() + effect.watch_end)
        over = asyncio.Event()
        cut = None if effect.watch_cut is None else loop.call_later(effect.watch_cut, self.drop)
        try:
            await handle(_observed(receive, over), _stream(effect, send, over))
        finally:
            if cut is not None:
                cut.cancel()


def dropper(scope: Message) -> Callable[[], None]:
    """Return the function of ``sandbox.listener`` that breaks the connection of a call."""
    found: Callable[[], None] = scope.get("extensions", {}).get(DROP, lambda: None)
    return found


def refused(effect: Effect, place: Place) -> Answer:
    """Return the response of a refusal.

    An overloaded server answers in plain text (API Priority and Fairness), regardless of the
    accepted types. All other refusals are ``Status`` objects.
    """
    if effect.refuse is Refusal.OVERLOADED:
        text = text_answer(_OVERLOADED, status=HTTPStatus.TOO_MANY_REQUESTS)
        seconds = 1 if effect.retry_after is None else effect.retry_after
        return Answer(
            status=text.status,
            body=text.body,
            content_type=text.content_type,
            headers=(("Retry-After", str(seconds)), *_FLOW_CONTROL),
        )
    return refusal(_error(effect, place))


def _error(effect: Effect, place: Place) -> ApiError:
    whose = f"{place.plural}.{place.group}" if place.group else place.plural
    details = {"name": place.name} if place.name else {}
    if place.group:
        details["group"] = place.group
    details["kind"] = place.plural
    message, seconds = effect.message or "", effect.retry_after
    match effect.refuse:
        case Refusal.UNAUTHORIZED:
            return ApiError(401, "Unauthorized", "Unauthorized", retry_after=seconds)
        case Refusal.FORBIDDEN:
            text = f'{whose} "{place.name}" is forbidden: {message or "refused on purpose"}'
            return ApiError(403, "Forbidden", text, details=details, retry_after=seconds)
        case Refusal.CONFLICT:
            message = message or (
                "the object has been modified; "
                "please apply your changes to the latest version and try again"
            )
            text = f'Operation cannot be fulfilled on {whose} "{place.name}": {message}'
            return ApiError(409, "Conflict", text, details=details, retry_after=seconds)
        case Refusal.INVALID:
            text = f'{whose} "{place.name}" is invalid: {message or "refused on purpose"}'
            return ApiError(422, "Invalid", text, details=details, retry_after=seconds)
        case Refusal.UNAVAILABLE:
            text = message or "the server is currently unable to handle the request"
            return ApiError(503, "ServiceUnavailable", text, retry_after=seconds)
        case Refusal.TIMEOUT:
            message = message or "request did not complete within requested timeout"
            text = f"Timeout: {message} - context deadline exceeded"
            return ApiError(504, "Timeout", text, details={}, retry_after=seconds)
    error = errors.internal(message or "failed on purpose")
    error.retry_after = seconds
    return error


async def _discard(_message: Message) -> None:
    """Discard a message."""


def _ending(receive: Receive, when: float) -> Receive:
    """Return a ``receive`` that reports a disconnect from ``when`` on, in the loop's time."""

    async def until_then() -> Message:
        try:
            async with asyncio.timeout_at(when):
                return await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}

    return until_then


def _observed(receive: Receive, over: asyncio.Event) -> Receive:
    """Return a ``receive`` that sets ``over`` at a disconnect, real or injected."""

    async def observed() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            over.set()
        return message

    return observed


async def _pause(seconds: float, over: asyncio.Event) -> None:
    """Wait, but no longer than the client stays connected."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await over.wait()


def _stream(effect: Effect, send: Send, over: asyncio.Event) -> Send:
    """Return a ``send`` that delays, duplicates or drops events of a watch, and keeps their order.

    Delayed events are sent at once when the watch is ``over``.
    """

    async def disturbed(message: Message) -> None:
        lines = list(_lines(effect, message.get("body", b"")))
        if message["type"] != "http.response.body" or not message.get("more_body"):
            await send(message)
            return
        if effect.watch_delay and lines:
            await _pause(effect.watch_delay, over)
        for chunk in lines if effect.watch_pause else [b"".join(lines)] if lines else []:
            await send({**message, "body": chunk})
            if effect.watch_pause:
                await _pause(effect.watch_pause, over)

    return disturbed


def _lines(effect: Effect, body: bytes) -> Iterator[bytes]:
    for line in body.splitlines(keepends=True):
        bookmark = line.startswith(_BOOKMARK)
        if bookmark and effect.watch_bookmarks is False:
            continue
        yield line
        if effect.watch_duplicates and not bookmark:
            yield line
