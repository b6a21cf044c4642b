"""A cache of scale subresources of any kind, which discovery finds."""

import asyncio
import logging
import math
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import msgspec

from common.api.base import Wire
from common.api.decoding import decode
from common.api.workloads import Scale
from common.errors import DecodeError, KubeError, NotFoundError
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint, group_path, version_path
from common.kube.lookup_budget import LookupBudget
from common.kube.watch import decoder_of
from common.target.owners import Absent, Answer, Controller, Failed, Found, Unknown
from common.target.references import reference_problem

logger = logging.getLogger(__name__)

W = TypeVar("W", bound=Wire)

_MAPPING_SECONDS = 300.0  # a kind's resources change when CRDs are installed
_SCALE_SECONDS = 600.0  # owners of an object; with jitter up to twice as long
_AHEAD_SECONDS = 300.0  # age at which owners are refreshed in the background
_SELECTOR_SECONDS = 30.0  # the selector decides about pods
_NEGATIVE_SECONDS = 30.0  # errors and absence
_PRUNE_SECONDS = 600.0
_STALE_SECONDS = 600.0  # maximum age of a selector if callers can't wait
_REFRESHES = 8  # concurrent background refreshes
_MOST_SCALES = 20_000  # cached; owner references can contain any text
_MOST_KINDS = 1000
_TOO_SLOW = "no answer in time"
_POSTPONED = "look-up budget of this cycle is used up; retrying in the next cycle"
_NO_RESOURCE = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class Unavailable(Failed):
    """The API server refused, or didn't answer; a retry may help."""


@dataclass(frozen=True, slots=True)
class NoScale(Failed):
    """There is no scale; for an owner this ends the chain without an error."""


@dataclass(frozen=True, slots=True)
class ScaleFound(Found):
    """The content of a scale: the owners of the object, and its pods' selector as text."""

    selector: str = ""


ScaleAnswer: TypeAlias = ScaleFound | Failed


class _Resource(Wire, frozen=True, kw_only=True):
    name: str
    kind: str = ""
    namespaced: bool = True


class _Resources(Wire, frozen=True, kw_only=True):
    resources: tuple[_Resource, ...] | None = None


class _GroupVersion(Wire, frozen=True, kw_only=True):
    version: str = ""


class _Group(Wire, frozen=True, kw_only=True):
    versions: tuple[_GroupVersion, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Mappings:
    """The resources of a kind that have a scale subresource, or the error of discovery."""

    endpoints: tuple[Endpoint[Scale], ...]
    problem: Failed | None
    until: float  # the event loop's time


@dataclass(frozen=True, slots=True)
class _CachedScale:
    answer: ScaleAnswer
    since: float  # the event loop's time
    until: float
    tried: float  # time of the last fetch, failed ones included


class Scales:
    """A client for scale subresources that caches the answers.

    The owners of an object are valid for ten to twenty minutes, its selector for half a minute, and
    a failure for half a minute. Concurrent look-ups of the same object share one request.

    With ``ahead`` a selector is valid for ten minutes, but is refreshed in the background after
    half a minute, and so are owners after five minutes: frequent callers never wait. Failures
    don't invalidate cached answers. Use it for a webhook, whose callers can't wait; a loop with
    one look-up per minute would get selectors that are a minute old.
    """

    def __init__(self, client: KubeClient, *, ahead: bool = False) -> None:
        self._client = client
        self._ahead = ahead
        self.budget: LookupBudget | None = None  # of the current cycle; None: there are no cycles
        self._mappings: dict[tuple[str, str], _Mappings] = {}
        self._scales: dict[Controller, _CachedScale] = {}
        self._fetching: dict[Controller, asyncio.Task[ScaleAnswer]] = {}
        self._postponed: dict[Controller, float] = {}  # the event loop's time of the first delay
        self._refreshing = 0  # number of fetches in the background
        self._pruned = 0.0

    @property
    def postpones(self) -> bool:
        """Return whether the look-up of an object was postponed."""
        return bool(self._postponed)

    def answer(self, controller: Controller) -> Answer:
        """Return the cached answer about an owner; Unknown if it has to be fetched first."""
        known = self._scales.get(controller)
        now = _now()
        if known is None or known.until <= now:
            return Unknown()
        if self._ahead and known.since + _AHEAD_SECONDS <= now:
            self._refresh(controller, known, now)
        return Absent() if isinstance(known.answer, NoScale) else known.answer

    async def current(self, controller: Controller) -> ScaleAnswer:
        """Return the scale of a target, at most half a minute old; with ``ahead`` ten minutes."""
        known = self._scales.get(controller)
        now = _now()
        good_for = _STALE_SECONDS if self._ahead else _SELECTOR_SECONDS
        if known is None or known.until <= now or known.since + good_for <= now:
            return await self.fetch(controller)
        if known.since + _SELECTOR_SECONDS <= now:
            self._refresh(controller, known, now)
        return known.answer

    async def fetch(self, controller: Controller) -> ScaleAnswer:
        """Fetch the scale unless the cycle's budget is used up; return errors, don't raise them.

        A caller's time-out doesn't cancel the request, so the next caller can use a slow answer.
        """
        budget, namespace = self.budget, controller.namespace
        if budget is not None and not budget.allows(namespace):
            self._postpone(controller)
            return Unavailable(_POSTPONED)
        self._postponed.pop(controller, None)
        task = self._fetching.get(controller) or self._start(controller)
        if budget is None:
            return await _wait_for(task)
        started = _now()
        try:
            async with asyncio.timeout(budget.each):
                return await _wait_for(task)
        except TimeoutError:
            return Unavailable(_TOO_SLOW)
        finally:
            budget.charge(namespace, _now() - started)

    def postponed_since(self, controller: Controller) -> float:
        """Return the time since which a look-up waits for a later cycle; infinity if it doesn't."""
        return self._postponed.get(controller, math.inf)

    def _postpone(self, controller: Controller) -> None:
        self._postponed.setdefault(controller, _now())
        if len(self._postponed) > _MOST_SCALES:
            self._postponed.pop(next(iter(self._postponed)))

    def _refresh(self, controller: Controller, known: _CachedScale, now: float) -> None:
        """Fetch in the background, unless a recent or current fetch exists, or too many run.

        In these cases the next look-up fetches it.
        """
        tried = known.tried + _NEGATIVE_SECONDS > now or controller in self._fetching
        if not tried and self._refreshing < _REFRESHES:
            self._refreshing += 1
            self._start(controller, keep=True).add_done_callback(self._refreshed)

    def _refreshed(self, task: asyncio.Task[ScaleAnswer]) -> None:
        self._refreshing -= 1
        _log_failure(task)

    def _start(self, controller: Controller, *, keep: bool = False) -> asyncio.Task[ScaleAnswer]:
        task = asyncio.create_task(self._fetch_and_cache(controller, keep=keep))
        self._fetching[controller] = task
        task.add_done_callback(lambda _: self._fetching.pop(controller))
        return task

    async def _fetch_and_cache(self, controller: Controller, *, keep: bool) -> ScaleAnswer:
        # Without a retry in the background: the next refresh is one.
        answer = await self._read_scale(controller, retry=not keep)
        self._cache_answer(controller, answer, keep=keep)
        return answer

    def _cache_answer(self, controller: Controller, answer: ScaleAnswer, *, keep: bool) -> None:
        """Cache an answer; with ``keep`` an error doesn't replace a valid answer."""
        now = _now()
        known = self._scales.pop(controller, None)
        if keep and isinstance(answer, Unavailable) and known is not None and known.until > now:
            self._scales[controller] = replace(known, tried=now)
            return
        seconds = _NEGATIVE_SECONDS
        if isinstance(answer, ScaleFound):
            seconds = _SCALE_SECONDS * (1.0 + self._client.rng.random())
        self._scales[controller] = _CachedScale(answer, now, now + seconds, now)
        if now - self._pruned > _PRUNE_SECONDS:
            self._pruned = now
            self._scales = {key: kept for key, kept in self._scales.items() if kept.until > now}
        if len(self._scales) > _MOST_SCALES:
            self._scales.pop(next(iter(self._scales)))  # the oldest entry

    async def _read_scale(self, controller: Controller, *, retry: bool) -> ScaleAnswer:
        """GET the scale of the first mapping that has one.

        An invalid reference never causes a request.
        """
        problem = reference_problem(controller.api_version, controller.name)
        if problem:
            return Failed(problem)
        mappings = await self._mapped(controller, retry=retry)
        if mappings.problem is not None:
            return mappings.problem
        answer: ScaleAnswer = NoScale(_NO_RESOURCE)
        for endpoint in mappings.endpoints:
            try:
                path = endpoint.object(controller.name, controller.namespace, "scale")
                scale = _decoded(await self._client.look_up(path, retry=retry), Scale)
            except (KubeError, DecodeError) as error:
                answer = _failed(error)
            else:
                return ScaleFound(scale.metadata.owner_references, scale.status.selector)
        return answer

    async def _mapped(self, controller: Controller, *, retry: bool) -> _Mappings:
        group, _, version = controller.api_version.rpartition("/")
        key = (group, controller.kind)
        known = self._mappings.get(key)
        now = _now()
        if known is None or known.until <= now:
            known = await self._discover(group, version, controller.kind, now, retry=retry)
            self._mappings.pop(key, None)
            self._mappings[key] = known
            if len(self._mappings) > _MOST_KINDS:
                self._mappings.pop(next(iter(self._mappings)))
        return known

    async def _discover(
        self, group: str, version: str, kind: str, now: float, *, retry: bool
    ) -> _Mappings:
        """Read the version that the target names, then the other versions of the group."""
        try:
            for candidate in await self._versions(group, version, retry=retry):
                resources = await self._resources(group, candidate, retry=retry)
                plurals = [r for r in resources if r.kind == kind and "/" not in r.name]
                if plurals:
                    names = {r.name for r in resources}
                    found = tuple(
                        Endpoint(group, candidate, r.name, kind, Scale, r.namespaced)
                        for r in plurals
                        if f"{r.name}/scale" in names
                    )
                    return _Mappings(found, None, now + _MAPPING_SECONDS)
        except (KubeError, DecodeError) as error:
            return _Mappings((), _failed(error), now + _NEGATIVE_SECONDS)
        problem = Failed(f'no matches for kind "{kind}" in group "{group}"')
        return _Mappings((), problem, now + _NEGATIVE_SECONDS)

    async def _versions(self, group: str, version: str, *, retry: bool) -> tuple[str, ...]:
        if not group:
            return ("v1",)
        try:
            body = await self._client.look_up(group_path(group), retry=retry)
        except NotFoundError:
            return ()
        served = [v.version for v in _decoded(body, _Group).versions or ()]
        return tuple(sorted(served, key=lambda each: each != version))

    async def _resources(self, group: str, version: str, *, retry: bool) -> tuple[_Resource, ...]:
        try:
            body = await self._client.look_up(version_path(group, version), retry=retry)
        except NotFoundError:
            return ()
        return _decoded(body, _Resources).resources or ()


async def _wait_for(task: asyncio.Task[ScaleAnswer]) -> ScaleAnswer:
    """Wait for a look-up, which continues when the caller is cancelled."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise


def _log_failure(task: asyncio.Task[ScaleAnswer]) -> None:
    """Log an unexpected error of a look-up whose caller no longer waits."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("look-up failed unexpectedly", exc_info=error)


def _failed(error: KubeError | DecodeError) -> Failed:
    """Return NoScale for absence, Unavailable for other errors, such as missing permissions."""
    return NoScale(str(error)) if isinstance(error, NotFoundError) else Unavailable(str(error))


def _decoded(body: bytes, type: type[W]) -> W:
    try:
        return decode(decoder_of(type), body)
    except msgspec.DecodeError as error:
        raise DecodeError(f"answer in an unknown shape: {error}") from error


def _now() -> float:
    return asyncio.get_running_loop().time()
