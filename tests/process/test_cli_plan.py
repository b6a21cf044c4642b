"""``kubectl vpa plan`` as a process: derived, and of an updater's last pass."""

import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from cli_cluster import CliCluster, cli_cluster, fill
from cli_program import Printed, run_cli
from scripted_components import scripted, usual_plan
from workloads import NAMESPACE

SCREENS = Path(__file__).parent / "screens"
NO_HPAS = "not seen: horizontalpodautoscalers in shop: the cluster doesn't serve them\n"
_DATE, _TIME, _AGE = (
    re.compile(r"\d{4}-\d\d-\d\d"),
    re.compile(r"\d\d:\d\d"),
    re.compile(r"\d+s ago"),
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        yield made


async def plan(cluster: CliCluster, *arguments: str, width: int = 0) -> Printed:
    return await run_cli(cluster.kubeconfig, "plan", "-n", NAMESPACE, *arguments, width=width)


def timeless(text: str) -> str:
    """Return a text with a fixed time in place of each."""
    return _AGE.sub("5s ago", _TIME.sub("12:00", _DATE.sub("2026-01-01", text)))


def check(screen: str, text: str, width: int) -> None:
    golden = SCREENS / f"{screen}-{width}.txt"
    if os.environ.get("WRITE_SCREENS"):
        golden.write_text(timeless(text), encoding="utf-8")
    assert timeless(text) == golden.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [80, 160])
async def test_without_components_the_plan_is_derived(cluster: CliCluster, width: int) -> None:
    printed = await plan(cluster, width=width)
    check("plan-derived", printed.out, width)
    assert printed.code == 0
    assert printed.err == (
        "plan: evict 2, resize 3, wait 3, leave 4 of 12 pods; derived from the objects, without "
        "what the updater alone knows: its flags, its limits, and the results of earlier actions\n"
        f"{NO_HPAS}"
    )


async def test_the_wide_table_and_json_have_each_pod(cluster: CliCluster) -> None:
    printed = await plan(cluster, "web", "-o", "wide", "--no-headers")
    lines = [line.split() for line in printed.out.splitlines()]
    assert [line[:2] for line in lines] == [["resize", "web"]] * 3
    found = (await plan(cluster, "web", "-o", "json")).json
    assert (found["kind"], found["source"], found["passAt"]) == ("PlanList", "derived", None)
    assert {each["pod"] for each in found["items"]} == {line[2] for line in lines}
    assert {each["reason"] for each in found["items"]} == {"outside_range"}


async def test_an_unknown_vpa_is_one_line(cluster: CliCluster) -> None:
    printed = await plan(cluster, "none")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == "error: there is no VPA named none in namespace shop\n"


async def test_the_plan_is_that_of_the_last_pass(cluster: CliCluster) -> None:
    """It has a VPA that doesn't exist any more, and lacks one that is new."""
    answered = await usual_plan(cluster)
    async with scripted(cluster, plan=answered):
        for width in (80, 160):
            printed = await plan(cluster, width=width)
            check("plan", printed.out, width)
            origin = "; the updater's pass of 2026-01-01 12:00 UTC, 5s ago\n"
            counts = "plan: evict 0, resize 1, wait 7, leave 2 of 10 pods"
            assert timeless(printed.err) == f"{counts}{origin}"
        found = (await plan(cluster, "-o", "json")).json
        assert (found["source"], found["notes"]) == ("updater", [])
    async with scripted(cluster, plan=answered, age=timedelta(minutes=5)):
        printed = await plan(cluster)
        assert printed.err.endswith("5m ago; the next one is overdue\n")
