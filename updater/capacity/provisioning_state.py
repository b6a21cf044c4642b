"""The bounds of requests for capacity, and their state between two plans: pauses and times."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityRequest, RequestStage


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningLimits:
    """The bounds of requests in number and time."""

    most_requests: int = 10  # objects at a time
    most_replicas: int = 10  # pods for which one object requests room
    timeout: timedelta = timedelta(minutes=10)
    placement: timedelta = timedelta(minutes=1)  # for replacements, after the last demand
    first_pause: timedelta = timedelta(minutes=15)
    longest_pause: timedelta = timedelta(hours=4)
    most_excess: float = 0.1  # relative: an object for more room than this is replaced

    @property
    def bound(self) -> str:
        """Return why no more objects are created, as a sentence."""
        return f"{self.most_requests} requests for other workloads are under way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A refused or timed out request, which isn't repeated before ``until``."""

    stage: RequestStage
    until: datetime
    length: timedelta
    message: str = ""

    def holds(self, now: datetime) -> bool:
        """Return whether the pause lasts; it ends, too, if the clock moved back before it began."""
        return timedelta() < self.until - now <= self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningState:
    """The state between two plans. After a restart it is empty, and the objects have the rest."""

    pauses: Mapping[Controller, Pause] = field(default_factory=dict)
    ended: Mapping[Controller, datetime] = field(default_factory=dict)  # demand was gone then
    # Start of the demand, or the last eviction for which there was room.
    since: Mapping[Controller, datetime] = field(default_factory=dict)


NO_STATE = ProvisioningState()


def paused(
    state: ProvisioningState,
    workload: Controller,
    stage: RequestStage,
    message: str,
    *,
    limits: ProvisioningLimits,
    now: datetime,
) -> ProvisioningState:
    """Return the state after a refusal or a time-out: the pause is twice the one before."""
    last = state.pauses.get(workload)
    length = limits.first_pause if last is None else min(2 * last.length, limits.longest_pause)
    pause = Pause(stage=stage, until=now + length, length=length, message=message)
    return replace(state, pauses={**state.pauses, workload: pause})


def request_of_pause(pause: Pause) -> CapacityRequest:
    """Return how a pause is reported."""
    return CapacityRequest(stage=pause.stage, until=pause.until, message=pause.message)
