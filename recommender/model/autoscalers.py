"""VPAs in the model: selector, rules for containers, and loaded history."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

from common.labels import Selector
from common.resources import CPU, MEMORY
from recommender.model.aggregates import AggregationRules
from recommender.model.keys import Requests, VpaKey
from recommender.model.matching import LabelSet

EVERY_OTHER = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRule:
    """The part of a container policy that concerns estimation; None: the flag's value applies."""

    container: str = EVERY_OTHER
    off: bool = False
    controlled: tuple[str, ...] = (CPU, MEMORY)
    interval: timedelta | None = None
    interval_count: int | None = None
    oom_bump_up_ratio: float | None = None
    oom_min_bump_up: float | None = None  # bytes

    def applied_to(self, defaults: AggregationRules) -> AggregationRules:
        """Return ``defaults`` with the overrides of this rule.

        They are applied to the flags' values each time, so a removed override has no effect (Q12).
        """
        rules = defaults
        if self.interval is not None:
            rules = replace(rules, interval=self.interval)
        if self.interval_count is not None:
            rules = replace(rules, interval_count=self.interval_count)
        if self.oom_bump_up_ratio is not None:
            rules = replace(rules, oom_bump_up_ratio=self.oom_bump_up_ratio)
        if self.oom_min_bump_up is not None:
            rules = replace(rules, oom_min_bump_up=self.oom_min_bump_up)
        return rules


Declared: TypeAlias = tuple[Selector, tuple[ContainerRule, ...], str, str, Mapping[str, Requests]]
"""Selector, rules, update mode, target, and the requests in the target's pod template."""

_NO_RULE = ContainerRule()


def rule_for(rules: tuple[ContainerRule, ...], container: str) -> ContainerRule:
    """Return the first rule with this name, else the last one named ``*``, else the defaults.

    Source: recommender.md 1.3.
    """
    found = _NO_RULE
    for rule in rules:
        if rule.container == container:
            return rule
        if rule.container == EVERY_OTHER:
            found = rule
    return found


@dataclass(slots=True, kw_only=True, eq=False)
class HistoryFlags:
    """Flags of the history of a VPA's containers; each is a set of container names."""

    just_loaded: set[str] = field(default_factory=set)  # its age has not been checked yet
    forgotten: set[str] = field(default_factory=set)  # a part was dropped: checkpoints may shrink
    expired: set[str] = field(default_factory=set)  # all of it was too old
    killed: set[str] = field(default_factory=set)  # an OOM kill was recorded after that
    outdated: set[str] = field(default_factory=set)  # the status is older; may hold EVERY_OTHER


@dataclass(slots=True, kw_only=True, eq=False)
class Autoscaler:
    """A VPA in the model."""

    key: VpaKey
    number: int  # from 1, unique among present VPAs; in the column ``Aggregates.vpa``
    selector: Selector
    rules: tuple[ContainerRule, ...] = ()
    update_mode: str = ""  # as written in the VPA
    target: str = ""  # the owner of the history, see ``conversion.target_name``
    template_requests: Mapping[str, Requests] = field(default_factory=dict)  # by container
    loaded: dict[str, int] = field(default_factory=dict)  # container -> row of its checkpoint
    history_flags: HistoryFlags = field(default_factory=HistoryFlags)
    former: set[LabelSet] = field(default_factory=set)  # label sets that its selector matched

    @property
    def declared(self) -> Declared:
        """Return the part that the VPA and its target define."""
        return self.selector, self.rules, self.update_mode, self.target, self.template_requests

    @declared.setter
    def declared(self, given: Declared) -> None:
        self.selector, self.rules, self.update_mode, self.target, self.template_requests = given
