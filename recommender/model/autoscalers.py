"""What a VPA asks for, container by container, and the history that was loaded for it."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from common.identity_cache import IdentityCache
from common.labels import Selector
from common.resources import CPU, MEMORY
from recommender.model.aggregates import AggregationRules
from recommender.model.keys import VpaKey
from recommender.model.matching import LabelSet

EVERY_OTHER = "*"
_FEW = 16  # rules that are quicker read than indexed


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRule:
    """The part of a container policy that concerns estimation; None leaves the flag's value."""

    container: str = EVERY_OTHER
    off: bool = False
    controlled: tuple[str, ...] = (CPU, MEMORY)
    interval: timedelta | None = None
    interval_count: int | None = None
    oom_bump_up_ratio: float | None = None
    oom_min_bump_up: float | None = None  # bytes

    def applied_to(self, defaults: AggregationRules) -> AggregationRules:
        """Return the rules of an aggregate; an override that is gone counts no longer (Q12)."""
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


_NO_RULE = ContainerRule()
# All containers of one VPA are looked up one after the other.
_indexes = IdentityCache[dict[str, ContainerRule]](4)


def rule_for(rules: tuple[ContainerRule, ...], container: str) -> ContainerRule:
    """Return the first rule of this name, else the last for every other, else the defaults.

    Source: recommender.md 1.3.
    """
    if len(rules) > _FEW:
        index = _indexes.get((rules,), lambda: _indexed(rules))
        return index.get(container, index[EVERY_OTHER])
    found = _NO_RULE
    for rule in rules:
        if rule.container == container:
            return rule
        if rule.container == EVERY_OTHER:
            found = rule
    return found


def _indexed(rules: tuple[ContainerRule, ...]) -> dict[str, ContainerRule]:
    """Return the rules by container name; the rule for every other one is always there."""
    index: dict[str, ContainerRule] = {}
    others = _NO_RULE
    for rule in rules:
        index.setdefault(rule.container, rule)
        if rule.container == EVERY_OTHER:
            others = rule
    return {**index, EVERY_OTHER: others}


@dataclass(slots=True, kw_only=True, eq=False)
class HistoryFlags:
    """What happened to the history of a VPA's containers; each is a set of their names."""

    just_loaded: set[str] = field(default_factory=set)  # its age has not been checked yet
    forgotten: set[str] = field(default_factory=set)  # a part is gone: a checkpoint may know less
    expired: set[str] = field(default_factory=set)  # all of it was too old
    killed: set[str] = field(default_factory=set)  # an OOM kill was learnt since that
    outdated: set[str] = field(default_factory=set)  # what is published is older; or EVERY_OTHER


@dataclass(slots=True, kw_only=True, eq=False)
class Autoscaler:
    """A VPA in the model."""

    key: VpaKey
    selector: Selector
    rules: tuple[ContainerRule, ...] = ()
    update_mode: str = ""  # as written in the VPA
    target: str = ""  # whom the history is about, see ``facts.target_name``
    loaded: dict[str, int] = field(default_factory=dict)  # container -> row of its checkpoint
    history_flags: HistoryFlags = field(default_factory=HistoryFlags)
    former: set[LabelSet] = field(default_factory=set)  # that its selector matched before
