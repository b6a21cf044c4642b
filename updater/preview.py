"""What the next pass would decide, without doing it."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.endpoints import VPAS
from common.kube.lease import AdmissionStatus
from common.recommendation.pod_level import PodLevelMode
from common.runtime.pausing import in_steps
from updater.decision import Decision
from updater.pass_context import PassContext
from updater.plan.assessment import assess
from updater.plan.progress import VpaProgress
from updater.plan.vpa_plan import plan_vpa
from updater.snapshot.cluster_snapshot import ClusterSnapshot, key_of


class NotNow(enum.StrEnum):
    """Why there is no plan, in a sentence."""

    NOT_LEADING = "another replica holds the Lease and decides; ask that one"
    NOT_SYNCED = "the cluster has not been listed yet, so nothing is decided"
    NOT_FRESH = "the caches don't follow the API server, so passes are skipped"
    PLANNING = "another plan is being made; one at a time"
    UNDER_WAY = "a pass has been going on for too long to wait for its end"
    TOO_SLOW = "making the plan took too long; ask for one namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPreview:
    """One decision for each pod that a pass would look at now."""

    taken_at: datetime  # of the snapshot, and of the decisions
    admission: AdmissionStatus
    vpas: Sequence[VerticalPodAutoscaler]  # that were asked for, by namespace and name
    snapshot: ClusterSnapshot
    skipped: Mapping[tuple[str, str], str]  # why, by namespace and name of the VPA
    decisions: Mapping[str, Decision]  # by pod UID
    pod_level: PodLevelMode = PodLevelMode.KEEP


async def preview_pass(snapshot: ClusterSnapshot, context: PassContext) -> dict[str, Decision]:
    """Return how each pod would end in a pass in which every call works, by pod UID.

    These are the plans that the pass begins with. No rate limit ends them, and no replacement is
    tried in a dry run: ``context`` has no templates.
    """
    decisions: dict[str, Decision] = {}
    for scaled in snapshot.autoscaled:
        with context.errors.around("plan", VPAS.kind, *key_of(scaled.vpa)):
            assessment = await in_steps(assess(scaled, context))
            progress = VpaProgress.begin(assessment, context)
            plan = await in_steps(plan_vpa(assessment, progress, context))
            outcomes = (*assessment.decided, *(each.outcome for each in plan.pods))
            decisions.update((each.pod.metadata.uid, each.decision) for each in outcomes)
    return decisions
