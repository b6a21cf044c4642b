"""The pages on kubectl vpa show real screens, all reasons and all fields."""

import re
from pathlib import Path

import pytest

from kubectl_vpa.results.doctor import Finding
from kubectl_vpa.results.explain import ComputedContainer, ComputedResource, ComputedVpa
from kubectl_vpa.results.export import RecommendationResult
from kubectl_vpa.results.history import ContainerHistory, HistoryResult
from kubectl_vpa.results.plan import PlanResult
from kubectl_vpa.results.report import Report, ReportTotal, WorkloadReport
from kubectl_vpa.results.simulate import SimulatedNumbers
from kubectl_vpa.results.status import StatusReason, VpaResult
from kubectl_vpa.results.top import UsageResult
from kubectl_vpa.results.why import Explanation

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kubectl-vpa.md").read_text(encoding="utf-8")
OUTPUT_PAGE = (ROOT / "docs" / "kubectl-vpa-output.md").read_text(encoding="utf-8")
SCREENS = ROOT / "tests" / "process" / "screens"
_SHOWN = re.compile(r'```text title="([^"]+)"\n(.*?)```', re.DOTALL)


@pytest.mark.parametrize("screen", sorted(SCREENS.iterdir()), ids=lambda file: file.stem)
def test_a_screen_on_a_page_is_the_one_that_is_tested(screen: Path) -> None:
    shown = [text for title, text in _SHOWN.findall(PAGE + OUTPUT_PAGE) if title == screen.stem]
    assert shown == [screen.read_text(encoding="utf-8")]


@pytest.mark.parametrize("reason", StatusReason)
def test_the_page_explains_a_reason(reason: StatusReason) -> None:
    assert re.search(rf"^\|[^|]*\| `{reason}` \| \S", PAGE, re.MULTILINE)


FIELDS = [
    (table, field)
    for table, result in (
        ("a VPA", VpaResult),
        ("a recommendation", RecommendationResult),
        ("a finding", Finding),
        ("an explanation", Explanation),
        ("a planned pod", PlanResult),
        ("a usage", UsageResult),
        ("an entry of the history", HistoryResult),
        ("a usage in the history", ContainerHistory),
        ("a computed VPA", ComputedVpa),
        ("a computed container", ComputedContainer),
        ("a computed resource", ComputedResource),
        ("simulated numbers", SimulatedNumbers),
        ("a report", Report),
        ("a workload", WorkloadReport),
        ("a sum", ReportTotal),
    )
    for field in result.__struct_encode_fields__
]


@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_the_page_explains_a_field(table: str, field: str) -> None:
    fields = OUTPUT_PAGE.partition(f"| field of {table} | content |")[2].partition("\n\n")[0]
    assert re.search(rf"^\|[^|]*`{field}`", fields, re.MULTILINE)
