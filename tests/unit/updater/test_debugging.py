"""GET /debug/plan: what is told of a plan, as JSON and as a table, and why there may be none."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import fastapi
import msgspec
import pytest
from msgspec import structs

from builders import CREATED, container, pod, recommendation, vpa
from common.api.autoscaling import UpdateMode
from common.kube.lease import AdmissionStatus
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


async def test_a_pod_is_told_with_its_reason_and_the_numbers_behind_it() -> None:
    plan = await planned(snapshot(UpdateMode.RECREATE, names=["web-0", "web-1", "web-2"]))
    answer = await ask(plan)
    assert (answer.status, answer.media) == (200, "application/json")
    told = json.loads(answer.body)
    (web,) = told.pop("vpas")
    assert told == {
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


async def test_as_text_it_is_a_table() -> None:
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
        pytest.param("Recreate", "", "none of the running pods is its own", id="no pods"),
        pytest.param("InPlace", "needs a gate", "needs a gate", id="passed over"),
        pytest.param("Later", "not known", "not known", id="of a newer version"),
    ],
)
async def test_a_vpa_without_decisions_says_why(mode: str, skipped: str, why: str) -> None:
    given = vpa(mode=mode)
    plan = await planned(
        ClusterSnapshot(autoscaled=(), living=frozenset()),
        vpas=[given],
        skipped={key_of(given): skipped} if skipped else {},
    )
    (told,) = json.loads((await ask(plan)).body)["vpas"]
    assert told == {
        "namespace": "default",
        "name": "web",
        "mode": mode,
        "why": why,
        "pods": [],
    }
    row = (await ask(plan, accept="text/plain")).body.decode().splitlines()[-1]
    assert row.split(maxsplit=6) == ["default", "web", "-", "-", "-", "-", why]


async def test_pods_of_which_nothing_can_be_compared_have_no_numbers() -> None:
    broken = pod("web-0", containers=(container(requests={"cpu": "a lot"}),))
    given = snapshot(UpdateMode.RECREATE, names=["web-0"])
    (scaled,) = given.autoscaled
    pods = (structs.replace(live_pod("web-0"), spec=broken.spec),)
    plan = await planned(replace(given, autoscaled=(replace(scaled, pods=pods),)))
    (told,) = json.loads((await ask(plan)).body)["vpas"][0]["pods"]
    assert (told["reason"], told["resourceDiff"], told["containers"]) == ("unreadable", None, [])


async def test_columns_of_a_long_table_are_as_wide_as_their_widest_cell() -> None:
    names = [*(f"web-{number}" for number in range(1200)), "web-00000-the-long-one"]
    answer = await ask(await planned(snapshot(UpdateMode.OFF, names=names)), accept="text/plain")
    assert answer.body.count(b"\n") == 4
    answer = await ask(await planned(snapshot(UpdateMode.AUTO, names=names)), accept="text/plain")
    head, *rows = answer.body.decode().splitlines()[2:]
    assert len(rows) == len(names)
    column = head.index("REASON")
    assert {row[column - 2 :].split()[0] for row in rows} == {"outside_range", "budget_exhausted"}


@pytest.mark.parametrize("tell", [debugging.as_json, debugging.as_text])
async def test_a_vpa_of_many_pods_is_told_in_slices_between_which_others_have_their_turn(
    tell: Callable[[PassPreview], AsyncIterator[bytes | str]],
) -> None:
    names = [f"web-{number:04}" for number in range(1_700)]
    plan = await planned(snapshot(UpdateMode.RECREATE, names=names))
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(another())
    parts = [part if isinstance(part, str) else part.decode() async for part in tell(plan)]
    task.cancel()
    in_part = [sum(part.count(f"web-{hundred:02}") for hundred in range(17)) for part in parts]
    assert sum(in_part) == len(names)
    assert max(in_part) <= 500
    assert turns >= len(names) // 500


async def test_a_table_of_nothing_says_so() -> None:
    plan = await planned(ClusterSnapshot(autoscaled=(), living=frozenset()))
    assert (await ask(plan, accept="text/plain")).body.endswith(b"\n\nThere is no such VPA.\n")
    assert json.loads((await ask(plan)).body)["vpas"] == []


async def test_whatever_the_cluster_is_like_the_answer_is_the_one_that_is_described() -> None:
    for seed in range(50):
        given = random_cluster(seed, now=NOW)
        decisions = await preview(
            given.snapshot,
            given.state,
            rules=given.rules,
            admission_ready=given.admission_ready,
        )
        plan = await planned(given.snapshot, decisions=decisions)
        told = msgspec.json.decode((await ask(plan)).body, type=debugging.PlanAnswer)
        assert {
            (pod.name, pod.decision, pod.reason, pod.until) for vpa in told.vpas for pod in vpa.pods
        } == {
            (uid.removeprefix("uid-"), each.action, each.reason, each.until)
            for uid, each in decisions.items()
        }
        rows = (await ask(plan, accept="text/plain")).body.splitlines()
        assert len(rows) == 3 + len(decisions) + sum(vpa.why is not None for vpa in told.vpas)


@pytest.mark.parametrize(
    ("query", "scope"),
    [
        ("", Scope()),
        ("namespace=shop", Scope("shop")),
        ("vpa=web", Scope("", "web")),
        ("vpa=web&namespace=shop", Scope("shop", "web")),
    ],
)
async def test_only_what_is_asked_for_is_planned(query: str, scope: Scope) -> None:
    asked: list[Scope] = []
    await ask(NotNow.PLANNING, query=query, asked=asked)
    assert asked == [scope]


@pytest.mark.parametrize("why", NotNow)
async def test_there_may_be_no_plan(why: NotNow) -> None:
    answer = await ask(why)
    assert answer.status == (409 if why in (NotNow.PLANNING, NotNow.UNDER_WAY) else 503)
    assert json.loads(answer.body) == {"error": str(why)}
    text = await ask(why, accept="text/plain")
    assert (text.status, text.body.decode()) == (answer.status, f"no plan: {why}\n")


def test_vpas_of_the_same_namespace_are_within_reach_as_one_may_be_older() -> None:
    there = [vpa(), vpa("older", created=CREATED.replace(year=2025)), vpa("web", namespace="b")]
    assert Scope("default", "web").reach(there) == tuple(there[:2])
    assert Scope("", "web").reach(there) == tuple(there)
    assert Scope("b").reach(there) == tuple(there[2:])
    assert Scope("elsewhere").reach(there) == ()


def test_the_answers_are_described() -> None:
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
