"""The state that the updater keeps from pass to pass."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from common.api.core import Pod
from common.quantity import Quantity
from common.recommendation.resource_changes import ResourceChange
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand
from updater.capacity.reservations import Reservations
from updater.decision import Decision, Reason
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.eviction.breaker import Breaker
from updater.eviction.daemonset_desired_count import ObservedDaemons
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.resize.infeasible_resize import Infeasible, Part, Targets, lower_somewhere
from updater.resize.memory_decrease import MemoryFloor, SentDecrease
from updater.snapshot.live_node import NodeCapacity, has_improved

_ABOUT_SIZE = frozenset({Reason.QUOTA_EXCEEDED, Reason.RESIZE_REFUSED, Reason.RESIZE_INFEASIBLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRefusal:
    """Failed resize calls in a row, and the time of the next call."""

    reason: Reason
    tries: int
    until: datetime
    targets: Targets  # requested amounts
    node: NodeCapacity | None = None  # of the pod; None: unknown


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A refused call about a pod; the same refusal again is not reported (X114)."""

    message: str  # of the log
    status: int
    reason: str
    error: str
    changes: tuple[ResourceChange, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class ResizeBlocked:
    """A blocked in-place update of a pod, and the changes that it waits for."""

    reason: Reason
    changes: tuple[ResourceChange, ...]
    detail: str = ""
    skipped: bool = False  # the pod waits for a smaller recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class SentResize:
    """The last resize that the API server accepted."""

    at: datetime
    generation: int  # of the pod in the answer; 0: unknown
    resource_version: str  # of the pod before
    restarts: bool
    withdraws: bool = False  # it only withdrew a pending resize
    ooms: frozenset[ContainerOomKill] = frozenset()  # quick ones that it answers
    pending_since: datetime | None = None  # start of the pending resize that it replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemory:
    """The state of one pod; most attributes are absent."""

    evicted: bool = False  # the eviction was accepted; the cache may not show it yet
    sent: SentResize | None = None
    infeasible: Infeasible | None = None
    refusal: ResizeRefusal | None = None
    resizing_seen_at: datetime | None = None  # first observation of the present resize
    unanswered_until: datetime | None = None  # a call without an answer may be carried out until
    resized_at: datetime | None = None  # by the last finished resize before ``sent``
    spent_ooms: frozenset[ContainerOomKill] = frozenset()  # answered by resizes before ``sent``
    # Memory at the newest OOM kills, see ``unlearnt_ooms``.
    killed_at: Mapping[ContainerOomKill, Quantity] = field(default_factory=dict)
    # The last decreases of memory limits in place, by container.
    decreases: Mapping[str, SentDecrease] = field(default_factory=dict)
    lowers_limit: bool = False  # a decrease of a memory limit in place is wanted; watch usage
    blocked: ResizeBlocked | None = None  # as last reported
    refused: CallRefused | None = None  # as last logged
    decision: Decision | None = None  # of the last pass, so that only changes are logged
    decided_at: datetime | None = field(default=None, compare=False)  # of the first such pass

    def shows(self, pod: Pod) -> bool:
        """Return whether a cached pod is newer than the last accepted call."""
        if self.evicted:
            return False
        if self.sent is None:
            return True
        if self.sent.generation:
            return pod.metadata.generation >= self.sent.generation
        return pod.metadata.resource_version != self.sent.resource_version

    def unfinished(self, held: Collection[str] = ()) -> frozenset[str]:
        """Return the containers that got a step of a resize, and whose rest has not followed.

        The next decreases of ``held`` containers' memory don't count.
        """
        rest = self.infeasible
        waiting = rest.targets if rest is not None and rest.part is Part.SENT else ()
        lowering = (
            name for name, each in self.decreases.items() if not (each.is_last or name in held)
        )
        return frozenset((*waiting, *lowering))

    def held(
        self, now: datetime, targets: Targets, node: NodeCapacity | None = None
    ) -> ResizeRefusal | None:
        """Return the refusal that still delays a resize to ``targets``, if there is one.

        A refusal by a quota, a policy or the node's capacity ends if some amount is lower now; one
        by the node's capacity also if the ``node`` has more capacity now (X101).
        """
        refusal = self.refusal
        if refusal is None or now >= refusal.until:
            return None
        if refusal.reason is Reason.RESIZE_INFEASIBLE and has_improved(refusal.node, node):
            return None
        if refusal.reason in _ABOUT_SIZE and lower_somewhere(targets, refusal.targets):
            return None
        return refusal


NO_MEMORY = PodMemory()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdleVpa:
    """A VPA whose pods need nothing; valid while its snapshot is the same object."""

    scaled: object  # an AutoscaledPods
    since: datetime
    until: datetime | None  # the end of the first decision; None: independent of time
    decisions: tuple[tuple[Decision, int], ...]  # with the number of pods

    def holds_for(self, scaled: object, *, now: datetime) -> bool:
        """Return whether the VPA is still idle; False after the clock was set back."""
        if scaled is not self.scaled or now < self.since:
            return False
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class UpdaterState:
    """The state between two passes; a pass returns the next one.

    It ends with the process. After a restart the pods' specs and deletion times, and the last
    resize in the managed fields (see ``finished_resizes``), are enough. An infeasible resize is
    sent once more.
    """

    pods: Mapping[str, PodMemory] = field(default_factory=dict)  # by UID
    breakers: Mapping[str, Breaker] = field(default_factory=dict)  # of evictions, by VPA UID
    # By namespace and name.
    idle_vpas: Mapping[tuple[str, str], IdleVpa] = field(default_factory=dict, compare=False)
    observed_daemons: Mapping[Controller, ObservedDaemons] = field(default_factory=dict)
    # Replacements that the API server refused in a dry run.
    dry_runs: Mapping[Controller, DryRunRefusal] = field(default_factory=dict)
    # Of workloads whose pods wait for capacity, by VPA UID.
    demands: Mapping[str, tuple[CapacityDemand, ...]] = field(default_factory=dict)
    # Room for replacements that are on no node yet, by the UID of the evicted pod.
    reservations: Reservations = field(default_factory=dict)
    waits_for_room: bool = False  # some pod, for room for its replacement
    refused_evictions: frozenset[Controller] = frozenset()  # workloads, in the last pass
    # After OOM kills that followed a decrease in place: by VPA UID, then by container.
    memory_floors: Mapping[str, Mapping[str, MemoryFloor]] = field(default_factory=dict)
    # Namespace and name of the pods whose memory usage is watched, by UID.
    watched: Mapping[str, tuple[str, str]] = field(default_factory=dict, compare=False)

    def of(self, uid: str) -> PodMemory:
        return self.pods.get(uid, NO_MEMORY)

    def followed_by(
        self, changed: Mapping[str, PodMemory], *, living: AbstractSet[str]
    ) -> "UpdaterState":
        """Return the state after a pass, of the live pods."""
        if not changed and self.pods.keys() <= living:
            return self
        kept = {uid: memory for uid, memory in self.pods.items() if uid in living}
        kept.update((uid, memory) for uid, memory in changed.items() if uid in living)
        return UpdaterState(kept, self.breakers)

    def about(self, vpas: Collection[str]) -> "UpdaterState":
        """Return the state without that of deleted VPAs; ``vpas`` are existing UIDs."""
        breakers = {uid: breaker for uid, breaker in self.breakers.items() if uid in vpas}
        demands = {uid: demand for uid, demand in self.demands.items() if uid in vpas}
        floors = {uid: each for uid, each in self.memory_floors.items() if uid in vpas}
        return replace(self, breakers=breakers, demands=demands, memory_floors=floors)

    @property
    def awaited(self) -> dict[str, frozenset[Controller]]:
        """Return the workloads of evicted pods without a replacement, by VPA UID."""
        return {uid: each.workloads for uid, each in self.breakers.items() if each.unanswered}
