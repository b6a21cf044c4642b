"""Sums, costs and the order of workloads in ``kubectl vpa report``."""

from dataclasses import dataclass

import pytest

from kubectl_vpa.judge.report_totals import in_order, total_of, totals_by_namespace, with_cost
from kubectl_vpa.results.report import Cost, Prices, Source, WorkloadReport, WorkloadResource

PRICES = Prices(cpu=0.04, memory=0.005, currency="USD")


def amounts(
    request: str, recommended: str, *, back: str = "0", lack: str = "0"
) -> WorkloadResource:
    return WorkloadResource(
        request=None,
        recommended=None,
        total_request=request,
        total_recommended=recommended,
        given_back=back,
        lacking=lack,
    )


NOTHING = amounts("0", "0")


def workload(
    name: str,
    *,
    namespace: str = "shop",
    context: str = "",
    pods: int = 1,
    cpu: WorkloadResource = NOTHING,
    memory: WorkloadResource = NOTHING,
    source: Source = Source.VPA,
) -> WorkloadReport:
    return WorkloadReport(
        context=context,
        namespace=namespace,
        kind="Deployment",
        name=name,
        pods=pods,
        vpa=None,
        mode=None,
        source=source,
        message="",
        cpu=cpu,
        memory=memory,
        cost=None,
        containers=(),
    )


def test_sums_over_workloads() -> None:
    found = total_of(
        [
            workload("a", pods=3, cpu=amounts("1500m", "150m", back="1350m")),
            workload("b", pods=2, cpu=amounts("200m", "2", lack="1800m"), source=Source.NONE),
            workload("c", memory=amounts("1Gi", "256Mi", back="768Mi")),
        ],
        None,
    )
    assert (found.workloads, found.pods, found.without_recommendation) == (3, 6, 1)
    cpu, memory = found.cpu, found.memory
    assert (cpu.request, cpu.recommended) == ("1700m", "2150m")
    assert (cpu.given_back, cpu.lacking) == ("1350m", "1800m")
    assert (memory.request, memory.recommended) == ("1Gi", "256Mi")
    assert (memory.given_back, memory.lacking) == ("768Mi", "0")
    assert found.cost is None


def test_the_sum_of_nothing() -> None:
    found = total_of([], PRICES)
    assert (found.workloads, found.cpu.request, found.memory.lacking) == (0, "0", "0")
    assert found.cost == Cost(request=0.0, recommended=0.0, change=0.0)


def test_sums_by_context_and_namespace() -> None:
    found = totals_by_namespace(
        [
            workload("a", context="y", namespace="b"),
            workload("b", context="x", namespace="b"),
            workload("c", context="y", namespace="a"),
            workload("d", context="y", namespace="b"),
        ],
        None,
    )
    assert [(each.context, each.namespace, each.workloads) for each in found] == [
        ("x", "b", 1),
        ("y", "a", 1),
        ("y", "b", 2),
    ]


@dataclass(frozen=True, kw_only=True)
class CostCase:
    id: str
    cpu: WorkloadResource = NOTHING
    memory: WorkloadResource = NOTHING
    prices: Prices | None = PRICES
    want: Cost | None


COSTS = [
    CostCase(
        id="cores for 730 hours",
        cpu=amounts("2", "500m"),
        want=Cost(request=58.4, recommended=14.6, change=-43.8),
    ),
    CostCase(
        id="GiB for 730 hours",
        memory=amounts("1Gi", "3Gi"),
        want=Cost(request=3.65, recommended=10.95, change=7.3),
    ),
    CostCase(
        id="a GiB has 1024 MiB",
        memory=amounts("1024Mi", "512Mi"),
        want=Cost(request=3.65, recommended=1.82, change=-1.82),
    ),
    CostCase(
        id="both resources",
        cpu=amounts("1", "1"),
        memory=amounts("1Gi", "1Gi"),
        want=Cost(request=32.85, recommended=32.85, change=0.0),
    ),
    CostCase(
        id="without a price a resource costs nothing",
        cpu=amounts("1", "1"),
        memory=amounts("1Gi", "2Gi"),
        prices=Prices(cpu=0.04, memory=None, currency=""),
        want=Cost(request=29.2, recommended=29.2, change=0.0),
    ),
    CostCase(
        id="less than a cent is no change, and has no sign",
        cpu=amounts("1", "999999u"),
        prices=Prices(cpu=1.0, memory=None, currency=""),
        want=Cost(request=730.0, recommended=730.0, change=0.0),
    ),
    CostCase(id="no prices", cpu=amounts("1", "2"), prices=None, want=None),
]


@pytest.mark.parametrize("case", COSTS, ids=lambda case: case.id)
def test_costs(case: CostCase) -> None:
    found = workload("a", cpu=case.cpu, memory=case.memory)
    assert with_cost(found, case.prices).cost == case.want
    assert "=-0.0)" not in repr(with_cost(found, case.prices).cost)
    assert total_of([found], case.prices).cost == case.want


def names(workloads: list[WorkloadReport], prices: Prices | None = None) -> str:
    return "".join(each.name for each in in_order(workloads, prices))


def test_the_largest_effect_is_first_whichever_its_direction() -> None:
    found = [
        workload("a", cpu=amounts("1", "900m", back="100m")),
        workload("b", cpu=amounts("1", "1200m", lack="200m")),
        workload("c", cpu=amounts("1", "850m", back="150m")),
    ]
    assert names(found) == "bca"


def test_what_one_container_lacks_and_another_gives_back_are_both_effects() -> None:
    found = [
        workload("a", cpu=amounts("1", "800m", back="200m")),
        workload("b", cpu=amounts("1", "1", back="150m", lack="150m")),
    ]
    assert names(found) == "ba"


@pytest.mark.parametrize(
    ("memory", "want"),
    [("101Mi", "ba"), ("100Mi", "ab"), ("99Mi", "ab")],
    ids=["a larger share of memory", "equal shares: by name", "a smaller share of memory"],
)
def test_without_prices_shares_of_all_requests_are_compared(memory: str, want: str) -> None:
    """There are 1000m and 1000Mi in all."""
    found = [
        workload("a", cpu=amounts("1", "900m", back="100m")),
        workload("b", memory=amounts("1000Mi", "1000Mi", back=memory)),
    ]
    assert names(found) == want


@pytest.mark.parametrize(
    ("memory", "want"),
    [("801Mi", "ba"), ("800Mi", "ab"), ("799Mi", "ab")],
    ids=["dearer", "equal: by name", "cheaper"],
)
def test_with_prices_costs_are_compared(memory: str, want: str) -> None:
    """A core costs as much as 8000 MiB."""
    prices = Prices(cpu=8000.0, memory=1024.0, currency="")
    found = [
        workload("a", cpu=amounts("1", "900m", back="100m")),
        workload("b", memory=amounts("1000Mi", "1000Mi", back=memory)),
    ]
    assert names(found, prices) == want


def test_equal_effects_are_sorted_by_context_namespace_and_name() -> None:
    found = [
        workload("d", context="y", namespace="a"),
        workload("c", context="x", namespace="b"),
        workload("b", context="x", namespace="a"),
        workload("a", context="x", namespace="b"),
    ]
    assert names(found) == "bacd"
