"""A bounded log of the API server's calls, for tests and summaries."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sandbox.times import micro_time

ENTRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One answered call of a resource."""

    time: datetime
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    code: int
    denied: bool = False  # by RBAC, which only a real API server has

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["time"] = micro_time(self.time)
        fields["userAgent"] = fields.pop("user_agent")
        return fields


class AuditLog:
    """The latest entries, and counts of all entries since the start."""

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries: deque[Entry] = deque(maxlen=entries)
        self._counts: Counter[tuple[str, str, str, str, int]] = Counter()

    def record(self, entry: Entry) -> None:
        """Record an answered call. A watch is recorded when it starts."""
        self._entries.append(entry)
        agent = entry.user_agent.partition("/")[0]
        key = (entry.verb, entry.resource, entry.subresource, agent, entry.code)
        self._counts[key] += 1

    def find(self, wanted: Mapping[str, str]) -> Iterable[Entry]:
        """Return the kept entries, oldest first, whose fields have the wanted values.

        Keys are ``verb``, ``group``, ``resource``, ``subresource``, ``namespace``, ``name``,
        ``user`` and ``code``. ``userAgent`` selects by prefix. An unknown key raises KeyError.
        """
        readers = [(_READERS[key], value) for key, value in wanted.items()]
        return [
            entry for entry in self._entries if all(read(entry, value) for read, value in readers)
        ]

    def counts(self) -> list[dict[str, Any]]:
        """Return the number of calls of each kind, including those of dropped entries."""
        names = ("verb", "resource", "subresource", "userAgent", "code")
        return [
            {**dict(zip(names, key, strict=True)), "count": count}
            for key, count in sorted(self._counts.items())
        ]


_READERS: Mapping[str, Any] = {
    "userAgent": lambda entry, value: entry.user_agent.startswith(value),
    "code": lambda entry, value: str(entry.code) == value,
    **{
        name: lambda entry, value, name=name: getattr(entry, name) == value
        for name in ("verb", "group", "resource", "subresource", "namespace", "name", "user")
    },
}
