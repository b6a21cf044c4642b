"""Replica counts of a Deployment's rollout from its old ReplicaSets to the new one.

Source: k8s.io/kubernetes pkg/controller/deployment/rolling.go and recreate.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The counts of one ReplicaSet."""

    name: str
    wanted: int  # spec.replicas
    present: int = 0  # status.replicas
    available: int = 0  # status.availableReplicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The bounds of a rolling update around the desired number of replicas."""

    surge: int
    unavailable: int

    @classmethod
    def of(cls, strategy: Mapping[str, int | str], replicas: int) -> Self:
        """Resolve percentages: the surge is rounded up, the unavailable pods are rounded down.

        If both are zero, one pod may be unavailable; otherwise no rollout could proceed.
        """
        surge = resolved(strategy.get("maxSurge", "25%"), replicas, up=True)
        unavailable = resolved(strategy.get("maxUnavailable", "25%"), replicas, up=False)
        if not surge and not unavailable:
            unavailable = 1
        return cls(surge=surge, unavailable=unavailable)


def rolling_update(
    replicas: int, new: Replicas, old: Sequence[Replicas], tolerance: Tolerance
) -> dict[str, int]:
    """Return the new sizes of ReplicaSets; ``old`` is ordered from oldest to youngest.

    The new one grows first, within the surge. If it can't, the old ones shrink: first by pods that
    are not available, then while enough pods stay available.
    """
    grown = _grown(replicas, new, old, tolerance)
    if grown != new.wanted:
        return {new.name: grown}
    least = replicas - tolerance.unavailable
    wanted = {one.name: one.wanted for one in old}
    room = new.wanted + sum(wanted.values()) - least - max(new.wanted - new.available, 0)
    for one in old:
        unhealthy = min(max(room, 0), max(one.wanted - one.available, 0))
        wanted[one.name] -= unhealthy
        room -= unhealthy
    available = new.available + sum(min(one.available, wanted[one.name]) for one in old)
    spare = min(available - least, room)
    for one in old:
        fewer = min(max(spare, 0), wanted[one.name])
        wanted[one.name] -= fewer
        spare -= fewer
    return {one.name: wanted[one.name] for one in old if wanted[one.name] != one.wanted}


def recreate(replicas: int, new: Replicas | None, old: Sequence[Replicas]) -> dict[str, int]:
    """Scale all old ReplicaSets to zero, and the new one up after their pods are gone."""
    shrink = {one.name: 0 for one in old if one.wanted}
    if shrink:
        return shrink
    if new is None or any(one.present for one in old) or new.wanted == replicas:
        return {}
    return {new.name: replicas}


def first_replicas(replicas: int, old: Sequence[Replicas], tolerance: Tolerance | None) -> int:
    """Return the size of a new ReplicaSet; no tolerance means Recreate."""
    if tolerance is None:
        return 0 if any(one.wanted or one.present for one in old) else replicas
    new = Replicas(name="", wanted=0)
    return _grown(replicas, new, old, tolerance)


def _grown(replicas: int, new: Replicas, old: Sequence[Replicas], tolerance: Tolerance) -> int:
    if new.wanted >= replicas:
        return replicas
    room = replicas + tolerance.surge - new.wanted - sum(one.wanted for one in old)
    return new.wanted + min(max(room, 0), replicas - new.wanted)


def resolved(value: int | str, total: int, *, up: bool) -> int:
    """Return an absolute number, or a percentage of ``total``, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        share = total * int(value[:-1]) / 100
        return ceil(share) if up else floor(share)
    return int(value)
