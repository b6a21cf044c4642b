"""How many pods a DaemonSet is taken to want: the reference's number shrinks with what is down."""

from dataclasses import dataclass
from datetime import datetime, timedelta

SETTLED = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ObservedDaemons:
    """How many pods of a DaemonSet there were at most, since the updater first saw it."""

    since: datetime
    most: int = 0


def desired_daemons(
    ready: int | None, *, desired: int | None, live: int, observed: ObservedDaemons, now: datetime
) -> int:
    """Return the number of pods that a DaemonSet's budget counts from (X90); 0: none may go.

    ``ready`` is its ``status.numberReady``, the reference's number, of which alone zero remains:
    it goes down with each pod that was evicted, so that half of them would be out at a time, and
    then half of the rest. ``desired`` is on how many nodes there should be a pod. Where some of
    these have no room the group would wait for ever, so pods that never came within ten minutes
    aren't missed; those that came and went are. Two pods on a node, while the DaemonSet is rolled
    out, are two that are wanted.

    Source: updater.md 5.
    """
    if not ready:
        return 0
    if not desired:
        return ready
    settled = now - observed.since >= SETTLED
    return max(live, min(desired, observed.most) if settled else desired)
