"""Faults of the API server: rules that select calls and define their effects.

Programs add rules (:meth:`ApiFaults.add`); ``sandbox.apiserver.fault_injection`` applies them.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from random import Random

from common.runtime.clock import Clock
from sandbox.apiserver.requests import Place, Request

ENDLESS = float("inf")
CORE = "core"
"""The name of the core group in a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Patterns (``*`` and ``?``) of the calls of a rule. An empty pattern matches all.

    ``resource`` is written as in RBAC: ``pods``, ``pods/resize``, ``pods/*``.
    """

    verb: str = ""  # get, list, watch, create, update, patch, delete, deletecollection
    group: str = ""  # CORE is the group without a name
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    user_agent: str = ""

    def include(self, request: Request, place: Place, verb: str) -> bool:
        """Return True if the rule applies to this call."""
        resource = f"{place.plural}/{place.subresource}" if place.subresource else place.plural
        return all(
            not pattern or fnmatchcase(value, pattern)
            for pattern, value in (
                (self.verb, verb),
                (self.group, place.group or CORE),
                (self.resource, resource),
                (self.namespace, place.namespace),
                (self.name, place.name),
                (self.user, request.user.username),
                (self.user_agent, request.user_agent),
            )
        )


class Refusal(enum.IntEnum):
    """The codes with which a rule can refuse a call."""

    UNAUTHORIZED = 401
    FORBIDDEN = 403
    CONFLICT = 409
    INVALID = 422
    OVERLOADED = 429  # plain text, as API Priority and Fairness answers
    INTERNAL = 500
    UNAVAILABLE = 503
    TIMEOUT = 504


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect on a call; None is no effect. Times are in seconds."""

    delay: float | None = None  # before anything else happens
    refuse: Refusal | None = None
    retry_after: int | None = None  # of the refusal; 1 by default for a 429
    message: str | None = None  # of the refusal
    drop: bool | None = None  # the connection breaks without an answer
    done: bool | None = None  # the call is carried out before it is refused or dropped
    watch_delay: float | None = None  # events are sent in batches, delayed by this time
    watch_pause: float | None = None  # between two events
    watch_duplicates: bool | None = None  # every event is sent twice
    watch_bookmarks: bool | None = None  # False: no bookmarks
    watch_end: float | None = None  # the watch ends normally after this time
    watch_cut: float | None = None  # its connection breaks after this time

    def or_else(self, other: "Effect") -> "Effect":
        """Return this effect with its unset fields taken from another."""
        return Effect(
            **{
                one.name: getattr(other if getattr(self, one.name) is None else self, one.name)
                for one in fields(Effect)
            }
        )


NOTHING = Effect()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFault:
    """A rule: an effect on calls, with its frequency and time.

    ``end`` is in seconds since the rule was added, by the sandbox's clock.
    """

    calls: Calls = Calls()
    effect: Effect
    share: float = 1.0  # relative: 0.5 is every other matching call, at random
    count: int | None = None  # the number of calls after which the rule ends
    end: float = ENDLESS


@dataclass(slots=True, eq=False)
class _Rule:
    fault: ApiFault
    since: datetime
    hits: int = 0

    def hits_now(self, now: datetime, rng: Random) -> bool:
        age = (now - self.since) / timedelta(seconds=1)
        if age >= self.fault.end:
            return False
        if self.fault.count is not None and self.hits >= self.fault.count:
            return False
        return self.fault.share >= 1 or rng.random() < self.fault.share


class ApiFaults:
    """The rules of one API server."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        """Use ``rng`` for shares only."""
        self._clock = clock
        self._rng = rng
        self._rules: list[_Rule] = []

    def add(self, fault: ApiFault) -> Callable[[], None]:
        """Add a rule after the existing ones. Return a function that removes it."""
        rule = _Rule(fault, self._clock.now())
        self._rules.append(rule)
        return lambda: self._rules.remove(rule) if rule in self._rules else None

    def effect_on(self, request: Request, place: Place, verb: str) -> Effect:
        """Return the effect on a call, and count a hit of each rule that applies.

        If several rules apply, the first one that sets a field determines it.
        """
        if not self._rules:
            return NOTHING
        now, effect = self._clock.now(), NOTHING
        for rule in self._rules:
            if rule.fault.calls.include(request, place, verb) and rule.hits_now(now, self._rng):
                rule.hits += 1
                effect = effect.or_else(rule.fault.effect)
        return effect

    def hits(self, fault: ApiFault) -> int:
        """Return the number of calls that an added rule has hit."""
        return next(rule.hits for rule in self._rules if rule.fault is fault)
