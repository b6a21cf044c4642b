"""The cost of requests, the order of workloads by effect, and sums over them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from common.quantity import Quantity
from common.resources import CPU, MEMORY, RESOURCES
from kubectl_vpa.judge.workload_report import quantity_text
from kubectl_vpa.results.report import (
    Cost,
    Prices,
    ReportTotal,
    Source,
    TotalResource,
    WorkloadReport,
    WorkloadResource,
)

HOURS_OF_MONTH = 730
"""The mean length of a month, by which cloud providers calculate."""

_NANOS = 10**9
_GIBIBYTE = 2**30 * _NANOS

_Amounts: TypeAlias = Mapping[str, int]
"""Nano-units by resource."""


def in_order(workloads: Sequence[WorkloadReport], prices: Prices | None) -> list[WorkloadReport]:
    """Sort workloads by effect: what they would give back or lack, the largest first.

    With prices the effect is its cost. Without prices it is the share of all requests, the sum of
    the shares of CPU and memory.
    """
    weights = _shares_of_nanos(workloads) if prices is None else _prices_of_nanos(prices)

    def rank(workload: WorkloadReport) -> tuple[float, str, str, str, str]:
        effect = sum(
            weights[resource] * (nanos(amounts.given_back) + nanos(amounts.lacking))
            for resource, amounts in _resources(workload)
        )
        named = (workload.context, workload.namespace, workload.kind, workload.name)
        return (-effect, *named)

    return sorted(workloads, key=rank)


def with_cost(workload: WorkloadReport, prices: Prices | None) -> WorkloadReport:
    """Return the workload with the cost of its requests; without prices there is none."""
    if prices is None:
        return workload
    amounts = dict(_resources(workload))
    cost = _cost(
        {each: nanos(amounts[each].total_request) for each in RESOURCES},
        {each: nanos(amounts[each].total_recommended) for each in RESOURCES},
        prices,
    )
    return replace(workload, cost=cost)


def totals_by_namespace(
    workloads: Iterable[WorkloadReport], prices: Prices | None
) -> tuple[ReportTotal, ...]:
    """Return the sums of each namespace of each context, sorted by name."""
    found: dict[tuple[str, str], list[WorkloadReport]] = {}
    for each in workloads:
        found.setdefault((each.context, each.namespace), []).append(each)
    return tuple(
        total_of(found[key], prices, context=key[0], namespace=key[1]) for key in sorted(found)
    )


def total_of(
    workloads: Sequence[WorkloadReport],
    prices: Prices | None,
    *,
    context: str | None = None,
    namespace: str | None = None,
) -> ReportTotal:
    """Return the sums over workloads."""
    requests, recommended, given_back, lacking = (dict.fromkeys(RESOURCES, 0) for _ in range(4))
    for workload in workloads:
        for resource, amounts in _resources(workload):
            requests[resource] += nanos(amounts.total_request)
            recommended[resource] += nanos(amounts.total_recommended)
            given_back[resource] += nanos(amounts.given_back)
            lacking[resource] += nanos(amounts.lacking)
    cpu, memory = (
        TotalResource(
            request=quantity_text(each, requests[each]),
            recommended=quantity_text(each, recommended[each]),
            given_back=quantity_text(each, given_back[each]),
            lacking=quantity_text(each, lacking[each]),
        )
        for each in RESOURCES
    )
    return ReportTotal(
        context=context,
        namespace=namespace,
        workloads=len(workloads),
        pods=sum(each.pods for each in workloads),
        without_recommendation=sum(
            each.source is Source.NONE and each.pods > 0 for each in workloads
        ),
        cpu=cpu,
        memory=memory,
        cost=None if prices is None else _cost(requests, recommended, prices),
    )


def nanos(quantity: str) -> int:
    """Return the exact value of a quantity in nano-units."""
    return Quantity.parse(quantity).nanos


def _cost(requests: _Amounts, recommended: _Amounts, prices: Prices) -> Cost:
    weights = _prices_of_nanos(prices)
    now, then = (
        HOURS_OF_MONTH * sum(weights[each] * amounts[each] for each in RESOURCES)
        for amounts in (requests, recommended)
    )
    return Cost(request=_cents(now), recommended=_cents(then), change=_cents(then - now))


def _cents(amount: float) -> float:
    return round(amount, 2) + 0.0  # which makes a negative zero positive


def _prices_of_nanos(prices: Prices) -> Mapping[str, float]:
    """Return the price of a nano-unit for an hour."""
    return {CPU: (prices.cpu or 0.0) / _NANOS, MEMORY: (prices.memory or 0.0) / _GIBIBYTE}


def _shares_of_nanos(workloads: Sequence[WorkloadReport]) -> Mapping[str, float]:
    """Return the share of a nano-unit in all requests, now or recommended, whichever are more."""
    total = total_of(workloads, None)
    sums = ((CPU, total.cpu), (MEMORY, total.memory))
    return {
        resource: 1 / (max(nanos(each.request), nanos(each.recommended)) or 1)
        for resource, each in sums
    }


def _resources(workload: WorkloadReport) -> tuple[tuple[str, WorkloadResource], ...]:
    return ((CPU, workload.cpu), (MEMORY, workload.memory))
