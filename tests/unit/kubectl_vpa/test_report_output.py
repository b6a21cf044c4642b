"""The tables, Markdown and the HTML page of ``kubectl vpa report``."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest
from msgspec import structs

from kubectl_vpa.judge.report_totals import in_order, total_of, totals_by_namespace, with_cost
from kubectl_vpa.output.report_page import as_html
from kubectl_vpa.output.report_table import as_markdown, totals, workloads
from kubectl_vpa.output.report_text import basis, per_pod
from kubectl_vpa.results.report import (
    Change,
    Prices,
    Report,
    Source,
    WorkloadReport,
    WorkloadResource,
)

PRICES = Prices(cpu=0.04, memory=0.005, currency="USD")
HTML = "{http://www.w3.org/1999/xhtml}"
HOSTILE = "<script>alert('1')</script>|`*_[a](b)&\x1b[31m\"\nnext"


WORKLOAD = WorkloadReport(
    context="",
    namespace="shop",
    kind="Deployment",
    name="web",
    pods=3,
    vpa="web",
    mode="Recreate",
    source=Source.VPA,
    message="",
    cpu=WorkloadResource(
        request="500m",
        recommended="50m",
        total_request="1500m",
        total_recommended="150m",
        given_back="1350m",
        lacking="0",
    ),
    memory=WorkloadResource(
        request=None,
        recommended="2Gi",
        total_request="0",
        total_recommended="6Gi",
        given_back="0",
        lacking="6Gi",
    ),
    cost=None,
    containers=(),
)


def workload(name: str = "web", **changes: object) -> WorkloadReport:
    return structs.replace(WORKLOAD, name=name, **changes)


def report(
    *found: WorkloadReport,
    prices: Prices | None = None,
    contexts: tuple[str, ...] = ("",),
    notes: tuple[str, ...] = (),
) -> Report:
    ordered = [with_cost(each, prices) for each in in_order(found, prices)]
    return Report(
        kind="Report",
        items=tuple(ordered),
        notes=notes,
        time=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        contexts=contexts,
        prices=prices,
        totals=totals_by_namespace(ordered, prices),
        total=total_of(ordered, prices),
    )


def headings(shown: Report) -> list[str]:
    return [column.heading for column in workloads(shown).columns]


def test_the_columns_of_one_namespace() -> None:
    shown = report(workload())
    assert headings(shown) == [
        *("Workload", "Pods", "CPU", "Memory", "Given back", "Lacking", "Recommended by")
    ]
    assert workloads(shown).rows == [
        (
            *("Deployment/web", "3", "500m → 50m", "none → 2Gi"),
            *("1.35 CPU", "6Gi", "VPA web (Recreate)"),
        )
    ]
    assert totals(shown).rows == [
        ("TOTAL", "1", "3", "1.5 → 150m", "0 → 6Gi", "1.35 CPU", "6Gi"),
    ]


def test_the_wide_table_has_the_requests_of_all_pods() -> None:
    wide = workloads(report(workload()), wide=True)
    assert [column.heading for column in wide.columns][4:6] == ["CPU of all", "Memory of all"]
    assert wide.rows[0][4:6] == ("1.5 → 150m", "0 → 6Gi")


@pytest.mark.parametrize(
    ("prices", "want"),
    [
        (
            Prices(cpu=0.04, memory=0.005, currency="USD"),
            "0.04 USD for a core and 0.005 USD for a GiB",
        ),
        (Prices(cpu=None, memory=0.005, currency=""), "0.005 for a GiB"),
    ],
    ids=["both", "one, without a currency"],
)
def test_documents_name_the_prices(prices: Prices, want: str) -> None:
    shown = report(workload(), prices=prices)
    sentence = f"Costs are those of requests in a month of 730 hours, at {want} and hour."
    assert sentence in as_html(shown)
    assert sentence in as_markdown(shown)


def test_several_namespaces_have_a_column_and_sums() -> None:
    shown = report(workload(), workload("pay", namespace="bank"))
    assert headings(shown)[0] == "Namespace"
    assert [row[0] for row in totals(shown).rows] == ["bank", "shop", "TOTAL"]


def test_several_contexts_have_a_column_and_sums() -> None:
    found = (workload(context="east"), workload(context="west"))
    shown = report(*found, contexts=("east", "west"))
    assert headings(shown)[:2] == ["Context", "Namespace"]
    assert [row[0] for row in totals(shown).rows] == ["east/shop", "west/shop", "TOTAL"]


@pytest.mark.parametrize(("currency", "heading"), [("USD", "USD/month"), ("", "cost/month")])
def test_prices_add_a_column(currency: str, heading: str) -> None:
    shown = report(workload(), prices=Prices(cpu=0.04, memory=None, currency=currency))
    assert headings(shown)[-2] == heading
    assert workloads(shown).rows[0][-2] == "-39.42"
    assert totals(shown).rows[0][-1] == "-39.42"


@pytest.mark.parametrize(
    ("request_", "recommended", "want"),
    [
        ("500m", "50m", "500m → 50m"),
        ("50m", "50m", "50m"),
        (None, "50m", "none → 50m"),
        ("500m", None, "500m"),
        (None, None, "-"),
    ],
    ids=["a change", "as recommended", "no request", "no recommendation", "neither"],
)
def test_the_amounts_of_a_pod(request_: str | None, recommended: str | None, want: str) -> None:
    assert per_pod("cpu", Change(request=request_, recommended=recommended)) == want


@pytest.mark.parametrize(
    ("source", "message", "want"),
    [
        (Source.VPA, "", "VPA web (Recreate)"),
        (Source.CHECKPOINTS, "", "checkpoints of VPA web"),
        (Source.PROMETHEUS, "", "Prometheus"),
        (Source.PROMETHEUS, "nothing for b", "Prometheus; nothing for b"),
        (Source.NONE, "no VPA", "no VPA"),
    ],
    ids=["VPA", "checkpoints", "Prometheus", "in part", "none"],
)
def test_the_basis_of_a_recommendation(source: Source, message: str, want: str) -> None:
    assert basis(workload(source=source, message=message)) == want


@pytest.mark.parametrize(
    ("without", "want"),
    [
        (0, ""),
        (1, "1 workload has no recommendation and counts with its present requests."),
        (2, "2 workloads have no recommendation and count with their present requests."),
    ],
)
def test_workloads_without_a_recommendation_are_counted(without: int, want: str) -> None:
    found = [workload(str(number), source=Source.NONE) for number in range(without)]
    idle = workload("idle", source=Source.NONE, pods=0)
    text = as_markdown(report(workload(), idle, *found))
    assert ("no recommendation" in text) == bool(want)
    assert want in text


def test_markdown_has_both_tables_and_the_notes() -> None:
    text = as_markdown(report(workload(), prices=PRICES, notes=("pods: you may not list them",)))
    assert text.splitlines()[2] == "2026-01-02 03:04 UTC"
    assert "| Deployment/web | 3 | 500m → 50m | none → 2Gi | 1.35 CPU | 6Gi | -17.52 |" in text
    assert text.endswith("- not seen: pods: you may not list them\n")


def test_markdown_escapes_names() -> None:
    text = as_markdown(report(workload(HOSTILE)))
    (row,) = (line for line in text.splitlines() if "script" in line)
    assert r"\<script\>alert('1')\</script\>\|\`\*\_\[a\](b)\&" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


def page(shown: Report) -> ET.Element:
    """Parse the page as XML, which fails unless it is well-formed."""
    return ET.fromstring(as_html(shown))


def texts(element: ET.Element) -> list[str]:
    return ["".join(each.itertext()).strip() for each in element]


def test_the_page_has_the_rows_of_the_table() -> None:
    shown = report(workload(), workload("pay", namespace="bank"), prices=PRICES)
    sums, items = page(shown).iter(f"{HTML}table")
    for table, want in ((sums, totals(shown)), (items, workloads(shown))):
        heads, *rows = table.iter(f"{HTML}tr")
        assert texts(heads) == [column.heading for column in want.columns]
        assert [texts(row) for row in rows] == [list(row) for row in want.rows]


def test_the_sums_of_one_namespace_are_in_the_header_only() -> None:
    found = page(report(workload(), prices=PRICES))
    assert len(list(found.iter(f"{HTML}table"))) == 1
    tiles = [
        " ".join(texts(each))
        for each in found.iter(f"{HTML}div")
        if each.find(f"{HTML}dt") is not None
    ]
    assert tiles == [
        "CPU of all pods 1.5 → 150m 1.35 given back, 0 lacking",
        "Memory of all pods 0 → 6Gi 0 given back, 6Gi lacking",
        "Cost per month 43.80 → 26.28 USD -17.52 USD",
        "Workloads 1 3 pods",
    ]


def test_tables_and_plots_can_be_read_aloud() -> None:
    found = page(report(workload(), workload("pay", namespace="bank")))
    for table in found.iter(f"{HTML}table"):
        assert table.find(f"{HTML}caption") is not None
        assert {each.get("scope") for each in table.iter(f"{HTML}th")} == {"col", "row"}
    plots = list(found.iter(f"{HTML}svg"))
    assert [(each.get("role"), (each.get("aria-label") or "")[:3]) for each in plots] == [
        ("img", "CPU"),
        ("img", "Mem"),
    ]
    titles = ["".join(each.itertext()) for each in plots[0].iter(f"{HTML}title")]
    assert titles == [
        "bank: 1.5 requested, 150m recommended",
        "shop: 1.5 requested, 150m recommended",
    ]
    assert found.get("lang") == "en"


@pytest.mark.parametrize(
    ("count", "caption", "bars"),
    [(20, "CPU", 20), (21, "CPU, the 20 largest of 21 workloads", 20)],
    ids=["all are shown", "one too many"],
)
def test_a_plot_shows_the_largest(count: int, caption: str, bars: int) -> None:
    found = page(report(*(workload(f"web-{number}") for number in range(count))))
    first = next(found.iter(f"{HTML}figure"))
    assert first.findtext(f"{HTML}figcaption") == caption
    assert len(list(first.iter(f"{HTML}g"))) == bars


def test_the_widest_bar_is_the_largest_request() -> None:
    found = page(report(workload()))
    requested, recommended = (
        float(each.get("width") or 0) for each in list(found.iter(f"{HTML}rect"))[:2]
    )
    assert recommended == pytest.approx(requested / 10)


def test_the_page_needs_no_other_file() -> None:
    text = as_html(report(workload(), contexts=("prod",), notes=("a note",)))
    assert re.findall(r"(?: src=| href=|url\(|@import|<script|<link)", text) == []
    assert re.findall(r"https?://\S+", text) == ['http://www.w3.org/1999/xhtml">']
    assert "default-src 'none'; style-src 'unsafe-inline'" in text  # and it would not load any


def test_everything_from_the_cluster_is_escaped() -> None:
    shown = report(
        workload(HOSTILE, namespace=HOSTILE, context=HOSTILE, kind=HOSTILE, message=HOSTILE),
        workload("other"),
        contexts=(HOSTILE, "second"),
        notes=(HOSTILE,),
        prices=Prices(cpu=1.0, memory=1.0, currency=HOSTILE),
    )
    text = as_html(shown)
    assert "<script" not in text
    assert "\x1b" not in text
    found = page(shown)
    assert list(found.iter(f"{HTML}script")) == []
    (note,) = found.iter(f"{HTML}li")
    assert note.text == HOSTILE.replace("\x1b", "").replace("\n", "")


def test_a_page_without_workloads() -> None:
    found = page(report(notes=("context a: no answer",)))
    assert list(found.iter(f"{HTML}table")) == []
    assert [each.text for each in found.iter(f"{HTML}li")] == ["context a: no answer"]
