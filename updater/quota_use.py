"""The ResourceQuotas of a snapshot, and what the actions of a pass take of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.api.core import ResourceQuota
from common.quantity import Quantity
from common.resources import ResourceQuantities


@dataclass(slots=True)
class QuotaUse:
    """Quotas by namespace, shared by all VPAs of a pass.

    The status of a quota lags behind: it is read again for the next pass, and an action that
    fails gives nothing back in this one. Reading what is left and taking from it happen in one
    step of planning, with no other VPA in between.
    """

    quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)
    _taken: defaultdict[str, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the quotas of a namespace."""
        return self.quotas.get(namespace, ())

    def taken(self, namespace: str) -> ResourceQuantities:
        """Return what actions of this pass have taken so far."""
        return self._taken.get(namespace, {})

    def take(self, namespace: str, growth: ResourceQuantities) -> None:
        """Record that an action takes this much."""
        taken = self._taken[namespace]
        for name, amount in growth.items():
            taken[name] = taken[name] + amount if name in taken else amount
