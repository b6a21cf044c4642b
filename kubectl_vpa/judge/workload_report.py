"""The requests of one workload, now and recommended, and their difference in all its pods."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import NO_RESOURCES, LimitRangeSpec, Pod, is_sidecar
from common.quantity import Format, Quantity, QuantityError
from common.recommendation.actual_resources import actual_requests
from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities, parse_quantities
from common.target.controlling import mode_of
from common.target.owners import TargetKey
from kubectl_vpa.judge.pod_groups import BARE, PodGroup
from kubectl_vpa.results.report import (
    Change,
    ContainerReport,
    Source,
    WorkloadReport,
    WorkloadResource,
)
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import measure_pod

_Nanos: TypeAlias = Mapping[str, int]  # by container
_OfResources: TypeAlias = Mapping[str, _Nanos]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """What was read about one workload.

    ``recommending`` is the VPA with the recommendation: that of the workload, or one with the
    default policy. It is None if nothing is recommended.
    """

    context: str
    key: TargetKey
    groups: Sequence[PodGroup]
    vpa: VerticalPodAutoscaler | None = None  # that controls the workload
    recommending: VerticalPodAutoscaler | None = None
    source: Source = Source.NONE
    message: str = ""  # why nothing is recommended
    limit_ranges: Sequence[LimitRangeSpec] = ()  # of the namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodNumbers:
    """The amounts of one pod in nano-units, by resource and container."""

    names: Sequence[str] = ()  # of the containers
    requests: _OfResources
    targets: _OfResources
    problem: str = ""
    missing: Sequence[str] = ()  # containers without a recommendation


def report_workload(facts: WorkloadFacts) -> WorkloadReport:
    """Compare the requests of all pods with the recommendation fitted to each kind of them.

    Containers count, and native sidecars; other init containers don't. A pod-level request takes
    the place of those of the containers, and stays. The numbers of one pod are those of the most
    frequent pods.
    """
    counted = [(group.count, _numbers(group.pod, facts)) for group in facts.groups]
    usual = max(counted, key=lambda each: each[0])[1] if counted else None
    namespace, kind, name = facts.key
    cpu, memory = (_resource(resource, usual, counted) for resource in RESOURCES)
    known = any(numbers.targets[each] for _, numbers in counted for each in RESOURCES)
    source = facts.source if known or not counted else Source.NONE
    return WorkloadReport(
        context=facts.context,
        namespace=namespace,
        kind=kind,
        name=name,
        pods=sum(count for count, _ in counted),
        vpa=None if facts.vpa is None else facts.vpa.metadata.name,
        mode=None if facts.vpa is None else mode_of(facts.vpa),
        source=source,
        message=_message(facts, [numbers for _, numbers in counted]),
        cpu=cpu,
        memory=memory,
        cost=None,
        containers=() if usual is None else tuple(_containers(usual)),
    )


def row_key(key: TargetKey, group: PodGroup) -> TargetKey:
    """Return the key of the row in which pods are listed; ``key`` is that of the topmost owner.

    A static pod belongs to its node, but is a workload of its own.
    """
    return (key[0], BARE, group.pod.metadata.name) if key[1] == "Node" else key


def is_bare(key: TargetKey) -> bool:
    """Return True for a row that is a pod without a controller, or a static pod."""
    return key[1] == BARE


def why_not_recommended(
    key: TargetKey, vpa: VerticalPodAutoscaler | None, sources: Collection[Source]
) -> str:
    """Return why a workload has no recommendation, after reading ``sources``."""
    if is_bare(key):
        return "no controller, so no VPA can control it"
    if Source.PROMETHEUS in sources:
        return "no usage in Prometheus"
    if vpa is None:
        return "no VPA"
    if Source.VPA in sources:
        return f"VPA {vpa.metadata.name} recommends nothing yet"
    return f"VPA {vpa.metadata.name} has no checkpoints with usage"


def _numbers(pod: Pod, facts: WorkloadFacts) -> _PodNumbers:
    try:
        requests: dict[str, ResourceQuantities] = {
            **{each.name: actual_requests(pod, each.name) for each in pod.spec.containers},
            **{
                each.name: parse_quantities((each.resources or NO_RESOURCES).requests)
                for each in pod.spec.init_containers or ()
                if is_sidecar(each)
            },
        }
        of_pod = parse_quantities((pod.spec.resources or NO_RESOURCES).requests)
    except QuantityError:
        nothing: _OfResources = {resource: {} for resource in RESOURCES}
        text = "a quantity of the pods can't be read"
        return _PodNumbers(requests=nothing, targets=nothing, problem=text)
    targets: Mapping[str, ResourceQuantities] = {}
    problem = ""
    if facts.recommending is not None:
        measured = measure_pod(pod, facts.recommending, facts.limit_ranges)
        if isinstance(measured, Decision):
            problem = _PROBLEMS.get(measured.reason, str(measured.reason))
        else:
            targets = {name: each.target for name, each in measured.processed.containers.items()}
    missing = [each.name for each in pod.spec.containers if not targets.get(each.name)]
    return _PodNumbers(
        names=tuple(requests),
        requests={each: _of(each, requests, of_pod) for each in RESOURCES},
        targets={each: {} if each in of_pod else _of(each, targets, {}) for each in RESOURCES},
        problem=problem,
        missing=missing if targets else (),
    )


_PROBLEMS = {
    Reason.UNREADABLE: "a quantity of the pods or the VPA can't be read",
    Reason.NO_RECOMMENDATION: "nothing is recommended",
    Reason.POD_LEVEL_RESOURCES_EXHAUSTED: "spec.resources of the pods leave no room",
}


def _of(
    resource: str, containers: Mapping[str, ResourceQuantities], of_pod: ResourceQuantities
) -> _Nanos:
    """Return the amounts of a resource; that of the pod as a whole has no container."""
    if resource in of_pod:
        return {"": of_pod[resource].nanos}
    return {name: each[resource].nanos for name, each in containers.items() if resource in each}


def _resource(
    resource: str, usual: _PodNumbers | None, counted: Sequence[tuple[int, _PodNumbers]]
) -> WorkloadResource:
    def text(nanos: int) -> str:
        return quantity_text(resource, nanos)

    total = recommended = given_back = lacking = 0
    for count, numbers in counted:
        requests, targets = numbers.requests[resource], numbers.targets[resource]
        changes = [amount - requests.get(name, 0) for name, amount in targets.items()]
        request = sum(requests.values())
        total += count * request
        recommended += count * (request + sum(changes))
        given_back -= count * sum(each for each in changes if each < 0)
        lacking += count * sum(each for each in changes if each > 0)
    requests = {} if usual is None else usual.requests[resource]
    targets = {} if usual is None else usual.targets[resource]
    return WorkloadResource(
        request=text(sum(requests.values())) if requests else None,
        recommended=text(sum({**requests, **targets}.values())) if targets else None,
        total_request=text(total),
        total_recommended=text(recommended),
        given_back=text(given_back),
        lacking=text(lacking),
    )


def quantity_text(resource: str, nanos: int) -> str:
    """Return an amount in nano-units as the quantity of a resource."""
    return str(Quantity(nanos, Format.DECIMAL_SI if resource == CPU else Format.BINARY_SI))


def _containers(numbers: _PodNumbers) -> Sequence[ContainerReport]:
    def change(resource: str, name: str) -> Change:
        request = numbers.requests[resource].get(name)
        target = numbers.targets[resource].get(name)
        return Change(
            request=None if request is None else quantity_text(resource, request),
            recommended=None if target is None else quantity_text(resource, target),
        )

    return [
        ContainerReport(container=name, cpu=change(CPU, name), memory=change(MEMORY, name))
        for name in numbers.names
    ]


def _message(facts: WorkloadFacts, numbers: Sequence[_PodNumbers]) -> str:
    if not facts.groups:
        return "no pods"
    if facts.recommending is None:
        return facts.message
    if problem := next((each.problem for each in numbers if each.problem), ""):
        return problem
    missing = dict.fromkeys(name for each in numbers for name in each.missing)
    if missing:
        return f"nothing is recommended for {', '.join(missing)}"
    known = any(each.targets[resource] for each in numbers for resource in RESOURCES)
    return "" if known else "nothing is recommended"
