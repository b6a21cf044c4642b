"""Bounds on the pods of VPAs, so that their next rollouts fit the ResourceQuotas of a namespace.

The pods of a workload may use what a quota has left and what they use now. Workloads whose VPAs
compete for this room share it (see ``quota_sharing``).
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from common.api.core import ResourceQuota
from common.quantity import QuantityError
from common.recommendation.quota_scopes import ScopeFacts, is_counted
from common.resources import RESOURCES, ResourceQuantities, parse_quantities
from common.scheduling.pod_claims import number
from common.scheduling.pod_sum import Numbers, PodSum
from recommender.estimate.pod_sums import LIMITS, REQUESTS
from recommender.estimate.quota_sharing import Claim, divide

K = TypeVar("K", bound=Hashable)

_NOTHING: Numbers = {}
QUOTA_SUMS: Mapping[str, str] = {
    **{name: f"{REQUESTS}.{name}" for name in RESOURCES},
    **{f"{part}.{name}": f"{part}.{name}" for part in (REQUESTS, LIMITS) for name in RESOURCES},
}
"""The sum that a resource of a quota counts, by the resource's name in the quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """Equal pods of a workload, and what each of them uses of a quota."""

    count: int
    used: ResourceQuantities  # by the names in quotas
    facts: ScopeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWorkload:
    """A workload with a VPA, which needs a part of the quotas of its namespace."""

    pods: int  # at most, during a rollout
    uses: tuple[PodUse, ...]
    facts: ScopeFacts  # of the pods to come
    sums: Mapping[str, PodSum]  # of one of these pods, by name: limits.memory
    claims: Mapping[str, Claim]  # of all pods, by the same names
    published: Mapping[str, int] = field(default_factory=dict)
    """What all pods need with the published targets, by the same names."""
    competes: bool = True  # False: it gets what the competing ones leave

    def used(self, quota: ResourceQuota, name: str, resource: str) -> int:
        """Return what the present pods certainly use of a quota."""
        return sum(
            each.count * number(resource, each.used.get(name))
            for each in self.uses
            if is_counted(quota.spec, each.facts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTargets:
    """What a VPA wants for its containers, by resource and container."""

    uncapped: Mapping[str, Numbers]
    targets: Mapping[str, Numbers]  # after the policy
    minimums: Mapping[str, Numbers]


def quota_claims(
    sums: Mapping[str, PodSum], wanted: WantedTargets, pods: int
) -> Mapping[str, Claim]:
    """Return what a number of pods needs, for each sum that depends on targets."""
    found: dict[str, Claim] = {}
    for name, pod in sums.items():
        if not pod.is_scaled:
            continue
        resource = name.rpartition(".")[2]
        targets = wanted.targets.get(resource, _NOTHING)
        floors = wanted.minimums.get(resource, _NOTHING)
        least = {each: min(target, floors.get(each, 0)) for each, target in targets.items()}
        uncapped = pod.phases[-1].of(wanted.uncapped.get(resource, _NOTHING)) - pod.fixed
        found[name] = Claim(
            least=pods * pod.of(least),
            need=pods * pod.of(targets),
            fixed=pods * pod.fixed,
            weight=pods * uncapped,
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaBound:
    """The most that the sum of a pod may be, so that all pods of its workload fit a quota."""

    quota: str
    name: str  # of the resource, as the quota names it: cpu, requests.cpu, limits.memory
    hard: int  # millicores or bytes
    others: int  # used by pods that don't compete
    rivals: int  # VPAs that share the rest, besides its own
    pods: int  # of the workload during a rollout
    most: int  # for one pod
    pod: PodSum = field(repr=False)

    @property
    def resource(self) -> str:
        """Return the container resource: cpu or memory."""
        return self.name.rpartition(".")[2]


def quota_bounds(
    quotas: Iterable[ResourceQuota], workloads: Mapping[K, QuotaWorkload]
) -> Mapping[K, tuple[QuotaBound, ...]]:
    """Return the bounds of each workload by the quotas that certainly count its pods.

    A competing workload grows up to its share, and only into room that is free: the others may
    still use more than theirs. The present pods of a workload that doesn't compete count as those
    of others, and it is bounded by what the competing ones leave, or don't use yet. A quota that
    can't be read, or has no usage yet, bounds nothing.
    """
    found: dict[K, list[QuotaBound]] = {}
    for quota in quotas:
        try:
            hard, used = parse_quantities(quota.status.hard), parse_quantities(quota.status.used)
        except QuantityError:
            continue
        names = [name for name in QUOTA_SUMS if name in hard and name in used]
        members = {
            key: each
            for key, each in workloads.items()
            if names and each.pods > 0 and is_counted(quota.spec, each.facts)
        }
        for name in names:
            there = {key: each for key, each in members.items() if QUOTA_SUMS[name] in each.claims}
            resource = name.rpartition(".")[2]
            amounts = number(resource, hard[name]), number(resource, used[name])
            for key, bound in _bounds(quota, name, amounts, there):
                found.setdefault(key, []).append(bound)
    return {key: tuple(bounds) for key, bounds in found.items()}


def _bounds(
    quota: ResourceQuota, name: str, amounts: tuple[int, int], members: Mapping[K, QuotaWorkload]
) -> Iterable[tuple[K, QuotaBound]]:
    """Yield the bounds by one resource of a quota; ``amounts`` are its hard limit and its usage."""
    hard, used = amounts
    resource = name.rpartition(".")[2]
    now = {key: each.used(quota, name, resource) for key, each in members.items()}
    rivals = [key for key, each in members.items() if each.competes]
    room = min(hard, hard - used + sum(now[key] for key in rivals))
    claims = {key: members[key].claims[QUOTA_SUMS[name]] for key in rivals}
    shares = divide(room, claims)
    left = room - sum(claims[key].taken(share) for key, share in shares.items())
    free = hard - used
    for key, each in members.items():
        is_rival = key in shares
        if is_rival:
            there = max(free + now[key], each.published.get(QUOTA_SUMS[name], 0))
            whole = min(shares[key], there)
        else:
            whole = min(hard, max(left, free) + now[key])
        yield (
            key,
            QuotaBound(
                quota=quota.metadata.name,
                name=name,
                hard=hard,
                others=max(0, hard - room - (0 if is_rival else now[key])),
                rivals=len(rivals) - is_rival,
                pods=each.pods,
                most=max(0, whole // each.pods),
                pod=each.sums[QUOTA_SUMS[name]],
            ),
        )
