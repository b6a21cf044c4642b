"""GET /debug/plan: the plan as JSON and as a table, and errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import fastapi
import msgspec
import pytest
from msgspec import structs

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import UpdateMode
from common.kube.lease import AdmissionStatus
from live_specs import schedulable
from ops_caller import Answer, get
from random_cluster import random_cluster
from updater import debugging
from updater.decision import Reason
from updater.preview import NotNow, PassPreview
from updater.snapshot.cluster_snapshot import ClusterSnapshot, key_of
from updater.snapshot.selection import Scope
from updater_harness import HALF, NOW, live_pod, preview, snapshot


async def planned(given: ClusterSnapshot, **other: Any) -> PassPreview:
    decisions = await preview(given, rules=HALF)
    plan = PassPreview(
        taken_at=NOW,
        admission=AdmissionStatus.ALIVE,
        vpas=[scaled.vpa for scaled in given.autoscaled],
        snapshot=given,
        skipped={},
        decisions=decisions,
    )
    return replace(plan, **other)


async def ask(
    plan: PassPreview | NotNow,
    *,
    query: str = "",
    accept: str = "*/*",
    asked: list[Scope] | None = None,
) -> Answer:
    async def planner(scope: Scope) -> PassPreview | NotNow:
        if asked is not None:
            asked.append(scope)
        return plan

    app = fastapi.FastAPI()
    app.include_router(debugging.router(planner))
    return await get(app, debugging.PATH, query=query, accept=accept)


async def test_a_pod_has_its_reason_and_numbers() -> None:
    plan = await planned(snapshot(UpdateMode.RECREATE, names=["web-0", "web-1", "web-2"]))
    answer = await ask(plan)
    assert (answer.status, answer.media) == (200, "application/json")
    returned = json.loads(answer.body)
    (web,) = returned.pop("vpas")
    assert returned == {
        "at": "2026-03-01T12:00:00Z",
        "leading": True,
        "cachesFresh": True,
        "admission": "alive",
    }
    first, *others = web.pop("pods")
    assert web == {"namespace": "default", "name": "web", "mode": "Recreate", "why": None}
    assert first == {
        "name": "web-0",
        "decision": "evict",
        "reason": "outside_range",
        "meaning": Reason.OUTSIDE_RANGE.meaning,
        "detail": None,
        "until": None,
        "resourceDiff": pytest.approx(24 + 24.6),
        "outsideRange": True,
        "containers": [
            {
                "name": "app",
                "requests": {"cpu": "10m", "memory": "10Mi"},
                "target": {"cpu": "250m", "memory": "256Mi"},
                "lowerBound": {"cpu": "200m"},
                "upperBound": {"cpu": "300m"},
            }
        ],
    }
    assert [(each["decision"], each["reason"]) for each in others] == [
        ("wait", "budget_exhausted"),
        ("wait", "budget_exhausted"),
    ]


TABLE = """\
At 2026-03-01T12:00:00Z: 2 leave; leading, caches fresh, admission alive

NAMESPACE  VPA  POD    DECISION  REASON     UNTIL                 MEANING
default    web  web-0  leave     too_young  2026-03-01T22:00:00Z  In its range, and younger than \
the lifetime threshold.
default    web  web-1  leave     too_young  2026-03-02T00:00:00Z  In its range, and younger than \
the lifetime threshold.
"""


async def test_the_plan_as_text_is_a_table() -> None:
    (scaled,) = snapshot(UpdateMode.RECREATE, names=["web-0", "web-1"]).autoscaled
    wide = recommendation(lower={"cpu": "1m", "memory": "1"}, upper={"cpu": "1", "memory": "1Gi"})
    started = [NOW.replace(hour=10), NOW]
    pods = tuple(
        structs.replace(each, status=structs.replace(each.status, start_time=start))
        for each, start in zip(scaled.pods, started, strict=True)
    )
    young = replace(scaled, vpa=vpa(recommendations=(wide,)), pods=pods)
    plan = await planned(ClusterSnapshot(autoscaled=(young,), living=frozenset()))
    answer = await ask(plan, accept="text/plain")
    assert answer.status == 200
    assert answer.media == "text/plain; charset=utf-8"
    assert answer.body.decode() == TABLE


@pytest.mark.parametrize(
    ("mode", "skipped", "why"),
    [
        pytest.param("Off", "", "mode Off changes no running pods", id="mode Off"),
        pytest.param("Initial", "", "mode Initial changes no running pods", id="mode Initial"),
        pytest.param("Recreate", "", "it controls none of the running pods", id="no pods"),
        pytest.param("InPlace", "needs a gate", "needs a gate", id="skipped"),
        pytest.param("Later", "not known", "not known", id="a mode of a newer version"),
    ],
)
async def test_a_vpa_without_decisions_has_a_reason(mode: str, skipped: str, why: str) -> None:
    given = vpa(mode=mode)
    plan = await planned(
        ClusterSnapshot(autoscaled=(), living=frozenset()),
        vpas=[given],
        skipped={key_of(given): skipped} if skipped else {},
    )
    (returned,) = json.loads((await ask(plan)).body)["vpas"]
    assert returned == {
        "namespace": "default",
        "name": "web",
        "mode": mode,
        "why": why,
        "pods": [],
    }
    row = (await ask(plan, accept="text/plain")).body.decode().splitlines()[-1]
    assert row.split(maxsplit=6) == ["default", "web", "-", "-", "-", "-", why]


async def test_unreadable_pods_have_no_numbers() -> None:
    broken = pod("web-0", containers=(container(requests={"cpu": "a lot"}),))
    given = snapshot(UpdateMode.RECREATE, names=["web-0"])
    (scaled,) = given.autoscaled
    pods = (structs.replace(live_pod("web-0"), spec=schedulable(broken.spec)),)
    plan = await planned(replace(given, autoscaled=(replace(scaled, pods=pods),)))
    (returned,) = json.loads((await ask(plan)).body)["vpas"][0]["pods"]
    assert (returned["reason"], returned["resourceDiff"], returned["containers"]) == (
        "unreadable",
        None,
        [],
    )


async def test_columns_of_a_long_table_are_as_wide_as_their_widest_cell() -> None:
    names = [*(f"web-{number}" for number in range(1200)), "web-00000-the-long-one"]
    answer = await ask(await planned(snapshot(UpdateMode.OFF, names=names)), accept="text/plain")
    assert answer.body.count(b"\n") == 4
    answer = await ask(await planned(snapshot(UpdateMode.AUTO, names=names)), accept="text/plain")
    head, *rows = answer.body.decode().splitlines()[2:]
    assert len(rows) == len(names)
    column = head.index("REASON")
    assert {row[column - 2 :].split()[0] for row in rows} == {"outside_range", "budget_exhausted"}


@pytest.mark.parametrize("encode", [debugging.as_json, debugging.as_text])
async def test_a_vpa_with_many_pods_is_written_in_chunks_that_yield_to_other_tasks(
    encode: Callable[[PassPreview], AsyncIterator[bytes | str]],
) -> None:
    names = [f"web-{number:04}" for number in range(1_700)]
    plan = await planned(snapshot(UpdateMode.RECREATE, names=names))
    yields = 0

    async def another() -> None:
        nonlocal yields
        while True:
            await asyncio.sleep(0)
            yields += 1

    task = asyncio.create_task(another())
    parts = [part if isinstance(part, str) else part.decode() async for part in encode(plan)]
    task.cancel()
    in_part = [sum(part.count(f"web-{hundred:02}") for hundred in range(17)) for part in parts]
    assert sum(in_part) == len(names)
    assert max(in_part) <= 500
    assert yields >= len(names) // 500


async def test_an_empty_table() -> None:
    plan = await planned(ClusterSnapshot(autoscaled=(), living=frozenset()))
    assert (await ask(plan, accept="text/plain")).body.endswith(b"\n\nThere is no such VPA.\n")
    assert json.loads((await ask(plan)).body)["vpas"] == []


async def test_answers_for_random_clusters_match_their_schema() -> None:
    for seed in range(50):
        given = random_cluster(seed, now=NOW)
        decisions = await preview(
            given.snapshot,
            given.state,
            rules=given.rules,
            admission_ready=given.admission_ready,
        )
        plan = await planned(given.snapshot, decisions=decisions)
        returned = msgspec.json.decode((await ask(plan)).body, type=debugging.PlanAnswer)
        assert {
            (pod.name, pod.decision, pod.reason, pod.until)
            for vpa in returned.vpas
            for pod in vpa.pods
        } == {
            (uid.removeprefix("uid-"), each.action, each.reason, each.until)
            for uid, each in decisions.items()
        }
        rows = (await ask(plan, accept="text/plain")).body.splitlines()
        assert len(rows) == 3 + len(decisions) + sum(vpa.why is not None for vpa in returned.vpas)


@pytest.mark.parametrize(
    ("query", "scope"),
    [
        ("", Scope()),
        ("namespace=shop", Scope("shop")),
        ("vpa=web", Scope("", "web")),
        ("vpa=web&namespace=shop", Scope("shop", "web")),
    ],
)
async def test_only_the_requested_scope_is_planned(query: str, scope: Scope) -> None:
    asked: list[Scope] = []
    await ask(NotNow.PLANNING, query=query, asked=asked)
    assert asked == [scope]


@pytest.mark.parametrize("why", NotNow)
async def test_errors_of_the_endpoint(why: NotNow) -> None:
    answer = await ask(why)
    assert answer.status == (409 if why in (NotNow.PLANNING, NotNow.UNDER_WAY) else 503)
    assert json.loads(answer.body) == {"error": str(why)}
    text = await ask(why, accept="text/plain")
    assert (text.status, text.body.decode()) == (answer.status, f"no plan: {why}\n")


def test_the_openapi_document_describes_the_answers() -> None:
    app = fastapi.FastAPI()
    app.include_router(debugging.router(never))
    described = app.openapi()["paths"][debugging.PATH]["get"]
    assert {each["name"] for each in described["parameters"]} == {"namespace", "vpa"}
    assert set(described["responses"]) >= {"200", "409", "503"}
    content = described["responses"]["200"]["content"]
    assert "PodAnswer" in content["application/json"]["schema"]["$defs"]
    assert content["text/plain"]["example"].startswith("NAMESPACE  VPA")


async def never(scope: Scope) -> PassPreview | NotNow:
    raise AssertionError(scope)
