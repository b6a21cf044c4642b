"""What the API server does wrong on purpose: rules that say which calls suffer, and how.

A rule comes from a scenario (``api-faults``) or from a program (:meth:`ApiFaults.add`). What
becomes of a call that it hits is in ``sandbox.apiserver.fault_injection``.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Self

from common.runtime.clock import Clock
from sandbox import description
from sandbox.apiserver.requests import Place, Request
from sandbox.description import Section

ENDLESS = float("inf")
CORE = "core"
"""How a rule calls the group without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Which calls a rule is about: patterns with ``*`` and ``?``; an empty one is any.

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
        """Whether the rule is about this call."""
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
    """The codes that a rule can refuse a call with."""

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
    """What happens to a call; None is nothing. Times are in seconds."""

    delay: float | None = None  # before anything else happens
    refuse: Refusal | None = None
    retry_after: int | None = None  # told with the refusal; a 429 says 1 by itself
    message: str | None = None  # of the refusal
    drop: bool | None = None  # the connection breaks without an answer
    done: bool | None = None  # the call is carried out before it is refused or dropped
    watch_delay: float | None = None  # events come in bundles, this much later
    watch_pause: float | None = None  # between two events
    watch_duplicates: bool | None = None  # every event comes twice
    watch_bookmarks: bool | None = None  # False: none, at all
    watch_end: float | None = None  # the watch ends properly after this time
    watch_cut: float | None = None  # its connection breaks after this time

    @classmethod
    def parse(cls, section: Section) -> Self:
        """Read the fields, with dashes for underscores.

        Raises:
            ConfigError: a value that a field can't take.
        """
        return cls(
            **{name: section.take(_dashed(name), parse, None) for name, parse in _EFFECTS.items()}
        )

    def or_else(self, other: "Effect") -> "Effect":
        """This effect, with what it leaves open taken from another."""
        return Effect(
            **{
                one.name: getattr(other if getattr(self, one.name) is None else self, one.name)
                for one in fields(Effect)
            }
        )


NOTHING = Effect()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFault:
    """A rule: what happens to which calls, how often and when.

    ``begin`` and ``end`` are seconds since the rule was added, by the sandbox's clock.
    """

    calls: Calls = Calls()
    effect: Effect
    share: float = 1.0  # relative: 0.5 is every other matching call, at random
    count: int | None = None  # after so many calls the rule is used up
    begin: float = 0.0
    end: float = ENDLESS

    @classmethod
    def parse(cls, section: Section) -> Self:
        """Read ``{match, share, count, from, until, <effects>}``.

        Raises:
            ConfigError: an unknown field, or a value that it can't take; the message names it.
        """
        match = section.section("match")
        calls = Calls(
            **{
                one.name: match.take(_dashed(one.name), description.text, "")
                for one in fields(Calls)
            }
        )
        match.close()
        found = cls(
            calls=calls,
            effect=Effect.parse(section),
            share=section.take("share", _share, 1.0),
            count=section.take("count", description.whole, None),
            begin=section.take("from", description.seconds, 0.0),
            end=section.take("until", description.seconds, ENDLESS),
        )
        section.close()
        return found


@dataclass(slots=True, eq=False)
class _Rule:
    fault: ApiFault
    since: datetime
    hits: int = 0

    def hits_now(self, now: datetime, rng: Random) -> bool:
        age = (now - self.since) / timedelta(seconds=1)
        if not self.fault.begin <= age < self.fault.end:
            return False
        if self.fault.count is not None and self.hits >= self.fault.count:
            return False
        return self.fault.share >= 1 or rng.random() < self.fault.share


class ApiFaults:
    """The rules of one API server."""

    def __init__(self, clock: Clock, rng: Random, *, faults: Iterable[ApiFault] = ()) -> None:
        """``rng`` decides on shares; nothing is drawn from it where no rule has one."""
        self._clock = clock
        self._rng = rng
        self._rules: list[_Rule] = []
        self.replace(faults)

    def add(self, fault: ApiFault) -> Callable[[], None]:
        """Add a rule, after those that are there; returns the way to take it back."""
        rule = _Rule(fault, self._clock.now())
        self._rules.append(rule)
        return lambda: self._rules.remove(rule) if rule in self._rules else None

    def replace(self, faults: Iterable[ApiFault]) -> None:
        """Forget all rules, and begin with these."""
        self._rules = [_Rule(fault, self._clock.now()) for fault in faults]

    def effect_on(self, request: Request, place: Place, verb: str) -> Effect:
        """What happens to a call; counts as a hit of every rule that says so.

        Where several rules hit, the first one that says anything about a field decides it.
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
        """Return how often a rule that was added has hit."""
        return next(rule.hits for rule in self._rules if rule.fault is fault)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _share(value: object) -> float:
    share = description.number(value)
    if share > 1:
        raise ValueError(f"a share is at most 1: {value!r}")
    return share


def _refusal(value: object) -> Refusal:
    try:
        return Refusal(description.whole(value))
    except ValueError:
        known = ", ".join(str(code.value) for code in Refusal)
        raise ValueError(f"not one of {known}: {value!r}") from None


_EFFECTS: Mapping[str, Callable[[object], Any]] = {
    "delay": description.seconds,
    "refuse": _refusal,
    "retry_after": description.whole,
    "message": description.text,
    "drop": description.truth,
    "done": description.truth,
    "watch_delay": description.seconds,
    "watch_pause": description.seconds,
    "watch_duplicates": description.truth,
    "watch_bookmarks": description.truth,
    "watch_end": description.seconds,
    "watch_cut": description.seconds,
}
