"""The decisions that the next pass would make."""

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
from updater.plan.stages import plan_vpa
from updater.snapshot.cluster_snapshot import ClusterSnapshot, key_of


class NotNow(enum.StrEnum):
    """The reason that there is no plan, as a sentence."""

    NOT_LEADING = "another replica is the leader; send the request to it"
    NOT_SYNCED = "the cluster has not been listed yet, so nothing is decided"
    NOT_FRESH = "the caches don't follow the API server, so passes are skipped"
    PLANNING = "another plan is being made; one at a time"
    UNDER_WAY = "a pass has been going on for too long to wait for its end"
    TOO_SLOW = "the plan took too long; limit it to one namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPreview:
    """The decision on each pod that a pass would make now."""

    taken_at: datetime  # of the snapshot, and of the decisions
    admission: AdmissionStatus
    vpas: Sequence[VerticalPodAutoscaler]  # in the scope
    snapshot: ClusterSnapshot
    skipped: Mapping[tuple[str, str], str]  # why, by namespace and name of the VPA
    decisions: Mapping[str, Decision]  # by pod UID
    pod_level: PodLevelMode = PodLevelMode.KEEP


async def preview_pass(context: PassContext) -> dict[str, Decision]:
    """Return the decisions of the first plans of a pass, by pod UID.

    They assume that every call succeeds, ignore rate limits, and make no dry runs: ``context``
    has no templates.
    """
    decisions: dict[str, Decision] = {}
    for scaled in context.snapshot.autoscaled:
        with context.errors.around("plan", VPAS.kind, *key_of(scaled.vpa)):
            assessment = await in_steps(assess(scaled, context))
            progress = VpaProgress.begin(assessment)
            plan = await in_steps(plan_vpa(assessment, progress, context))
            outcomes = (*assessment.decided, *(each.outcome for each in plan.pods))
            decisions.update((each.pod.metadata.uid, each.decision) for each in outcomes)
    return decisions
