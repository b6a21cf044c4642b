"""Scale subresources of any kind: found by discovery, remembered with an age."""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import msgspec

from common.api.base import Wire
from common.api.workloads import Scale
from common.errors import DecodeError, KubeError, NotFoundError, UnreachableError
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.target.owners import Absent, Answer, Controller, Failed, Found, Unknown

W = TypeVar("W", bound=Wire)

_MAPPING_SECONDS = 300.0  # which resources a kind has changes with an installed CRD
_SCALE_SECONDS = 600.0  # owners of an object; spread to twice as long
_SELECTOR_SECONDS = 30.0  # the selector is what decides about pods
_NEGATIVE_SECONDS = 30.0  # any error, and any "there is none"
_PRUNE_SECONDS = 600.0
_NO_RESOURCE = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class Unavailable(Failed):
    """The API server was in trouble; asking again may help."""


@dataclass(frozen=True, slots=True)
class NoScale(Failed):
    """There is no scale; for an owner that only ends the chain."""


@dataclass(frozen=True, slots=True)
class ScaleFound(Found):
    """What a scale subresource says: the owners of the object, and its pods' selector as text."""

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
    """The resources of a kind that have a scale subresource, or why we can't tell."""

    endpoints: tuple[Endpoint[Scale], ...]
    problem: Failed | None
    until: float  # the event loop's time


@dataclass(frozen=True, slots=True)
class _Remembered:
    answer: ScaleAnswer
    since: float  # the event loop's time
    until: float


class Scales:
    """Asks for scale subresources, and remembers the answers.

    An answer is good for ten to twenty minutes where the owners of an object are asked for,
    for half a minute where its selector is; a failure for half a minute. Whoever asks for
    what is being fetched already waits for that answer.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._mappings: dict[tuple[str, str], _Mappings] = {}
        self._scales: dict[Controller, _Remembered] = {}
        self._fetching: dict[Controller, asyncio.Task[ScaleAnswer]] = {}
        self._pruned = 0.0

    def answer(self, controller: Controller) -> Answer:
        """What is known of an owner; Unknown when it must be fetched first."""
        known = self._scales.get(controller)
        if known is None or known.until <= _now():
            return Unknown()
        return Absent() if isinstance(known.answer, NoScale) else known.answer

    async def current(self, controller: Controller) -> ScaleAnswer:
        """The scale of a target, at most half a minute old."""
        known = self._scales.get(controller)
        now = _now()
        if known is None or known.until <= now or known.since + _SELECTOR_SECONDS <= now:
            return await self.fetch(controller)
        return known.answer

    async def fetch(self, controller: Controller) -> ScaleAnswer:
        """Ask the API server; never raises for what it answers.

        Who gives up waiting leaves the question under way: a slow answer still serves the next.
        """
        asking = self._fetching.get(controller)
        if asking is None:
            asking = asyncio.create_task(self._ask_and_remember(controller))
            self._fetching[controller] = asking
            asking.add_done_callback(lambda _: self._fetching.pop(controller))
        return await asyncio.shield(asking)

    async def _ask_and_remember(self, controller: Controller) -> ScaleAnswer:
        answer = await self._ask(controller)
        self._remember(controller, answer)
        return answer

    def _remember(self, controller: Controller, answer: ScaleAnswer) -> None:
        now = _now()
        seconds = _NEGATIVE_SECONDS
        if isinstance(answer, ScaleFound):
            seconds = _SCALE_SECONDS * (1.0 + self._client.rng.random())
        self._scales[controller] = _Remembered(answer, now, now + seconds)
        if now - self._pruned > _PRUNE_SECONDS:
            self._pruned = now
            self._scales = {key: kept for key, kept in self._scales.items() if kept.until > now}

    async def _ask(self, controller: Controller) -> ScaleAnswer:
        """GET the scale of the first mapping that has one."""
        mappings = await self._mapped(controller)
        if mappings.problem is not None:
            return mappings.problem
        answer: ScaleAnswer = NoScale(_NO_RESOURCE)
        for endpoint in mappings.endpoints:
            try:
                scale = await self._client.get(
                    endpoint, controller.name, namespace=controller.namespace, subresource="scale"
                )
            except (KubeError, DecodeError) as error:
                answer = _failed(error)
            else:
                return ScaleFound(scale.metadata.owner_references, scale.status.selector)
        return answer

    async def _mapped(self, controller: Controller) -> _Mappings:
        group, _, version = controller.api_version.rpartition("/")
        key = (group, controller.kind)
        known = self._mappings.get(key)
        now = _now()
        if known is None or known.until <= now:
            known = await self._discover(group, version, controller.kind, now)
            self._mappings[key] = known
        return known

    async def _discover(self, group: str, version: str, kind: str, now: float) -> _Mappings:
        """Look into the version that the target names, then into the group's others."""
        try:
            for candidate in await self._versions(group, version):
                resources = await self._resources(group, candidate)
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

    async def _versions(self, group: str, version: str) -> tuple[str, ...]:
        if not group:
            return ("v1",)
        try:
            body = await self._client.request("GET", f"/apis/{group}")
        except NotFoundError:
            return ()
        served = [v.version for v in _decoded(body, _Group).versions or ()]
        return tuple(sorted(served, key=lambda each: each != version))

    async def _resources(self, group: str, version: str) -> tuple[_Resource, ...]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            body = await self._client.request("GET", path)
        except NotFoundError:
            return ()
        return _decoded(body, _Resources).resources or ()


def _failed(error: KubeError | DecodeError) -> Failed:
    if isinstance(error, NotFoundError):
        return NoScale(str(error))
    if isinstance(error, UnreachableError):
        return Unavailable(str(error))
    if isinstance(error, KubeError) and (error.status >= 500 or error.status == 429):
        return Unavailable(str(error))
    return Failed(str(error))


def _decoded(body: bytes, type: type[W]) -> W:
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.DecodeError as error:
        raise DecodeError(f"discovery answered in an unknown shape: {error}") from error


def _now() -> float:
    return asyncio.get_running_loop().time()
