"""The API server's audit log, as entries of the sandbox's audit log."""

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from common.api.base import Wire
from sandbox.apiserver.audit import AuditLog, Entry

_DECISION = "authorization.k8s.io/decision"  # RBAC's: allow or forbid


class _User(Wire, frozen=True, kw_only=True):
    username: str = ""


class _Object(Wire, frozen=True, kw_only=True):
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Response(Wire, frozen=True, kw_only=True):
    code: int = 0


class _Event(Wire, frozen=True, kw_only=True):
    """A line of the log; audit.k8s.io/v1, Event."""

    stage: str
    verb: str
    stage_timestamp: datetime
    user: _User = _User()
    user_agent: str = ""
    object_ref: _Object | None = None
    response_status: _Response | None = None
    annotations: Mapping[str, str] = {}

    @property
    def counts(self) -> bool:
        """True if it is the response. A watch has its response when it starts."""
        return self.stage == ("ResponseStarted" if self.verb == "watch" else "ResponseComplete")


_decode = msgspec.json.Decoder(_Event).decode


class AuditFile:
    """Reads a growing log. Every line is read once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._log = AuditLog(entries=sys.maxsize)

    def find(self, wanted: Mapping[str, str]) -> tuple[Entry, ...]:
        """Return all matching calls so far, oldest first; keys as of ``AuditLog.find``."""
        self._read()
        return tuple(self._log.find(wanted))

    def _read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # not complete yet
                self._offset += len(line)
                entry = parse_entry(line)
                if entry is not None:
                    self._log.record(entry)


def parse_entry(line: bytes) -> Entry | None:
    """Parse one line of the log; None for anything but an answered call of a resource.

    The log has no start of the response of a refused watch, only its end.
    """
    event = _decode(line)
    of, response = event.object_ref, event.response_status
    refused_watch = event.verb == "watch" and response is not None and response.code >= 400
    counts = event.stage == "ResponseComplete" if refused_watch else event.counts
    if not counts or of is None or response is None:
        return None
    return Entry(
        time=event.stage_timestamp,
        verb=event.verb,
        group=of.api_group,
        resource=of.resource,
        subresource=of.subresource,
        namespace=of.namespace,
        name=of.name,
        user=event.user.username,
        user_agent=event.user_agent,
        code=response.code,
        denied=event.annotations.get(_DECISION) == "forbid",
    )
