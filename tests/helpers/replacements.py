"""Evictions of a ReplicaSet's pods, and replacements that are right or wrong."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from builders import container, pod, recommendation, vpa
from common.annotations import OBSERVED_CONTAINERS
from common.api.core import Pod
from common.target.owners import Controller
from updater.eviction.breaker import Breaker, Closed, WorkloadView, record_eviction

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WEB = Controller("default", "ReplicaSet", "web", "apps/v1")
API = Controller("default", "ReplicaSet", "api", "apps/v1")
VPA = vpa(recommendations=(recommendation(),))
CLOSED = Breaker()
TWO_MISSES = Breaker(state=Closed(2))

RIGHT, WRONG = {"cpu": "250m", "memory": "256Mi"}, {"cpu": "100m", "memory": "100Mi"}


def born(name: str, *, right: bool, at: datetime = NOW, controller: Controller = WEB) -> Pod:
    """A pod that the webhook patched, or never saw."""
    annotations = {OBSERVED_CONTAINERS: "app"} if right else {}
    plain = pod(
        name,
        annotations=annotations,
        containers=(container(requests=RIGHT if right else WRONG),),
        owner=(controller.kind, controller.name),
    )
    metadata = msgspec.structs.replace(plain.metadata, creation_timestamp=at)
    return msgspec.structs.replace(plain, metadata=metadata)


def right(name: str, *, at: datetime = NOW, controller: Controller = WEB) -> Pod:
    return born(name, right=True, at=at, controller=controller)


def wrong(name: str, *, at: datetime = NOW, controller: Controller = WEB) -> Pod:
    return born(name, right=False, at=at, controller=controller)


def view(
    *pods: Pod,
    wanted: int | None = 3,
    existing: int = 0,
    terminating: Collection[str] = (),
    in_force_since: datetime | None = None,
) -> WorkloadView:
    known = {controller.name: controller for controller in (WEB, API)}
    owners = {each.metadata.uid: (each.metadata.owner_references or ())[0] for each in pods}
    return WorkloadView(
        vpa=VPA,
        pods=pods,
        workloads={uid: known[owner.name] for uid, owner in owners.items()},
        wanted={WEB: wanted, API: wanted},
        existing={WEB: existing},
        terminating=terminating,
        in_force_since=in_force_since,
    )


def waiting(
    breaker: Breaker,
    count: int = 1,
    *,
    since: datetime = NOW,
    known: Sequence[Pod] = (),
    among: int = 0,
) -> Breaker:
    """After ``count`` evictions of WEB's pods gone-0, gone-1, ..."""
    uids = [each.metadata.uid for each in known]
    for number in range(count):
        breaker = record_eviction(
            breaker, f"gone-{number}", WEB, VPA, known=uids, now=since, among=among
        )
    return breaker
