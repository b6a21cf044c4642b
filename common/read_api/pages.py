"""Pages of rows that are sorted by namespace and name, and of histories.

A page is made in slices of a few rows, between which other tasks run.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeAlias

import msgspec

from common.read_api.access import Visibility
from common.read_api.history import Entry, History
from common.read_api.query import ListQuery, decode_token, encode_token

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a VPA."""

_SLICE = 100  # rows before other tasks run; one takes 0.02 to 0.2 ms
_MOST_BYTES = 4 * 1024 * 1024  # of a page; a row is a few hundred
_MOST_NAMESPACES = 64  # that are reviewed for one page
_LAST = "\U0010ffff"  # sorts behind each name


class Rows(Protocol):
    """The rows of one VPA: itself, or its pods."""

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the rows, sorted; a VPA that is one row has the name ""."""
        ...

    def body(self, index: int) -> bytes:
        """Return a row as JSON."""
        ...

    def item(self, bodies: Sequence[bytes]) -> bytes:
        """Return the item of the list that contains these rows."""
        ...


class Table(Protocol):
    """The rows that a pass left; ``number`` changes when they do."""

    @property
    def number(self) -> int: ...

    @property
    def keys(self) -> Sequence[Key]:
        """Return the VPAs, sorted."""
        ...

    @property
    def ends(self) -> Sequence[int]:
        """Return the number of rows up to each VPA; a VPA without rows counts as one."""
        ...

    def rows(self, key: Key) -> Rows: ...


@dataclass(slots=True)
class Page:
    """Encoded items, and the way to the next page."""

    items: list[bytes] = field(default_factory=list)
    token: str | None = None
    remaining: int | None = None
    rows: int = 0
    size: int = 0  # bytes

    def is_full(self, limit: int) -> bool:
        """Return whether the page takes no more rows."""
        return self.rows >= limit or self.size >= _MOST_BYTES

    async def count(self, body: bytes) -> None:
        """Count a row, and let other tasks run after each slice."""
        self.rows += 1
        self.size += len(body)
        if self.rows % _SLICE == 0:
            await asyncio.sleep(0)


async def read_page(table: Table, query: ListQuery, visibility: Visibility) -> Page:
    """Return a page of a table.

    Raises:
        BadQueryError: the continue token is no token of a table.
        AccessError: the namespaces could not be reviewed.
    """
    # The last row that was sent: namespace, name, and row; None: all of its rows.
    place = decode_token(query.after, tuple[str, str, str | None]) if query.after else None
    keys, page = table.keys, Page()
    first, end = _range(keys, query.namespace)
    at = first if place is None else max(first, bisect_left(keys, place[:2]))
    seen, stop = await _visible(keys, at, end, visibility)
    for index in range(at, stop):
        namespace, name = key = keys[index]
        if (query.name and name != query.name) or (seen is not None and namespace not in seen):
            continue
        start = place[2] if place is not None and key == place[:2] else ""
        if start is None:
            continue
        if page.is_full(query.limit):
            page.remaining = _remaining(table, query, visibility, index, end)
            return page
        rows = table.rows(key)
        left = await _take(page, rows, start, query.limit)
        page.token = encode_token((namespace, name, rows.names[-1 - left] if left else None))
        if left:
            more = _remaining(table, query, visibility, index + 1, end)
            page.remaining = None if more is None else left + more
            return page
    page.token = encode_token((keys[stop - 1][0], _LAST, None)) if stop < end else None
    return page


async def _take(page: Page, rows: Rows, start: str, limit: int) -> int:
    """Add the rows of a VPA behind ``start`` to a page; return the number of those left."""
    names = rows.names
    index = bisect_right(names, start) if start else 0
    bodies: list[bytes] = []
    while index < len(names) and not page.is_full(limit):
        bodies.append(rows.body(index))
        index += 1
        await page.count(bodies[-1])
    if bodies or not start:
        page.items.append(rows.item(bodies))
    if not names:
        await page.count(page.items[-1])
    return len(names) - index


def _range(keys: Sequence[Key], namespace: str) -> tuple[int, int]:
    if not namespace:
        return 0, len(keys)
    return bisect_left(keys, (namespace, "")), bisect_right(keys, (namespace, _LAST))


def _remaining(
    table: Table, query: ListQuery, visibility: Visibility, index: int, end: int
) -> int | None:
    """Return the number of rows from the VPA at ``index`` on."""
    if query.name or not visibility.sees_everything:
        return None
    ends = table.ends
    return ends[end - 1] - (ends[index - 1] if index else 0)


async def _visible(
    keys: Sequence[Key], at: int, end: int, visibility: Visibility
) -> tuple[frozenset[str] | None, int]:
    """Return the visible namespaces from ``at`` on, and the index up to which they are known.

    None stands for all.
    """
    if visibility.sees_everything:
        return None, end
    found = list(islice(_namespaces(keys, at, end), _MOST_NAMESPACES))
    stop = bisect_right(keys, (found[-1], _LAST)) if found else end
    return await visibility.visible(found), min(stop, end)


def _namespaces(keys: Sequence[Key], at: int, end: int) -> Iterator[str]:
    while at < end:
        yield keys[at][0]
        at = bisect_right(keys, (keys[at][0], _LAST))


async def read_history(history: History[Entry], query: ListQuery, visibility: Visibility) -> Page:
    """Return a page of a history, newest first.

    Raises:
        BadQueryError: the continue token is no token of a history.
        AccessError: the namespaces could not be reviewed.
    """
    before = decode_token(query.after, int) if query.after else None
    chosen = [
        entry
        for entry in history.newest_first()
        if (before is None or entry.number < before)
        and query.namespace in ("", entry.namespace)
        and query.name in ("", entry.vpa)
    ]
    page = Page()
    if not visibility.sees_everything:
        chosen, page.token = await _visible_entries(chosen, visibility)
    for index, entry in enumerate(chosen):
        if page.is_full(query.limit):
            page.token = encode_token(chosen[index - 1].number)
            page.remaining = len(chosen) - index if visibility.sees_everything else None
            return page
        page.items.append(msgspec.json.encode(entry))
        await page.count(page.items[-1])
    return page


async def _visible_entries(
    entries: Sequence[Entry], visibility: Visibility
) -> tuple[list[Entry], str | None]:
    """Return the visible entries, and the token if there are too many namespaces for one page."""
    namespaces = dict.fromkeys(entry.namespace for entry in entries)
    known = list(islice(namespaces, _MOST_NAMESPACES))
    seen, token = await visibility.visible(known), None
    reviewed: Iterable[Entry] = entries
    if len(known) < len(namespaces):
        first = next(at for at, each in enumerate(entries) if each.namespace not in known)
        reviewed, token = entries[:first], encode_token(entries[first].number + 1)
    return [entry for entry in reviewed if entry.namespace in seen], token
