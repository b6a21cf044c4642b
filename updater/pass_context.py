"""What the passes over all VPAs share, and what one pass keeps of a pod that is to be evicted."""

from dataclasses import dataclass
from datetime import datetime

from common.api.core import Pod
from updater.candidate import Candidate
from updater.daemons import Daemons
from updater.decision import Decision, Reason
from updater.dry_run import DryRuns
from updater.eviction_tracking import EvictionTrackers
from updater.ledger import Ledger
from updater.live_node import NodeCapacities
from updater.metrics import UpdaterMetrics
from updater.preflight import QuotaUse
from updater.resize_plan import ResizePlan
from updater.sending import Sender
from updater.work import Hands, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a pass decides by and acts with, the same for every VPA."""

    rules: Rules
    daemons: Daemons
    ledger: Ledger
    sender: Sender
    hands: Hands
    metrics: UpdaterMetrics
    trackers: EvictionTrackers | None  # None: replacements aren't checked
    quota_use: QuotaUse
    dry_runs: DryRuns | None  # None: replacements are not tried in a dry run
    admission_ready: bool
    nodes: NodeCapacities
    now: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """A candidate that is to be evicted, and what of that doesn't change during a pass."""

    candidate: Candidate
    why: Reason
    unfinished: Decision | None
    requirements_met: bool
    unlearnt: Decision | None  # the wait for an OOM kill to be learnt
    plan: ResizePlan | None = None  # where a resize came first

    @property
    def pod(self) -> Pod:
        return self.candidate.pod
