"""Plans the decisions and actions for a VPA's pods."""

from updater.decision import Reason
from updater.pass_context import PassContext
from updater.plan.assessment import Assessment, Steps, Undecided
from updater.plan.boosts import plan_boosts
from updater.plan.evictions import plan_evictions
from updater.plan.progress import VpaProgress
from updater.plan.resizes import Due, plan_resizes
from updater.plan.vpa_plan import VpaPlan
from updater.resize.pending_resize import PENDING
from updater.resize.resize_status import resize_status
from updater.snapshot.cluster_snapshot import IN_PLACE


def plan_vpa(assessment: Assessment, progress: VpaProgress, context: PassContext) -> Steps[VpaPlan]:
    """Plan for all undecided pods of a VPA, as if each action succeeded.

    Ended boosts come first, then resizes, then evictions, the latter two in the order of updates.
    Each action uses budgets that the following ones lack. Pods that wait for a budget are decided
    again only after an action failed.

    Source: updater.md 2.
    """
    vpa_plan = VpaPlan(assessment, progress, context)
    boosted = [each for each in progress.undecided if each.candidate is None]
    candidates = [each for each in progress.undecided if each.candidate is not None]
    if assessment.scaled.mode in IN_PLACE and any(_may_need_step(each) for each in candidates):
        yield from context.resize_rooms.index()
    yield from plan_boosts(vpa_plan, boosted)
    dues = [Due(each) for each in candidates if each.evict_for is not None]
    if assessment.scaled.mode in IN_PLACE:
        resizes = [each for each in candidates if each.evict_for is None]
        dues += yield from plan_resizes(vpa_plan, resizes)
        order = [each.pod.metadata.uid for each in progress.undecided]
        rank = {uid: number for number, uid in enumerate(order)}
        dues.sort(key=lambda due: rank[due.undecided.pod.metadata.uid])
    yield from plan_evictions(vpa_plan, dues)
    return vpa_plan


def _may_need_step(each: Undecided) -> bool:
    """Return whether the room of the pod's node may decide on its resize.

    It may if the kubelet or the API server didn't find room for one.
    """
    refusal = each.memory.refusal
    return (
        resize_status(each.pod) in PENDING
        or each.memory.infeasible is not None
        or (refusal is not None and refusal.reason is Reason.RESIZE_INFEASIBLE)
    )
