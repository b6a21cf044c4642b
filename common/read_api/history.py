"""The last events of a process, in memory of a bounded size."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from msgspec import structs

from common.read_model.page import HistoryEntry

MOST_ENTRIES = 1000

Entry = TypeVar("Entry", bound=HistoryEntry)


class History(Generic[Entry]):
    """A history of entries with rising numbers; the oldest ones are dropped.

    ``version`` changes with each change of an entry.
    """

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._entries: dict[int, Entry] = {}  # by number, oldest first
        self._last = 0
        self.version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def next_number(self) -> int:
        """Return the number of the next entry."""
        self._last += 1
        return self._last

    def add(self, entry: Entry) -> None:
        """Add an entry with the ``next_number``, in place of the oldest one if there are many."""
        if len(self._entries) >= self._most:
            del self._entries[next(iter(self._entries))]
        self._entries[entry.number] = entry
        self.version += 1

    def update(self, number: int, **changes: Any) -> None:
        """Change attributes of an entry, unless it has been dropped."""
        entry = self._entries.get(number)
        if entry is not None:
            self._entries[number] = structs.replace(entry, **changes)
            self.version += 1

    def __contains__(self, number: int) -> bool:
        return number in self._entries

    def newest_first(self) -> Iterator[Entry]:
        """Yield the entries."""
        return iter(tuple(reversed(self._entries.values())))
