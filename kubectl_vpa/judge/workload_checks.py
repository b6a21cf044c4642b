"""Checks of VPAs, the workloads that they target, and the limits of their namespaces."""

from collections import Counter
from collections.abc import Iterator, Sequence

from common.api.autoscaling import VerticalPodAutoscaler
from common.quantity import Quantity, QuantityError
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.processing import parse_recommendation
from common.resources import CPU, MEMORY, RESOURCES, in_order
from kubectl_vpa.judge.findings import Facts, error, ok, skipped, warning
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.doctor import Finding
from kubectl_vpa.results.status import StatusReason, VpaResult

_SHOWN = 20  # findings of a check about single objects


def conflicts(facts: Facts) -> Iterator[Finding]:
    """Check that no two VPAs have the same target."""
    found = [each for each in facts.vpas if each.controlled_by]
    for each in found[:_SHOWN]:
        yield warning(
            "conflicts",
            _name(each.vpa),
            f"VPA {each.controlled_by} has the same target and controls its pods",
            f"delete one of them, or set the mode of {each.controlled_by} to Off",
        )
    yield from _rest("conflicts", len(found), "each target has one VPA that changes its pods")


def horizontal(facts: Facts) -> Iterator[Finding]:
    """Check that no HPA scales on the utilization of a resource that a VPA changes."""
    if not facts.hpas_seen:
        yield skipped("hpa", "HorizontalPodAutoscalers could not be read")
        return
    results = _with_reason(facts, StatusReason.AUTOSCALED_HORIZONTALLY)
    for each in results[:_SHOWN]:
        yield warning(
            "hpa",
            f"{each.namespace}/{each.name}",
            each.message,
            "let the HPA scale on another metric, or exclude the resource by controlledResources",
        )
    yield from _rest("hpa", len(results), "no HPA scales on what a VPA changes")


def targets(facts: Facts) -> Iterator[Finding]:
    """Check that targets exist, are supported and have pods."""
    unsupported = _with_reason(facts, StatusReason.UNSUPPORTED_TARGET)
    for each in unsupported[:_SHOWN]:
        yield error(
            "targets",
            f"{each.namespace}/{each.name}",
            each.message,
            "change targetRef to the topmost workload, or delete the VPA",
        )
    without = _with_reason(facts, StatusReason.NO_PODS)
    for each in without[:_SHOWN]:
        yield warning(
            "targets",
            f"{each.namespace}/{each.name}",
            f"{each.workload_kind} {each.workload_name} has no pods",
            "check targetRef, and the replicas of the workload",
        )
    ignored = _with_reason(facts, StatusReason.NOT_PROCESSED)
    for each in ignored[:_SHOWN]:
        yield error(
            "targets",
            f"{each.namespace}/{each.name}",
            "no recommender processes it",
            "see the log of vpa-recommender, and spec.recommenders of the VPA",
        )
    yield from _rest(
        "targets",
        len(unsupported) + len(without) + len(ignored),
        f"the targets of {len(facts.vpas)} VPAs exist and have pods",
    )


def bare_pods(facts: Facts) -> Iterator[Finding]:
    """Check that pods in namespaces with VPAs have a controller."""
    if facts.bare_pods is None:
        yield skipped("bare-pods", "the pods could not be read")
        return
    with_vpas = {each.vpa.metadata.namespace for each in facts.vpas}
    counts = Counter(namespace for namespace, _ in facts.bare_pods if namespace in with_vpas)
    for namespace, count in sorted(counts.items()):
        names = [name for each, name in facts.bare_pods if each == namespace]
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        yield warning(
            "bare-pods",
            namespace,
            f"{count} without a controller, which no VPA can change: {shown}",
            "create pods by a Deployment or another workload",
        )
    yield from _rest("bare-pods", len(counts), "all pods beside VPAs have a controller")


def limit_ranges(facts: Facts) -> Iterator[Finding]:
    """Check that recommendations are within the LimitRanges of their namespaces."""
    found = 0
    for each in facts.vpas:
        if each.controlled_by or not each.limit_ranges:
            continue
        try:
            problems = list(_limit_problems(each))
        except QuantityError:
            continue  # another check names it
        for message in problems:
            found += 1
            yield warning(
                "limit-ranges",
                _name(each.vpa),
                message,
                "change the LimitRange, or set minAllowed or maxAllowed to it",
            )
    yield from _rest("limit-ranges", found, "LimitRanges leave the recommendations unchanged")


def _limit_problems(facts: VpaFacts) -> Iterator[str]:
    limits = effective_limits(facts.limit_ranges, LimitType.CONTAINER)
    recommendation = facts.vpa.status.recommendation
    if limits is None or recommendation is None:
        return
    for container in parse_recommendation(recommendation, targets_only=True):
        for name in in_order(container.target):
            target, most, least = container.target[name], limits.max.get(name), limits.min.get(name)
            if most is not None and target > most:
                yield f"{container.name}: {name} target {target} is above the maximum {most}"
            if least is not None and target < least:
                yield f"{container.name}: {name} target {target} is below the minimum {least}"


def quotas(facts: Facts) -> Iterator[Finding]:
    """Check that quotas have room for what recommendations add."""
    if facts.quotas is None:
        yield skipped("quotas", "you may not list ResourceQuotas")
        return
    wanted = _increases(facts.results)
    found = 0
    for quota in facts.quotas:
        if quota.spec.scopes or quota.spec.scope_selector:
            continue  # which pods count isn't known without looking at each
        for resource in RESOURCES:
            more = wanted.get((quota.metadata.namespace, resource))
            left = _left(quota.status.hard, quota.status.used, resource)
            if more is not None and left is not None and more > left:
                found += 1
                yield warning(
                    "quotas",
                    f"{quota.metadata.namespace}/{quota.metadata.name}",
                    f"recommendations add {more} of {resource} requests, and {left} is left",
                    "raise the quota, or lower maxAllowed of the VPAs",
                )
    yield from _rest("quotas", found, "quotas have room for the recommendations")


def _increases(results: Sequence[VpaResult]) -> dict[tuple[str, str], Quantity]:
    """Return by how much requests would grow, by namespace and resource."""
    found: dict[tuple[str, str], Quantity] = {}
    for result in results:
        for resource, status in ((CPU, result.cpu), (MEMORY, result.memory)):
            if status.target is None or not result.pods_due:
                continue
            before = Quantity.parse(status.request or "0")
            more = Quantity.parse(status.target) - before
            if more.sign <= 0:
                continue
            key = (result.namespace, resource)
            for _ in range(result.pods_due):
                found[key] = more if key not in found else found[key] + more
    return found


def _left(hard: object, used: object, resource: str) -> Quantity | None:
    """Return what a quota has left of a resource's requests; None if it has no limit."""
    if not isinstance(hard, dict) or not isinstance(used, dict):
        return None
    for name in (f"requests.{resource}", resource):
        if name in hard:
            try:
                return Quantity.from_json(hard[name]) - Quantity.from_json(used.get(name, "0"))
            except QuantityError:
                return None
    return None


def checkpoints(facts: Facts) -> Iterator[Finding]:
    """Check that checkpoints have a VPA."""
    if facts.checkpoints is None:
        yield skipped("checkpoints", "they could not be listed")
        return
    there = {(each.vpa.metadata.namespace, each.vpa.metadata.name) for each in facts.vpas}
    orphans = [each for each in facts.checkpoints if (each[0], each[2]) not in there]
    for namespace, name, vpa in orphans[:_SHOWN]:
        yield warning(
            "checkpoints",
            f"{namespace}/{name}",
            f"its VPA {vpa or '(none)'} doesn't exist",
            f"wait ten minutes for the recommender, or kubectl -n {namespace} delete "
            f"vpacheckpoint {name}",
        )
    yield from _rest("checkpoints", len(orphans), "no checkpoint is without a VPA")


def _with_reason(facts: Facts, reason: StatusReason) -> list[VpaResult]:
    return [each for each in facts.results if each.reason is reason]


def _rest(check: str, count: int, good: str) -> Iterator[Finding]:
    """Yield that all is well, or how many findings are not listed."""
    if not count:
        yield ok(check, good)
    elif count > _SHOWN:
        yield warning(check, "", f"{count - _SHOWN} more like these", "")


def _name(vpa: VerticalPodAutoscaler) -> str:
    return f"{vpa.metadata.namespace}/{vpa.metadata.name}"


CHECKS = (
    conflicts,
    horizontal,
    targets,
    bare_pods,
    limit_ranges,
    quotas,
    checkpoints,
)
