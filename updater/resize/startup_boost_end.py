"""The end of CPU start-up boosts (gate CPUStartupBoost)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from common.annotations import boosted_containers, parse_startup_boost, startup_boost_key
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.actual_resources import containers_of
from common.recommendation.container_resources import WantedResources
from common.recommendation.policy import container_policy
from common.recommendation.scaled_containers import scaled_specs
from common.resources import CPU, ResourceQuantities
from updater.decision import Decision, Reason, ending, resize, wait
from updater.eviction.disruption_budget import ReplicaGroup, group_closed
from updater.resize.resize_status import ResizeStatus, resize_status

_NOTHING = WantedResources()
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def boost_duration(vpa: VerticalPodAutoscaler, container: str) -> timedelta:
    """Return how long after Ready a container keeps its boost, by its own policy or the VPA.

    Source: updater.md 11.
    """
    policy = container_policy(vpa, container)
    for boost in (None if policy is None else policy.startup_boost, vpa.spec.startup_boost):
        if boost is not None and boost.cpu is not None and boost.cpu.duration_seconds is not None:
            return timedelta(seconds=boost.cpu.duration_seconds)
    return timedelta()


def expired_boosts(
    pod: Pod, *, duration_of: Callable[[str], timedelta], now: datetime
) -> tuple[str, ...]:
    """Return the containers whose boost has ended, while the pod is Ready.

    The duration counts from the last time that the pod became Ready. A duration of zero ends as
    soon as the pod is Ready.
    """
    return tuple(name for name, end in _ends(pod, duration_of).items() if end and now > end)


def first_expiry(pod: Pod, *, duration_of: Callable[[str], timedelta]) -> datetime | None:
    """Return the end of the pod's first boost if the pod stays Ready; None: unknown."""
    return min((end for end in _ends(pod, duration_of).values() if end), default=None)


def _ends(pod: Pod, duration_of: Callable[[str], timedelta]) -> dict[str, datetime | None]:
    """Return the end of each boost; empty while the pod is not Ready."""
    ready = next(
        (condition for condition in pod.status.conditions or () if condition.type == "Ready"), None
    )
    if ready is None or ready.status != "True":
        return {}
    return {
        name: _end(ready.last_transition_time, duration_of(name))
        for name in boosted_containers(pod.metadata.annotations)
    }


def _end(since: datetime | None, duration: timedelta) -> datetime | None:
    return ending(since, duration) if duration else _LONG_AGO


def decide_unboost(
    pod: Pod,
    *,
    group: ReplicaGroup | None,
    expired: Collection[str],
    until: datetime | None = None,
) -> Decision:
    """Decide whether the ``expired`` boosts are removed now.

    Removal is a resize that always needs the disruption budget, and never leads to an eviction.
    ``until`` is the end of the first boost.

    Source: updater.md 11; ``CanUnboost``.
    """
    if pod.status.phase == "Pending":
        return wait(Reason.STARTUP_BOOSTED)
    if not expired:
        return wait(Reason.STARTUP_BOOSTED, until=until)
    closed = group_closed(group)
    if closed is not None or group is None:
        return wait(closed or Reason.NO_CONTROLLER)
    if resize_status(pod) is not ResizeStatus.NONE:
        return wait(Reason.RESIZE_IN_PROGRESS)
    if not group.allows(pod):
        return wait(Reason.BUDGET_EXHAUSTED)
    return resize(Reason.STARTUP_BOOST_OVER)


def with_earlier_cpu(
    bare: Pod, recommended: Sequence[WantedResources], *, expired: Collection[str]
) -> tuple[WantedResources, ...]:
    """Restore the CPU from before the boost if the recommendation has no CPU (D33).

    ``bare`` is the pod before its boosts. ``unboosted`` restores containers without any
    recommendation. A request that a boost added stays, because a resize can't remove it.

    Raises:
        QuantityError: a request or a limit is no quantity.
    """
    return tuple(
        replace(
            want,
            requests={**_cpu(container.requests), **want.requests},
            limits={**_cpu(container.limits), **want.limits},
        )
        if container.name in expired and want.requests and CPU not in want.requests
        else want
        for container, want in zip(containers_of(bare), recommended, strict=True)
    )


def _cpu(amounts: ResourceQuantities) -> ResourceQuantities:
    return {CPU: amounts[CPU]} if CPU in amounts else {}


def unboosted(
    pod: Pod, recommended: Sequence[WantedResources], *, expired: Collection[str]
) -> tuple[WantedResources, ...] | None:
    """Return the resources without the ``expired`` boosts; None: an annotation is unreadable.

    ``recommended`` are the resources of each scaled container without a boost; none in mode Off.
    An expired container gets these, even above the boost, or its original resources if nothing
    is recommended. A container with a running boost doesn't change.

    Source: updater.md 11.
    """
    annotations = pod.metadata.annotations or {}
    boosted = boosted_containers(annotations)
    wanted: list[WantedResources] = []
    for container, want in zip(scaled_specs(pod), recommended, strict=True):
        name = container.name
        if name in boosted and name not in expired:
            wanted.append(_NOTHING)
        elif name in expired and not (want.requests or want.limits):
            original = parse_startup_boost(annotations[startup_boost_key(name)])
            if original is None:
                return None
            wanted.append(WantedResources(requests=original.requests, limits=original.limits))
        else:
            wanted.append(want)
    return tuple(wanted)
