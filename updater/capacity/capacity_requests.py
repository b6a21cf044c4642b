"""What passes ask of a provider of capacity, and what has become of it."""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from common.api.core import PodSpec
from common.scheduling.eligibility import ANYWHERE, SchedulingRules
from common.scheduling.room import Room
from common.target.owners import Controller


class CapacityMode(enum.StrEnum):
    """The values of ``--capacity-check``: what happens if a replacement would have no room."""

    AUTO = "auto"  # one of the others, by what the cluster serves
    PROVISION = "provision"  # room is requested, and the eviction follows
    WAIT = "wait"
    OFF = "off"  # the pod is evicted

    @property
    def may_request(self) -> bool:
        """Return whether capacity is requested where the cluster serves an API for that."""
        return self in (CapacityMode.AUTO, CapacityMode.PROVISION)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityDemand:
    """The replacements of one workload that have no room."""

    workload: Controller
    vpa: str  # UID
    vpa_name: str  # in the namespace of the workload
    spec: PodSpec  # of a replacement, with its new resources
    rules: SchedulingRules = ANYWHERE  # of the pods, with what admission added to their template
    need: Room  # of one replacement
    count: int  # replacements that would be evicted now if there was room
    pod: str = ""  # the name of one that they replace; the volumes of a StatefulSet depend on it


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDemands:
    """What a pass asks of the provider of capacity."""

    demands: Sequence[CapacityDemand] = ()
    # Workloads of which the pass evicted pods for whose replacements there was room.
    evicted: Collection[Controller] = ()
    # Workloads of which an eviction, or its dry run, was refused although there was room.
    refused: Collection[Controller] = ()
    complete: bool = True  # the pass reached all VPAs, and knew nodes and APIs


class RequestStage(enum.StrEnum):
    """What has become of a request for capacity."""

    REQUESTED = "requested"
    REFUSED = "refused"  # by its controller, or by the API server
    TIMED_OUT = "timed_out"
    UNAVAILABLE = "unavailable"  # none can be made for this workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequest:
    """The request for one workload."""

    stage: RequestStage
    until: datetime  # it times out then, or is tried again
    name: str = ""  # of the object that requests it
    message: str = ""  # of the refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequests:
    """The requests for all workloads, as an input of the next pass.

    ``unavailable`` is the cause, as a sentence, if none can be made for now: no API is served, or
    the updater lacks the rights. Then passes go on as in a cluster without these APIs, and call
    ``reconcile`` without demands. Workloads whose stage is UNAVAILABLE are handled so alone.
    ``postponed`` has the cause for workloads with demand without a request.
    """

    by_workload: Mapping[Controller, CapacityRequest] = field(default_factory=dict)
    postponed: Mapping[Controller, str] = field(default_factory=dict)
    unavailable: str = ""

    def are_unavailable_for(self, workload: Controller) -> bool:
        """Return whether no request can be made for this workload."""
        request = self.by_workload.get(workload)
        return request is not None and request.stage is RequestStage.UNAVAILABLE


NO_REQUESTS = CapacityRequests()


class CapacityProvisioner(Protocol):
    """Requests capacity from an autoscaler."""

    async def reconcile(self, wanted: PassDemands, *, now: datetime) -> CapacityRequests:
        """Create, replace and delete requests so that they match the demands of the last pass."""
