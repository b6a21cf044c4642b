"""Usage of pods beside their requests and their recommendation."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from common.api.metrics import PodMetrics
from common.quantity import Format, Quantity, QuantityError, divide_up
from common.recommendation.actual_resources import containers_of
from common.resources import CPU, RESOURCES, ResourceQuantities, parse_quantities
from kubectl_vpa.judge.group_verdict import GroupVerdict
from kubectl_vpa.judge.vpa_fields import workload
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.top import UsageResult

UsageByPod = Mapping[tuple[str, str], Mapping[str, ResourceQuantities]]
"""Usage by namespace and name of the pod, and by container."""

_NANOS_OF_MILLI = 10**6
_NANOS_OF_BYTE = 10**9
_USAGE, _REQUEST, _TARGET, _LOWER, _UPPER = "usage", "request", "target", "lower", "upper"


@dataclass(frozen=True, slots=True)
class Detail:
    """Whether there is a result for each pod, and for each container."""

    pods: bool = False
    containers: bool = False


@dataclass(slots=True)
class _Sums:
    """Amounts in nano-units, added up over containers and pods."""

    pods: set[str] = field(default_factory=set)
    amounts: dict[str, int] = field(default_factory=dict)

    def add(self, pod: str, amounts: Mapping[str, Quantity | None]) -> None:
        """Add the amounts of a container; those that are None don't exist."""
        self.pods.add(pod)
        for name, amount in amounts.items():
            if amount is not None:
                self.amounts[name] = self.amounts.get(name, 0) + amount.nanos

    def of_one_pod(self, name: str, resource: str) -> str | None:
        """Return the mean of the pods: whole millicores or bytes, rounded up."""
        if name not in self.amounts:
            return None
        mean = divide_up(self.amounts[name], len(self.pods))
        if resource == CPU:
            return str(Quantity.from_milli(divide_up(mean, _NANOS_OF_MILLI)))
        return str(Quantity.from_value(divide_up(mean, _NANOS_OF_BYTE), Format.BINARY_SI))


def usage_by_pod(metrics: Iterable[PodMetrics]) -> UsageByPod:
    """Return what the metrics API reports; an amount that is no quantity is left out."""
    return {
        (each.metadata.namespace, each.metadata.name): {
            container.name: _amounts(container.usage) for container in each.containers or ()
        }
        for each in metrics
    }


def usage_of(
    facts: VpaFacts, verdicts: Iterable[GroupVerdict], usage: UsageByPod, *, detail: Detail
) -> Iterator[UsageResult]:
    """Yield the usage of the pods of a VPA: of all, or of each pod or container.

    Only containers with a recommendation count, so that the amounts can be compared; all do if
    none has one. Pods without usage are left out.
    """
    vpa = facts.vpa
    sums: dict[tuple[str, str, str], _Sums] = {}
    for verdict in verdicts:
        containers = _containers(verdict)
        for pod in verdict.group.names:
            measured = usage.get((vpa.metadata.namespace, pod), {})
            for container, amounts in containers.items():
                for resource in RESOURCES:
                    used = measured.get(container, {}).get(resource)
                    if used is None:
                        continue
                    key = (
                        pod if detail.pods else "",
                        container if detail.containers else "",
                        resource,
                    )
                    beside = {name: each.get(resource) for name, each in amounts.items()}
                    sums.setdefault(key, _Sums()).add(pod, {_USAGE: used, **beside})
    for (pod, container, resource), found in sums.items():
        request = found.amounts.get(_REQUEST)
        yield UsageResult(
            namespace=vpa.metadata.namespace,
            vpa=vpa.metadata.name,
            **workload(vpa),
            pod=pod or None,
            container=container or None,
            pods=len(found.pods),
            resource=resource,
            usage=found.of_one_pod(_USAGE, resource) or "0",
            request=found.of_one_pod(_REQUEST, resource),
            target=found.of_one_pod(_TARGET, resource),
            lower_bound=found.of_one_pod(_LOWER, resource),
            upper_bound=found.of_one_pod(_UPPER, resource),
            used=round(found.amounts[_USAGE] / request, 4) if request else None,
        )


def most_unequal_first(result: UsageResult) -> tuple[int, float, str, str]:
    """Return the sort key: most over the request, then without a request, then least used."""
    if result.used is None:
        rank, distance = 1, 0.0
    elif result.used > 1:
        rank, distance = 0, -result.used
    else:
        rank, distance = 2, result.used
    return (rank, distance, result.namespace, result.vpa)


def _containers(verdict: GroupVerdict) -> Mapping[str, Mapping[str, ResourceQuantities]]:
    """Return requests and recommendation of the containers that count."""
    measured = verdict.measured
    if measured is not None and measured.processed.containers:
        return {
            name: {
                _REQUEST: measured.requests.get(name, {}),
                _TARGET: amounts.target,
                _LOWER: amounts.lower_bound,
                _UPPER: amounts.upper_bound,
            }
            for name, amounts in measured.processed.containers.items()
        }
    try:
        return {each.name: {_REQUEST: each.requests} for each in containers_of(verdict.group.pod)}
    except QuantityError:
        return {each.name: {} for each in verdict.group.pod.spec.containers}


def _amounts(usage: object) -> ResourceQuantities:
    found: dict[str, Quantity] = {}
    for resource in RESOURCES:
        raw = usage.get(resource) if isinstance(usage, Mapping) else None
        try:
            found |= {} if raw is None else parse_quantities({resource: raw})
        except QuantityError:
            continue
    return found
