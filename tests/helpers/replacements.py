"""Evictions of a ReplicaSet's pods, and right or wrong replacements."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from builders import container, pod, recommendation, vpa
from common.annotations import OBSERVED_CONTAINERS
from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler, VpaCondition
from common.api.core import Pod
from common.target.owners import Controller
from live_specs import schedulable
from updater.eviction.breaker import Breaker, Closed, Eviction, after_eviction, breaker_wait
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.live_vpa import LiveVpa, LiveVpaMeta
from updater.snapshot.workload_size import GroupSize

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WEB = Controller("default", "ReplicaSet", "web", "apps/v1")
API = Controller("default", "ReplicaSet", "api", "apps/v1")
VPA = vpa(recommendations=(recommendation(),))
CLOSED = Breaker()
TWO_MISSES = Breaker(state=Closed(2))

RIGHT, WRONG = {"cpu": "250m", "memory": "256Mi"}, {"cpu": "100m", "memory": "100Mi"}


def born(name: str, *, right: bool, at: datetime = NOW, controller: Controller = WEB) -> LivePod:
    """Return a new pod, with the webhook's patch if it is ``right``."""
    annotations = {OBSERVED_CONTAINERS: "app"} if right else {}
    plain = pod(
        name,
        annotations=annotations,
        containers=(container(requests=RIGHT if right else WRONG),),
        owner=(controller.kind, controller.name),
    )
    meta = msgspec.structs.replace(plain.metadata, creation_timestamp=at)
    metadata = LivePodMeta(**msgspec.structs.asdict(meta))
    return LivePod(metadata=metadata, spec=schedulable(plain.spec), status=plain.status)


def right(name: str, *, at: datetime = NOW, controller: Controller = WEB) -> LivePod:
    return born(name, right=True, at=at, controller=controller)


def wrong(name: str, *, at: datetime = NOW, controller: Controller = WEB) -> LivePod:
    return born(name, right=False, at=at, controller=controller)


def view(
    *pods: LivePod,
    wanted: int | None = 3,
    existing: int = 0,
    in_force_since: datetime | None = None,
) -> AutoscaledPods:
    known = {controller.name: controller for controller in (WEB, API)}
    owners = {each.metadata.uid: (each.metadata.owner_references or ())[0] for each in pods}
    return AutoscaledPods(
        vpa=VPA if in_force_since is None else _written(VPA, in_force_since),
        mode=UpdateMode.RECREATE,
        pods=pods,
        controllers={uid: known[owner.name] for uid, owner in owners.items()},
        replicas={},
        limit_ranges=(),
        sizes={WEB: GroupSize(wanted, existing), API: GroupSize(wanted)},
    )


def _written(given: VerticalPodAutoscaler, at: datetime) -> LiveVpa:
    """Return the VPA with a policy and a recommendation since that time."""
    provided = VpaCondition(type="RecommendationProvided", status="True", last_transition_time=at)
    return LiveVpa(
        metadata=LiveVpaMeta(**msgspec.structs.asdict(given.metadata), managed_fields=at),
        spec=given.spec,
        status=msgspec.structs.replace(given.status, conditions=(provided,)),
    )


def waiting(
    breaker: Breaker,
    count: int = 1,
    *,
    since: datetime = NOW,
    known: Sequence[Pod] = (),
    among: int = 0,
) -> Breaker:
    """Return the breaker after ``count`` evictions of WEB's pods gone-0, gone-1, ..."""
    if not count:
        return breaker
    gone = [
        Eviction(workload=WEB, uid=f"gone-{number}", vpa=VPA, gone_since=since, among=among)
        for number in range(count)
    ]
    return Breaker(
        state=after_eviction(breaker.state, now=since),
        unanswered=(*breaker.unanswered, *gone),
        seen=breaker.seen.union(each.metadata.uid for each in known),
    )


def allowed(breaker: Breaker, *, now: datetime) -> int:
    """Return the number of evictions that pass now."""
    count = 0
    while breaker_wait(breaker, now=now) is None:
        breaker = waiting(breaker, since=now)
        count += 1
    return count
