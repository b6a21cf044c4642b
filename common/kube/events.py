"""Kubernetes Events: correlated like those of client-go, and sent in the background.

Source: client-go tools/record, events_cache.go; recommender.md and updater.md name the events.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from common.api.core import ObjectReference
from common.api.meta import ObjectMeta
from common.errors import DecodeError, KubeError, NotFoundError, UnreachableError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import EVENTS, Endpoint
from common.runtime.clock import Clock, SystemClock
from common.runtime.rate_limit import TokenBucket

logger = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

_DICTS = EVENTS.as_dicts()
_SAME_FOR = timedelta(minutes=10)  # then a repeated event is a new one
_BURST = 25.0  # events of one object at once
_REFILL = 1 / 300  # events of one object per second, on average
_SIMILAR = 10  # messages of one reason about one object, before they are combined
_COMBINED = "(combined from similar events): "
_MOST_CACHED = 4096  # events and objects
_QUEUE = 1000  # events in the queue
_FLUSH_SECONDS = 1.0


def reference(endpoint: Endpoint[Any], meta: ObjectMeta) -> ObjectReference:
    """Return the reference of an Event to its object."""
    return ObjectReference(
        api_version=endpoint.api_version,
        kind=endpoint.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence about an object, before correlation."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Create:
    """The decision to create a new Event."""

    namespace: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Increase:
    """The decision to raise the count of an Event, because it is repeated."""

    namespace: str
    name: str
    patch: dict[str, Any]


Key: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class _Similar:
    """The messages about one object for one reason."""

    messages: set[str]
    last: datetime


@dataclass(slots=True)
class _SentEvent:
    name: str
    last: datetime
    count: int


class Correlator:
    """Correlates occurrences to Events; caches the last few thousand.

    The same text about the same object within ten minutes raises a count. The tenth different
    text for the same reason begins an Event that combines it with all further ones. The rate
    limit of one object is a burst of 25 Events, then one in five minutes.
    """

    def __init__(self, component: str) -> None:
        self._component = component
        self._sent: OrderedDict[Key, _SentEvent] = OrderedDict()
        self._similar: OrderedDict[Key, _Similar] = OrderedDict()
        self._buckets: OrderedDict[Key, TokenBucket] = OrderedDict()
        self._named = 0  # nanoseconds, in the last generated name

    def decide(self, occurrence: Occurrence) -> Create | Increase | None:
        """Return the call for an occurrence; None if the object had too many Events."""
        object_key = _object_key(occurrence.about)
        bucket = self._buckets.setdefault(object_key, TokenBucket(_REFILL, _BURST))
        self._buckets.move_to_end(object_key)
        _drop_oldest(self._buckets)
        if not bucket.try_take(occurrence.at.timestamp()):
            return None
        key, message = self._key_and_message(occurrence)
        sent = self._sent.get(key)
        if sent is None or occurrence.at - sent.last > _SAME_FOR:
            return self._create(key, message, occurrence)
        sent.count += 1
        sent.last = occurrence.at
        self._sent.move_to_end(key)
        patch: dict[str, Any] = {"count": sent.count, "lastTimestamp": _time(sent.last)}
        if message != occurrence.message:
            patch["message"] = message  # the latest of the combined ones
        return Increase(_namespace(occurrence.about), sent.name, patch)

    def _key_and_message(self, occurrence: Occurrence) -> tuple[Key, str]:
        """Return the key and the message of its Event, which may combine several occurrences."""
        key = (*_object_key(occurrence.about), occurrence.type, occurrence.reason)
        similar = self._similar.get(key)
        if similar is None or occurrence.at - similar.last > _SAME_FOR:
            similar = self._similar[key] = _Similar(set(), occurrence.at)
        similar.last = occurrence.at
        similar.messages.add(occurrence.message)
        self._similar.move_to_end(key)
        _drop_oldest(self._similar)
        if len(similar.messages) < _SIMILAR:
            return (*key, occurrence.message), occurrence.message
        similar.messages.remove(occurrence.message)
        return key, _COMBINED + occurrence.message

    def forget(self, occurrence: Occurrence) -> None:
        """Forget an Event that wasn't stored, or is gone, so that the next one is new."""
        key = (*_object_key(occurrence.about), occurrence.type, occurrence.reason)
        self._sent.pop((*key, occurrence.message), None)
        self._sent.pop(key, None)  # if it was combined

    def _create(self, key: Key, message: str, occurrence: Occurrence) -> Create:
        about, at = occurrence.about, occurrence.at
        # Names contain the time, so two events of the same nanosecond need different ones.
        self._named = max(int(at.timestamp() * 1_000_000) * 1000, self._named + 1)
        name = f"{about.name}.{self._named:x}"
        self._sent[key] = _SentEvent(name, at, 1)
        self._sent.move_to_end(key)
        _drop_oldest(self._sent)
        namespace = _namespace(about)
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": msgspec.to_builtins(about),
            "reason": occurrence.reason,
            "message": message,
            "type": occurrence.type,
            "count": 1,
            "firstTimestamp": _time(at),
            "lastTimestamp": _time(at),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        return Create(namespace, body)


class EventRecorder:
    """Queues Events without blocking, and sends them from the background task ``run``.

    Events are best effort: those that can't be sent are lost. A log line reports the first loss,
    and another one the number of lost Events after a whole queue was sent without an error.
    ``client`` should have its own rate limit, so that Events don't delay actions.
    """

    def __init__(self, client: KubeClient, component: str, *, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._correlator = Correlator(component)
        self._queue: asyncio.Queue[Occurrence] = asyncio.Queue(_QUEUE)
        self._dropped = 0  # since the queue was last seen empty
        self._lost = 0  # not sent since the last complete queue
        self._failure_logged = False
        self._failing = False  # something was not sent since the queue was last empty

    def event(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        """Queue one event; drop it if the queue is full."""
        occurrence = Occurrence(about, type, reason, message, self._clock.now())
        try:
            self._queue.put_nowait(occurrence)
        except asyncio.QueueFull:
            if not self._dropped:
                logger.warning("events dropped, too many wait", extra={"reason": reason})
            self._dropped += 1

    async def run(self) -> None:
        """Send until cancelled, and then the rest of the queue, for a second at most."""
        try:
            while True:
                await self._send(await self._queue.get())
                if self._queue.empty():
                    self._settle()
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    while not self._queue.empty():
                        await self._send(self._queue.get_nowait())
            raise

    async def _send(self, occurrence: Occurrence) -> None:
        decision = self._correlator.decide(occurrence)
        try:
            if isinstance(decision, Increase):
                try:
                    await self._client.patch(
                        _DICTS,
                        decision.name,
                        decision.patch,
                        patch_type=PatchType.STRATEGIC,
                        namespace=decision.namespace,
                    )
                except NotFoundError:  # the Event expired after an hour
                    self._correlator.forget(occurrence)
                    decision = self._correlator.decide(occurrence)
            if isinstance(decision, Create):
                await self._client.create(_DICTS, decision.body, namespace=decision.namespace)
        except (KubeError, DecodeError) as error:
            if isinstance(decision, Create):
                self._correlator.forget(occurrence)
            self._refused(occurrence, error)

    def _refused(self, occurrence: Occurrence, error: KubeError | DecodeError) -> None:
        if not self._failure_logged and not isinstance(
            error, UnreachableError
        ):  # logged by the client
            self._failure_logged = True
            logger.warning(
                "event not sent",
                extra={
                    "event": occurrence.reason,
                    "object": f"{occurrence.about.namespace}/{occurrence.about.name}",
                    "error": str(error),
                },
            )
        self._lost += 1
        self._failing = True

    def _settle(self) -> None:
        """Log how many events were lost, when the queue is empty and sending works again."""
        if self._dropped:
            logger.info("events are no longer dropped", extra={"dropped": self._dropped})
            self._dropped = 0
        if self._lost and not self._failing:
            logger.info("events are sent again", extra={"lost": self._lost})
            self._lost, self._failure_logged = 0, False
        self._failing = False


def _object_key(about: ObjectReference) -> Key:
    return (about.api_version, about.kind, about.namespace, about.name, about.uid)


def _namespace(about: ObjectReference) -> str:
    """Return the Event's namespace; ``default`` for cluster-scoped objects."""
    return about.namespace or "default"


def _drop_oldest(cache: OrderedDict[Key, Any]) -> None:
    while len(cache) > _MOST_CACHED:
        cache.popitem(last=False)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
