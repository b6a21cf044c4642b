"""What is done to the pods of a VPA now: decisions and actions as values, with no effect yet."""

from collections.abc import Iterable

from updater.pass_context import PassContext
from updater.plan.actions import VpaPlan
from updater.plan.assessment import Assessment, Steps, Undecided
from updater.plan.boosts import plan_boosts
from updater.plan.draft import PlanDraft
from updater.plan.evictions import plan_evictions
from updater.plan.progress import VpaProgress
from updater.plan.resizes import Due, plan_resizes
from updater.snapshot.cluster_snapshot import IN_PLACE


def plan_vpa(assessment: Assessment, progress: VpaProgress, context: PassContext) -> Steps[VpaPlan]:
    """Plan for all pods of a VPA that are still undecided, as if each action succeeded.

    Boosts that are over come first, then resizes, then evictions, the latter two best first. Each
    takes its part of the budgets from those after it. What others have used up is decided again
    only when some action has failed, and gave its part back.

    Source: updater.md 2.
    """
    draft = PlanDraft(assessment, progress, context)
    boosts, resizes, evictions = _by_stage(progress.undecided)
    yield from plan_boosts(draft, boosts)
    dues = [Due(each, each.memory) for each in evictions]
    if assessment.scaled.mode in IN_PLACE:
        dues += yield from plan_resizes(draft, resizes)
        dues = _in_order(progress.undecided, dues)
    yield from plan_evictions(draft, dues)
    return draft.plan


def _by_stage(
    undecided: Iterable[Undecided],
) -> tuple[list[Undecided], list[Undecided], list[Undecided]]:
    boosts: list[Undecided] = []
    resizes: list[Undecided] = []
    evictions: list[Undecided] = []
    for each in undecided:
        if each.candidate is None:
            boosts.append(each)
        elif each.evict_for is None:
            resizes.append(each)
        else:
            evictions.append(each)
    return boosts, resizes, evictions


def _in_order(undecided: Iterable[Undecided], dues: Iterable[Due]) -> list[Due]:
    by_uid = {due.undecided.pod.metadata.uid: due for due in dues}
    uids = (each.pod.metadata.uid for each in undecided)
    return [by_uid[uid] for uid in uids if uid in by_uid]
