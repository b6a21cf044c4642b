"""Parts that all answers of the read API share."""

import msgspec

from common.api.base import Time, Wire


class PassInfo(Wire, frozen=True, kw_only=True):
    """The last complete pass (updater) or cycle (recommender) of a process.

    ``number`` counts from the start of the process. ``at`` is the time at which it began.
    """

    number: int
    at: Time
    seconds: float


class ReadMetadata(Wire, frozen=True, kw_only=True):
    """The origin of an answer.

    ``leading`` is null without leader election. ``leader`` is the holder of the Lease, or null if
    it is unknown. A replica that doesn't lead answers with what it knows, often nothing.
    ``last_pass`` is null before the first pass, and in components without passes.
    """

    last_pass: PassInfo | None
    leading: bool | None
    leader: str | None


class ListMetadata(ReadMetadata, frozen=True, kw_only=True):
    """The origin of a page, and the way to the next one.

    ``continue`` is null on the last page. ``remaining_item_count`` is null if the number isn't
    known without work, as in Kubernetes: with a filter on names, and for restricted persons.
    """

    continue_: str | None = msgspec.field(name="continue")
    remaining_item_count: int | None


class HistoryEntry(Wire, frozen=True, kw_only=True):
    """The part that entries of histories share; ``number`` counts from the start of the process."""

    number: int
    at: Time
    namespace: str
    vpa: str


class PathInfo(Wire, frozen=True, kw_only=True):
    """One path that a process serves."""

    path: str
    about: str


class Overview(ReadMetadata, frozen=True, kw_only=True):
    """The answer of ``/api/v1``; ``identity`` is the process as it names itself in its Lease."""

    component: str
    version: str
    identity: str
    paths: tuple[PathInfo, ...]


class Refusal(Wire, frozen=True, kw_only=True):
    """The reason that there is no answer."""

    error: str
