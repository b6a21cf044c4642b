"""Taking back the CPU that a pod got while it started (gate CPUStartupBoost)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from common.annotations import boosted_containers, parse_startup_boost, startup_boost_key
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.actual import containers_of
from common.recommendation.container_resources import WantedResources
from common.recommendation.policy import container_policy
from common.recommendation.scaled_containers import scaled_specs
from common.resources import CPU, ResourceQuantities
from updater.decision import Decision, Reason, ending, resize, wait
from updater.eviction.disruption import GroupStanding, ReplicaGroup
from updater.resize.resize_state import ResizeStatus, resize_status

_NOTHING = WantedResources()
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def boost_duration(vpa: VerticalPodAutoscaler, container: str) -> timedelta:
    """Return how long after Ready a container keeps its boost: its own policy's word, or the VPA's.

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
    """Return the boosted containers whose time is up; it runs while the pod is Ready.

    A pod that stops being Ready and becomes Ready again starts its clock anew. A duration of
    zero is over as soon as the pod is Ready.
    """
    return tuple(name for name, end in _ends(pod, duration_of).items() if end and now > end)


def first_expiry(pod: Pod, *, duration_of: Callable[[str], timedelta]) -> datetime | None:
    """Return the end of the pod's first boost, if it stays Ready; None: unknown."""
    return min((end for end in _ends(pod, duration_of).values() if end), default=None)


def _ends(pod: Pod, duration_of: Callable[[str], timedelta]) -> dict[str, datetime | None]:
    """Return when each boost is over; nothing while the pod is not Ready."""
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
    """Return whether the boosts that have ``expired`` are taken back now.

    That is a resize within the disruption budget, which no flag skips, and never a reason
    to evict. ``until`` is when the first of them is over.

    Source: updater.md 11; ``CanUnboost``.
    """
    if pod.status.phase == "Pending":
        return wait(Reason.STARTUP_BOOSTED)
    if not expired:
        return wait(Reason.STARTUP_BOOSTED, until=until)
    if group is None:
        return wait(Reason.NO_CONTROLLER)
    if group.standing is GroupStanding.CONTROLLER_UNKNOWN:
        return wait(Reason.CONTROLLER_UNKNOWN)
    if group.standing is GroupStanding.BELOW_MIN_REPLICAS:
        return wait(Reason.BELOW_MIN_REPLICAS)
    if resize_status(pod) is not ResizeStatus.NONE:
        return wait(Reason.RESIZE_IN_PROGRESS)
    if not group.allows(pod):
        return wait(Reason.BUDGET_EXHAUSTED)
    return resize(Reason.STARTUP_BOOST_OVER)


def with_earlier_cpu(
    bare: Pod, recommended: Sequence[WantedResources], *, expired: Collection[str]
) -> tuple[WantedResources, ...]:
    """Give back the CPU from before the boost where a recommendation says nothing of CPU (D33).

    ``bare`` is the pod before its boosts. Where nothing at all is recommended everything comes
    back anyway; and a request that a boost has added stays, because no resize can remove one.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unboosted:
    """What the containers of a pod get when boosts end."""

    wanted: tuple[WantedResources, ...]  # one for each scaled container
    containers: frozenset[str]  # those that the resize is about
    annotations: tuple[str, ...]  # that go with the boosts


def unboosted(
    pod: Pod, recommended: Sequence[WantedResources], *, expired: Collection[str]
) -> Unboosted | None:
    """Return what to resize to, now that the boosts of ``expired`` are over.

    ``recommended`` is what each scaled container should have without a boost, and nothing
    in mode Off. An expired container gets that, even if it is above the boost, or what it had
    before where nothing is recommended. A container whose boost goes on is left alone. None
    if an annotation with the original resources can't be read.

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
    return Unboosted(
        wanted=tuple(wanted),
        containers=frozenset(
            container.name
            for container, want in zip(scaled_specs(pod), wanted, strict=True)
            if want.requests or want.limits
        ),
        annotations=tuple(startup_boost_key(name) for name in expired),
    )
