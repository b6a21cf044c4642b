"""Other autoscalers and budgets that concern the workload of a VPA."""

from collections.abc import Iterable, Iterator, Mapping

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.base import Wire
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.api.meta import LabelSelector, ObjectMeta
from common.labels import LabelSelectorError, from_label_selector
from common.recommendation.policy import EVERY_OTHER
from common.resources import RESOURCES
from common.target.controlling import can_control_pods, precedence, target_key
from common.target.horizontal import utilized_resources
from common.target.owners import TargetKey


class BudgetSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a PodDisruptionBudget."""

    selector: LabelSelector | None = None


class BudgetStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a PodDisruptionBudget."""

    disruptions_allowed: int = 0


class PodDisruptionBudget(Wire, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def controlled_by_others(vpas: Iterable[VerticalPodAutoscaler]) -> Mapping[tuple[str, str], str]:
    """Return the VPAs that another one shadows: namespace and name, with the name of the other."""
    by_target: dict[TargetKey, list[VerticalPodAutoscaler]] = {}
    for vpa in vpas:
        key = target_key(vpa)
        if key is not None and can_control_pods(vpa):
            by_target.setdefault(key, []).append(vpa)
    found = {}
    for competing in by_target.values():
        first, *others = sorted(competing, key=precedence)
        for each in others:
            found[(each.metadata.namespace, each.metadata.name)] = first.metadata.name
    return found


def vpas_by_target(
    vpas: Iterable[VerticalPodAutoscaler],
) -> Mapping[TargetKey, VerticalPodAutoscaler]:
    """Return the VPA of each target: the one that controls its pods, else the first of mode Off."""
    found: dict[TargetKey, VerticalPodAutoscaler] = {}
    for vpa in sorted(vpas, key=lambda each: (not can_control_pods(each), precedence(each))):
        key = target_key(vpa)
        if key is not None:
            found.setdefault(key, vpa)
    return found


def shared_resource(vpa: VerticalPodAutoscaler, hpa: HorizontalPodAutoscaler) -> str:
    """Return a resource by which the HPA scales and that the VPA changes; or nothing."""
    if vpa.spec.update_policy is not None and vpa.spec.update_policy.update_mode == UpdateMode.OFF:
        return ""
    controlled = controlled_resources(vpa)
    return next((name for name in utilized_resources(hpa) if name in controlled), "")


def controlled_resources(vpa: VerticalPodAutoscaler) -> frozenset[str]:
    """Return the resources that the VPA changes in some container."""
    policy = vpa.spec.resource_policy
    entries = (policy.container_policies if policy is not None else None) or ()
    found: set[str] = set()
    if not any(entry.container_name == EVERY_OTHER for entry in entries):
        found.update(RESOURCES)  # of containers that no entry names
    for entry in entries:
        if entry.mode != "Off":
            named = entry.controlled_resources
            found.update(RESOURCES if named is None else named)
    return frozenset(found)


def exhausted_budgets(
    budgets: Iterable[PodDisruptionBudget], labels: Mapping[str, str] | None
) -> Iterator[str]:
    """Yield the names of the budgets that select these labels and allow no disruption now."""
    for budget in budgets:
        if budget.status.disruptions_allowed > 0:
            continue
        try:
            selector = from_label_selector(budget.spec.selector)
        except LabelSelectorError:
            continue
        if selector.matches(labels):
            yield budget.metadata.name
