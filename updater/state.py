"""What the updater remembers of a pod from one cycle to the next."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from common.api.core import Pod
from common.quantity import Quantity
from common.recommendation.changes import ResourceChange
from common.target.owners import Controller
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import KnownDrifts
from updater.evaluate.update_order import ContainerOomKill
from updater.eviction.breaker import Breaker
from updater.eviction.daemonset_desired_count import ObservedDaemons
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.resize.resize_state import Infeasible, Targets, lower_somewhere
from updater.snapshot.live_node import NodeCapacity, has_improved

_ABOUT_SIZE = frozenset({Reason.QUOTA_EXCEEDED, Reason.RESIZE_REFUSED, Reason.RESIZE_INFEASIBLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRefusal:
    """Failed resize calls in a row, and the time of the next try."""

    reason: Reason
    tries: int
    until: datetime
    targets: Targets  # what was asked for
    node: NodeCapacity | None = None  # on which it was refused; None: not known


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """The last refused call about a pod; the same refusal again is no news."""

    call: str  # as it is logged
    status: int
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Block:
    """What blocks a pod's in-place update, and the change that the pod waits for."""

    reason: Reason
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentResize:
    """A resize that the API server took, until the cache shows it."""

    at: datetime
    generation: int  # of the pod in the answer; 0 where the server doesn't count
    resource_version: str  # of the pod that we decided on
    restarts: bool
    withdraws: bool = False  # it only took a pending resize back
    ooms: frozenset[ContainerOomKill] = frozenset()  # quick ones that it answers
    pending_since: datetime | None = None  # the start of the wait for one that it replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemory:
    """What happened to one pod; the attributes are independent facts, most of them absent."""

    evicted: bool = False  # the API server took the eviction; the cache may not show it yet
    sent: SentResize | None = None
    infeasible: Infeasible | None = None
    refusal: ResizeRefusal | None = None
    resizing_seen_at: datetime | None = None  # when we first saw the present resize
    unanswered_until: datetime | None = None  # a call may be carried out as late as that
    resized_at: datetime | None = None  # by the last resize before ``sent`` that was carried out
    spent_ooms: frozenset[ContainerOomKill] = frozenset()  # that resizes before ``sent`` answered
    killed_at: Mapping[ContainerOomKill, Quantity] = field(
        default_factory=dict
    )  # see unlearnt_ooms
    blocked: Block | None = None  # as was last reported
    refused: RefusedCall | None = None  # as was last logged
    decision: Decision | None = None  # of the last cycle, so that only changes are told

    def shows(self, pod: Pod) -> bool:
        """Return whether a cached pod is new enough to be judged again."""
        if self.evicted:
            return False
        if self.sent is None:
            return True
        if self.sent.generation:
            return pod.metadata.generation >= self.sent.generation
        return pod.metadata.resource_version != self.sent.resource_version

    def with_block(self, block: Block | None) -> "PodMemory":
        """Return the memory of a pod whose in-place update is blocked like that from now on."""
        return replace(self, blocked=block)

    def held(
        self, now: datetime, targets: Targets, node: NodeCapacity | None = None
    ) -> ResizeRefusal | None:
        """Return the refusal for which it is too early to ask for ``targets``, if there is one.

        Where less is wanted than what a quota, a policy or the node refused, the next call may be
        taken, and no pod has to go for what was wanted before. The same holds once the ``node``
        can hold more than when it refused (X101).
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
    """A VPA of which no pod needs anything, until its pods, the VPA, or the time is another.

    While its snapshot is the very same object, judging it again would find the same.
    """

    scaled: object  # an AutoscaledPods: pods, VPA, and all else that was judged
    since: datetime
    until: datetime | None  # from then on time may have changed it; None: it never does
    decisions: tuple[tuple[Decision, int], ...]  # with the number of pods

    def goes_on(self, scaled: object, *, now: datetime) -> bool:
        """Return whether the VPA needs nothing still; unknown after the clock was set back."""
        if scaled is not self.scaled or now < self.since:
            return False
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class UpdaterState:
    """All that outlives a cycle: a frozen value; a cycle makes the next one.

    Lost with the process. What matters is then read from the cluster: a spec that says what
    is wanted needs no call, a terminating pod is none of ours, and the time of the last
    resize is in the pod's managed fields (see ``finished_resizes``). An infeasible resize costs
    one more try.
    """

    pods: Mapping[str, PodMemory] = field(default_factory=dict)  # by UID
    breakers: Mapping[str, Breaker] = field(default_factory=dict)  # of evictions, by VPA UID
    # By namespace and name of the VPA; nothing but work is lost with them.
    drifts: Mapping[tuple[str, str], KnownDrifts] = field(default_factory=dict, compare=False)
    idle_vpas: Mapping[tuple[str, str], IdleVpa] = field(default_factory=dict, compare=False)
    observed_daemons: Mapping[Controller, ObservedDaemons] = field(
        default_factory=dict
    )  # of DaemonSets
    # Replacements that the API server refused in a dry run.
    dry_runs: Mapping[Controller, DryRunRefusal] = field(default_factory=dict)

    def of(self, uid: str) -> PodMemory:
        return self.pods.get(uid, NO_MEMORY)

    def followed_by(
        self, changed: Mapping[str, PodMemory], *, living: AbstractSet[str]
    ) -> "UpdaterState":
        """Return what is remembered after a cycle, of the pods that live."""
        if not changed and self.pods.keys() <= living:
            return self
        kept = {uid: memory for uid, memory in self.pods.items() if uid in living}
        kept.update((uid, memory) for uid, memory in changed.items() if uid in living)
        return UpdaterState(kept, self.breakers)

    def about(self, vpas: Collection[str]) -> "UpdaterState":
        """Without the breakers of VPAs that are gone; ``vpas`` are the UIDs of those there are."""
        kept = {uid: breaker for uid, breaker in self.breakers.items() if uid in vpas}
        return replace(self, breakers=kept)

    @property
    def owing(self) -> dict[str, frozenset[Controller]]:
        """Workloads of evicted pods whose replacements are still to come, by VPA UID."""
        return {uid: each.workloads for uid, each in self.breakers.items() if each.unanswered}
