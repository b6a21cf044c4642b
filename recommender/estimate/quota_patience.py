"""Targets that don't follow each move of a bound by ResourceQuotas.

The usage of a quota moves with the Jobs, rollouts and replicas of a namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from common.scheduling.pod_sum import Numbers
from recommender.model.patience import PATIENCE

_STEP = 10  # percent: the default of the updater's --pod-update-threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWait:
    """The targets of a VPA for one resource have exceeded a quota continuously for some time."""

    since: datetime
    fitting: Numbers  # the largest targets that fitted since then

    @property
    def until(self) -> datetime:
        """Return when the targets are lowered."""
        return self.since + PATIENCE


_NEW = QuotaWait(since=datetime.min.replace(tzinfo=UTC), fitting={})
"""Targets that have just grown and may not fit yet, because those of other VPAs grew as well. They
are lowered at once if they don't fit in the next cycle."""

Settled: TypeAlias = tuple[Numbers, QuotaWait | None]
"""The targets of one resource, and the wait that goes on."""


def settle(
    wanted: Numbers,
    fitting: Numbers,
    kept: Numbers | None,
    fits: Callable[[Numbers], bool],
    *,
    wait: QuotaWait | None,
    now: datetime,
) -> Settled:
    """Return the targets of one resource: those that fit now, or the published ones.

    ``wanted`` are the recommended targets, ``fitting`` those of them that the quotas allow now, and
    ``kept`` the published ones, at most the wanted ones; None: none are published. Targets that are
    lowered grow only by ten percent or more: if the lower bound of a recommendation is above them,
    the updater replaces all pods at once. They are lowered after they have exceeded the quotas for
    half an hour, and then to the largest that fitted within this time. The wait goes on until that
    is published, and another one begins if it doesn't fit now.
    """
    if kept is None:
        return fitting, _NEW
    before, after = _total(kept), _total(fitting)
    if fits(kept):
        is_step = fitting == wanted or after * 100 >= before * (100 + _STEP)
        return (fitting, _NEW) if after > before and is_step else (kept, None)
    if after >= before:
        return fitting, None
    is_lowered = wait is not None and before <= _total(wait.fitting)
    if wait is None or is_lowered or now < wait.since:
        return kept, QuotaWait(since=now, fitting=fitting)
    most = max(wait.fitting, fitting, key=_total)
    goes_on = QuotaWait(since=wait.since, fitting=most)
    if now < wait.until:
        return kept, goes_on
    lower = {name: min(amount, most.get(name, amount)) for name, amount in wanted.items()}
    return lower, goes_on if fits(lower) else QuotaWait(since=now, fitting=fitting)


def _total(amounts: Numbers) -> int:
    return sum(amounts.values())
