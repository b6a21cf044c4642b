"""The texts of a report's cells, for tables, Markdown and HTML."""

from collections.abc import Sequence

from common.resources import CPU, MEMORY
from kubectl_vpa.output.amounts import short
from kubectl_vpa.results.report import (
    Change,
    Cost,
    Prices,
    Report,
    ReportTotal,
    Source,
    TotalResource,
    WorkloadReport,
    WorkloadResource,
)

NONE = "none"
UNKNOWN = "-"

_ZERO = "0"
_ARROW = " → "


def workload_of(workload: WorkloadReport) -> str:
    """Return kind and name."""
    return f"{workload.kind}/{workload.name}"


def per_pod(resource: str, change: Change) -> str:
    """Return ``500m → 49m``, or one amount if both are equal or nothing is recommended."""
    now = NONE if change.request is None else short(resource, change.request)
    if change.recommended is None:
        return UNKNOWN if change.request is None else now
    then = short(resource, change.recommended)
    return then if change.request == change.recommended else f"{now}{_ARROW}{then}"


def sums(resource: str, total: TotalResource) -> str:
    """Return the sums of the requests, now and recommended."""
    return per_pod(resource, Change(request=total.request, recommended=total.recommended))


def all_pods(resource: str, amounts: WorkloadResource) -> str:
    """Return the requests of all pods of a workload, now and recommended."""
    both = Change(request=amounts.total_request, recommended=amounts.total_recommended)
    return per_pod(resource, both)


def given_back(of: WorkloadReport | ReportTotal) -> str:
    """Return ``1.35 CPU, 2.27Gi``: what all pods would give back; a dash for nothing."""
    return _both(of.cpu.given_back, of.memory.given_back)


def lacking(of: WorkloadReport | ReportTotal) -> str:
    """Return the same for what the pods lack."""
    return _both(of.cpu.lacking, of.memory.lacking)


def money(amount: float, *, sign: bool = False) -> str:
    """Return an amount of money with thousands separated by commas."""
    return f"{amount:+,.2f}" if sign and round(amount, 2) else f"{amount:,.2f}"


def cost_change(cost: Cost | None) -> str:
    """Return the change of the monthly cost."""
    return UNKNOWN if cost is None else money(cost.change, sign=True)


def cost_heading(prices: Prices) -> str:
    """Return the heading of the column with the change of the cost."""
    return f"{prices.currency or 'cost'}/month"


def costs(prices: Prices | None) -> str:
    """Return a sentence about the prices; empty without prices."""
    if prices is None:
        return ""
    priced = (("a core", prices.cpu), ("a GiB", prices.memory))
    known = " and ".join(
        f"{' '.join(filter(None, (f'{price:g}', prices.currency)))} for {unit}"
        for unit, price in priced
        if price is not None
    )
    return f"Costs are those of requests in a month of 730 hours, at {known} and hour."


def basis(workload: WorkloadReport) -> str:
    """Return what the recommendation is based on, and what is missing in it."""
    match workload.source:
        case Source.VPA:
            source = f"VPA {workload.vpa} ({workload.mode})"
        case Source.CHECKPOINTS:
            source = f"checkpoints of VPA {workload.vpa}"
        case Source.PROMETHEUS:
            source = "Prometheus"
        case _:
            return workload.message
    return f"{source}; {workload.message}" if workload.message else source


def below(workload: WorkloadReport) -> str:
    """Return the effect and the basis as words, for a narrow screen."""
    return "; ".join((*_effects(workload), basis(workload)))


def effect(total: ReportTotal, prices: Prices | None) -> str:
    """Return the effects of many workloads as words."""
    words = list(_effects(total)) or ["nothing changes"]
    if prices is not None and total.cost is not None:
        words.append(f"{cost_change(total.cost)} {cost_heading(prices)}")
    return "; ".join(words)


def unchanged(total: ReportTotal) -> str:
    """Return a sentence about the workloads without a recommendation; empty if there are none."""
    count = total.without_recommendation
    if not count:
        return ""
    if count == 1:
        return "1 workload has no recommendation and counts with its present requests."
    return f"{count} workloads have no recommendation and count with their present requests."


def has_contexts(report: Report) -> bool:
    """Return True if the report is about several contexts."""
    return len(report.contexts) > 1


def has_namespaces(report: Report) -> bool:
    """Return True if the report is about several namespaces."""
    return len(report.totals) > 1


def _effects(of: WorkloadReport | ReportTotal) -> Sequence[str]:
    texts = (("gives back", given_back(of)), ("lacks", lacking(of)))
    return [f"{verb} {text}" for verb, text in texts if text != UNKNOWN]


def _both(cpu: str, memory: str) -> str:
    parts = (
        *((f"{short(CPU, cpu)} CPU",) if cpu != _ZERO else ()),
        *((short(MEMORY, memory),) if memory != _ZERO else ()),
    )
    return ", ".join(parts) or UNKNOWN
