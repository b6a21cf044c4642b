"""The number of pods that a DaemonSet is assumed to want."""

from dataclasses import dataclass
from datetime import datetime, timedelta

SETTLED = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ObservedDaemons:
    """The largest number of pods of a DaemonSet since the updater first observed it."""

    since: datetime
    most: int = 0


def desired_daemons(
    ready: int | None, *, desired: int | None, live: int, observed: ObservedDaemons, now: datetime
) -> int:
    """Return the configured replicas of a DaemonSet's budget (X90); 0: no pod may be updated.

    The reference uses ``ready``, the ``status.numberReady``. It shrinks with each evicted pod, so
    the reference takes down half of the pods, then half of the rest. Here only a zero counts.
    ``desired`` is the number of nodes that should run a pod. Ten minutes after the first
    observation, pods that were never observed no longer count, because some nodes may have no
    room. During a rollout two pods on a node count as two.

    Source: updater.md 5.
    """
    if not ready:
        return 0
    if not desired:
        return ready
    settled = now - observed.since >= SETTLED
    return max(live, min(desired, observed.most) if settled else desired)
