"""What a VPA asks for, container by container, and the history that was loaded for it."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from common.labels import Selector
from common.resources import CPU, MEMORY
from recommender.model.aggregates import AggregationRules
from recommender.model.keys import VpaKey

EVERY_OTHER = "*"


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
        """The rules of an aggregate; an override that is gone counts no longer (Q12)."""
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


def rule_for(rules: tuple[ContainerRule, ...], container: str) -> ContainerRule:
    """The first rule of this name, else the last for every other, else the defaults.

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
class Autoscaler:
    """A VPA in the model."""

    key: VpaKey
    selector: Selector
    rules: tuple[ContainerRule, ...] = ()
    loaded: dict[str, int] = field(default_factory=dict)  # container -> row of its checkpoint
