"""Targets that don't follow each move of a bound by ResourceQuotas.

The usage of a quota moves with the Jobs, rollouts and replicas of a namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from common.scheduling.pod_sum import Numbers
from recommender.estimate.lowering import grows_enough, total
from recommender.model.patience import PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWait:
    """Quotas have continuously refused the targets of a resource, or allowed larger ones."""

    since: datetime
    fitting: Numbers  # the largest targets that fitted since then, or the smallest if they grow
    grows: bool = False

    @property
    def until(self) -> datetime:
        """Return when the targets move."""
        return self.since + PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTargets:
    """Targets that have grown at once, and may not fit because those of other VPAs grew as well."""

    above: Numbers  # published targets that are larger than these are new


QuotaState: TypeAlias = QuotaWait | NewTargets
"""The state of the targets of one resource between two cycles."""

Settled: TypeAlias = tuple[Numbers, QuotaState | None]
"""The targets of one resource, and their state."""


def settle(
    wanted: Numbers,
    fitting: Numbers,
    kept: Numbers | None,
    fits: Callable[[Numbers], bool],
    *,
    was_lowered: bool,
    last: QuotaState | None,
    now: datetime,
) -> Settled:
    """Return the targets of one resource: those that fit now, or the published ones.

    ``wanted`` are the recommended targets, ``fitting`` those of them that the quotas allow now, and
    ``kept`` the published ones, at most the wanted ones; None: none are published. These move after
    the quotas have refused them, or allowed larger ones (see ``grows_enough``), for half an hour
    without a break: to the largest, or the smallest, that fitted within this time. They grow at
    once if quotas have not lowered them (``was_lowered``), and if they don't fit in the next cycle,
    they are lowered at once.
    """
    if kept is None:
        return fitting, NewTargets(above={})
    if fits(kept):
        if not grows_enough(kept, fitting, wanted):
            return kept, None
        if not was_lowered:
            return fitting, NewTargets(above=kept)
    elif total(fitting) >= total(kept):
        return fitting, None
    elif isinstance(last, NewTargets) and total(kept) > total(last.above):
        return fitting, NewTargets(above=fitting)
    return _after_patience(wanted, fitting, kept, fits, last=last, now=now)


def _after_patience(
    wanted: Numbers,
    fitting: Numbers,
    kept: Numbers,
    fits: Callable[[Numbers], bool],
    *,
    last: QuotaState | None,
    now: datetime,
) -> Settled:
    """Return the targets to which the published ones move when they have waited long enough.

    The wait goes on until they are published. Another one begins at once if they could grow
    further, or don't fit and could be lowered further.
    """
    grows = total(fitting) > total(kept)
    begun = QuotaWait(since=now, fitting=fitting, grows=grows)
    if not isinstance(last, QuotaWait) or last.grows != grows or now < last.since:
        return kept, begun
    nearest = (min if grows else max)(last.fitting, fitting, key=total)
    moved = {name: min(amount, nearest.get(name, amount)) for name, amount in wanted.items()}
    if not (grows_enough(kept, moved, wanted) if grows else total(moved) < total(kept)):
        return kept, begun
    going_on = replace(last, fitting=nearest)
    if now < going_on.until:
        return kept, going_on
    if grows:
        moves_again = grows_enough(moved, fitting, wanted)
    else:
        moves_again = not fits(moved) and total(fitting) < total(moved)
    return moved, begun if moves_again else going_on
