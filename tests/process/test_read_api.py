"""The read API of the three processes: every answer has the type that clients decode."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import aiohttp
import msgspec

from common.read_model.admission import (
    ADMISSIONS_PATH,
    REGISTRATION_PATH,
    AdmissionList,
    RegistrationState,
)
from common.read_model.page import Overview, PassInfo
from common.read_model.recommender import VPA_PATH, VPAS_PATH, VpaDetail, VpaList
from common.read_model.updater import (
    ACTIONS_PATH,
    PLAN_PATH,
    ActionList,
    ActionOutcome,
    PlanList,
)
from component import LOOPBACK, Process
from process_harness import AGENTS, World, world
from workloads import NAMESPACE, deploy

T = TypeVar("T")

SMALL, LARGE = {"cpu": "800m", "memory": "1Gi"}, {"cpu": "100m", "memory": "128Mi"}
ROOT = "/api/v1"


async def fetch(
    process: Process, path: str, **headers: str
) -> tuple[int, bytes, Mapping[str, str]]:
    """Return status, body and headers of an answer."""
    async with (
        aiohttp.ClientSession(f"http://{LOOPBACK}:{process.ops}") as session,
        session.get(path, headers=headers) as answer,
    ):
        return answer.status, await answer.read(), answer.headers


async def read(process: Process, path: str, kind: type[T]) -> T:
    """Return an answer, which has to agree with its type and with /openapi.json."""
    status, body, headers = await fetch(process, path)
    assert (status, headers["content-type"]) == (200, "application/json"), body
    document = msgspec.json.decode((await fetch(process, "/openapi.json"))[1])
    schema = next(
        each["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        for pattern, each in document["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path.partition("?")[0])
    )
    assert schema["$ref"].rpartition("/")[2] == kind.__name__
    for reference in re.findall(r'"\$ref":"#/([^"]+)"', msgspec.json.encode(schema).decode()):
        assert resolves(document, reference), reference
    found = msgspec.json.decode(body, type=kind)
    assert json.loads(msgspec.json.encode(found)) == json.loads(body), "an undescribed field"
    return found


def resolves(document: Any, reference: str) -> bool:
    """Return whether a reference of a document has a target."""
    for part in reference.split("/"):
        document = document.get(unquote(part).replace("~1", "/"))
    return document is not None


async def test_the_answers_describe_what_the_components_did(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        recommender, updater, admission = await it.start_all()
        await deploy(it.client, "small", replicas=3, requests=SMALL)
        await deploy(it.client, "large", replicas=2, requests=LARGE, mode="InPlaceOrRecreate")
        await deploy(it.client, "advice", replicas=1, requests=SMALL, mode="Off")
        await it.until(lambda: it.fits("small", 3) and it.fits("large", 2))
        await it.passes(recommender, updater)

        await check_recommender(it, recommender)
        await check_updater(it, updater)
        await check_admission(admission)
        for process in (recommender, updater, admission):
            overview = await read(process, ROOT, Overview)
            assert (overview.leading, overview.leader) == (None, None)
            assert isinstance(overview.last_pass, PassInfo) == (process is not admission)
            listed = msgspec.json.decode((await fetch(process, "/"))[1])["paths"]
            served = {each["path"] for each in listed if each["path"].startswith(ROOT)}
            assert {each.path for each in overview.paths} == served
        for component in AGENTS:
            assert it.undeclared(component) == set()


async def check_recommender(it: World, process: Process) -> None:
    vpas = await read(process, VPAS_PATH, VpaList)
    assert [(vpa.namespace, vpa.name, vpa.mode, vpa.pods) for vpa in vpas.items] == [
        (NAMESPACE, "advice", "Off", 1),
        (NAMESPACE, "large", "InPlaceOrRecreate", 2),
        (NAMESPACE, "small", "Recreate", 3),
    ]
    small = vpas.items[2]
    (app,) = small.containers
    assert app.target == it.target("small") == app.uncapped_target
    assert app.lower_bound.keys() == app.upper_bound.keys() == {"cpu", "memory"}
    assert app.samples > 0
    assert app.first_sample is not None
    assert app.last_sample is not None
    assert app.first_sample < app.last_sample
    assert 0 < app.confidence["cpu"] <= 1
    assert small.target_ref is not None
    assert small.target_ref.name == "small"
    assert small.checkpointed_at is not None
    provided = {each.type: each.status for each in small.conditions}
    assert provided["RecommendationProvided"] == "True"

    place = VPA_PATH.format(namespace=NAMESPACE, name="small")
    detail = await read(process, place, VpaDetail)
    assert detail.summary.name == "small"
    assert detail.explanation is not None
    (explained,) = detail.explanation.containers
    ((_, published),) = [
        (each.amount, each.published)
        for each in explained.numbers
        if (each.resource, each.amount) == ("cpu", "target")
    ]
    assert published == app.target["cpu"]
    ((name, (cpu, memory)),) = [(one.name, one.histograms) for one in detail.containers]
    assert (name, cpu.resource, cpu.unit) == ("app", "cpu", "millicores")
    assert (memory.resource, memory.unit) == ("memory", "bytes")
    assert sum(bucket.share for bucket in cpu.buckets) == 1
    at_target = next(each.amount for each in cpu.curve if each.fraction == cpu.target)
    assert f"{at_target + int(at_target * cpu.margin)}m" == app.target["cpu"]
    amounts = [each.amount for each in memory.curve]
    assert len(amounts) == 101
    assert amounts == sorted(amounts)
    missing = VPA_PATH.format(namespace=NAMESPACE, name="missing")
    assert (await fetch(process, missing))[0] == 404


async def check_updater(it: World, process: Process) -> None:
    plan = await read(process, PLAN_PATH, PlanList)
    by_name = {vpa.name: vpa for vpa in plan.items}
    assert {name: len(vpa.pods) for name, vpa in by_name.items()} == {
        "advice": 0,
        "large": 2,
        "small": 3,
    }
    assert by_name["advice"].why == "mode Off changes no running pods"
    pods = {pod.metadata.name for pod in it.pods_of("small")}
    assert {pod.name for pod in by_name["small"].pods} == pods
    pod = by_name["small"].pods[0]
    assert (pod.decision, pod.node, pod.unblock) == ("leave", "node-0", None)
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name) == ("Deployment", "small")
    assert pod.containers[0].target == it.target("small")
    assert pod.since is not None
    assert plan.metadata.last_pass is not None
    assert pod.since <= plan.metadata.last_pass.at
    assert plan.metadata.last_pass.number > 0

    actions = await read(process, ACTIONS_PATH, ActionList)
    numbers = [action.number for action in actions.items]
    assert numbers == sorted(numbers, reverse=True)
    done = {action.pod: action for action in actions.items}
    assert done.keys() == {*it.evicted(), *it.resized()}
    evicted, resized = (done[names[0]] for names in (it.evicted("small"), it.resized("large")))
    assert (evicted.action, evicted.outcome) == ("evict", ActionOutcome.REPLACED_RIGHT)
    assert evicted.replacement in pods
    assert evicted.changes.startswith("app cpu 800m -> ")
    assert (resized.action, resized.outcome) == ("resize", ActionOutcome.RESIZED)
    mine = await read(process, f"{ACTIONS_PATH}?vpa=large", ActionList)
    assert {action.pod for action in mine.items} == set(it.resized("large"))


async def check_admission(process: Process) -> None:
    admissions = await read(process, f"{ADMISSIONS_PATH}?vpa=small", AdmissionList)
    newest = admissions.items[0]
    assert (newest.outcome, newest.vpa, newest.dry_run) == ("patched", "small", False)
    assert newest.pod.startswith("small-")
    assert newest.changes.startswith("app cpu 800m -> ")
    assert 0 < newest.seconds < 10
    state = await read(process, REGISTRATION_PATH, RegistrationState)
    assert (state.registers, state.registered, state.differences) == (True, True, ())
    assert state.certificate is not None
    assert state.certificate.issuer == state.authorities[0].subject
    assert state.self_check.passed
    assert state.self_check.error is None
    text = (await fetch(process, REGISTRATION_PATH))[1].decode()
    assert "PRIVATE KEY" not in text


async def test_a_follower_names_the_leader_and_knows_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await deploy(it.client, "small", replicas=1, requests=SMALL)
        leader = await it.start("updater", "--leader-elect")
        await it.ready(leader)
        await it.passes(leader, times=1)
        follower = await it.start_standby("updater", "--leader-elect")
        await it.until(lambda: bool(follower.said("another replica leads")))
        first, second = [await read(each, ROOT, Overview) for each in (leader, follower)]
        assert (first.leading, first.leader) == (True, first.identity)
        assert (second.leading, second.leader) == (False, first.identity)
        known, unknown = [await read(each, PLAN_PATH, PlanList) for each in (leader, follower)]
        assert [vpa.name for vpa in known.items] == ["small"]
        assert unknown.items == ()
        assert (unknown.metadata.leading, unknown.metadata.last_pass) == (False, None)


async def test_the_read_api_can_be_switched_off(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        updater = await it.start("updater", "--read-api=false")
        await it.ready(updater)
        assert (await fetch(updater, PLAN_PATH))[0] == 404
        assert (await fetch(updater, "/"))[0] == 200


async def test_an_unchanged_answer_is_not_sent_again(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await deploy(it.client, "small", replicas=1, requests=SMALL)
        updater = await it.start("updater", "--updater-interval=5s")
        await it.ready(updater)
        await it.passes(updater, times=1)
        status, body, headers = await fetch(updater, PLAN_PATH)
        assert (status, bool(body)) == (200, True)
        tag = {"If-None-Match": headers["etag"]}
        assert (await fetch(updater, PLAN_PATH, **tag))[:2] == (304, b"")
        assert (await fetch(updater, f"{PLAN_PATH}?limit=7", **tag))[0] == 200
        await it.passes(updater, times=1)
        assert (await fetch(updater, PLAN_PATH, **tag))[0] == 200
