"""Checkpoints in a real API server, which somebody else writes as well: nothing gets lost."""

import contextlib
import logging
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

import checkpoint_drafts
from checkpoint_drafts import START, history
from common.errors import KubeError
from common.kube.client import KubeClient
from common.kube.connection import client_context
from common.kube.endpoints import CHECKPOINTS
from common.runtime.clock import SystemClock
from recommender.checkpoints.annotations import CheckpointDetails
from recommender.checkpoints.codec import encode, new_object, object_name
from recommender.checkpoints.running_windows import ANNOTATION, NONE, encode_windows
from recommender.checkpoints.store import (
    CheckpointDraft,
    CheckpointStore,
    WriteOutcome,
    WriteResult,
)
from recommender.metrics import RecommenderMetrics
from recommender.model.aggregates import HalfLives
from recommender.model.keys import VpaKey
from recommender.model.running import RunningWindow
from recommender.model.timestamps import instant
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from sandbox.apiserver.server import ApiServer, serve
from sandbox.cluster import Access
from sandbox.objects.store import Store
from sandbox.scenario import Scenario
from workloads import NAMESPACE, prepare

WEB = VpaKey(NAMESPACE, "web")
NAME = object_name(WEB, "app")
OBJECTS = CHECKPOINTS.as_dicts()
WINDOWS = encode_windows([RunningWindow(pod=7, end=instant(START), peak=9, oom_peak=0, last_oom=0)])
DETAILS = CheckpointDetails(windows=WINDOWS)


def draft(hours: range, *, key: VpaKey = WEB, **more: Any) -> CheckpointDraft:
    return checkpoint_drafts.draft(hours, key=key, **more)


@dataclass
class Shop:
    """An API server, and two stores that know nothing of each other."""

    client: KubeClient
    api: ApiServer
    metrics: RecommenderMetrics = field(default_factory=RecommenderMetrics)

    def store(self) -> CheckpointStore:
        return CheckpointStore(
            self.client, namespace="", half_lives=HalfLives(), metrics=self.metrics
        )

    async def stored(self, name: str = NAME) -> Any:
        return await self.client.get(OBJECTS, name, namespace=NAMESPACE)

    def put(self, status: Any, **meta: Any) -> None:
        """A checkpoint that was written by others, perhaps from before there was a schema."""
        body = msgspec.to_builtins(new_object(WEB, "app", encode(history(range(1)), START)))
        body["metadata"] |= {"uid": "1", **meta}
        resource = self.api.registry.find(OBJECTS.group, OBJECTS.version, OBJECTS.resource)
        assert resource is not None
        self.api.store.create(resource, body | {"status": status})

    def conflicts(self, reason: str) -> float | None:
        name = "vpa_recommender_checkpoint_conflicts_total"
        return self.metrics.registry.get_sample_value(name, {"reason": reason})


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    api = ApiServer(Store(), Scenario().version, SystemClock())
    async with contextlib.AsyncExitStack() as stack:
        serving = await stack.enter_async_context(serve(api))
        access = Access(serving, client_context(ca_data=serving.authority))
        client = await stack.enter_async_context(access.client("test"))
        await prepare(client)
        yield Shop(client, api)


def weight(status: Mapping[str, Any], histogram: str = "cpuHistogram") -> float:
    """The total weight as of the start."""
    found = status[histogram]
    days = (datetime.fromisoformat(found["referenceTimestamp"]) - START) / timedelta(days=1)
    return float(found["totalWeight"]) * math.exp2(days)


async def test_what_is_new_is_created_and_then_patched(shop: Shop) -> None:
    store = shop.store()
    assert (await store.write(draft(range(5)))).outcome is WriteOutcome.WRITTEN
    first = await shop.stored()
    assert (await store.write(draft(range(5)))).outcome is WriteOutcome.WRITTEN
    assert (await shop.stored()) == first, "nothing is sent twice"
    assert (await store.write(draft(range(6)))).outcome is WriteOutcome.WRITTEN
    second = await shop.stored()
    assert second["status"]["totalSamplesCount"] == 6
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert [shop.conflicts(reason) for reason in ("foreign", "less")] == [None, None]


async def test_a_checkpoint_that_came_in_the_meantime_is_read_and_not_replaced(shop: Shop) -> None:
    ours, theirs = shop.store(), shop.store()
    assert await ours.load([WEB]) == ()
    await theirs.write(draft(range(20)))
    before = await shop.stored()
    written = await ours.write(draft(range(2)))
    assert written.outcome is WriteOutcome.OVERTAKEN
    assert written.found is not None
    assert written.found.history.samples == 20
    assert await shop.stored() == before
    assert shop.conflicts("foreign") == 1


async def test_a_checkpoint_that_was_written_in_the_meantime_is_not_replaced(shop: Shop) -> None:
    ours, theirs = shop.store(), shop.store()
    await ours.write(draft(range(2)))
    await theirs.load([WEB])
    await theirs.write(draft(range(20)))
    before = await shop.stored()
    written = await ours.write(draft(range(3)))
    assert written.outcome is WriteOutcome.OVERTAKEN
    assert written.found is not None
    assert await shop.stored() == before
    assert (await ours.write(draft(range(21)))).outcome is WriteOutcome.WRITTEN, (
        "it knows what is there"
    )


async def test_the_reference_may_write_as_it_likes_and_loses_only_its_own(shop: Shop) -> None:
    """It replaces the status without a question; what it knows is in what we read."""
    ours = shop.store()
    await ours.write(draft(range(10), details=DETAILS))
    status = encode(history(range(9)), START + timedelta(hours=30))
    patch = [{"op": "replace", "path": "/status", "value": msgspec.to_builtins(status)}]
    path = OBJECTS.object(NAME, NAMESPACE)
    await shop.client.request("PATCH", path, body=patch, content_type="application/json-patch+json")
    assert ANNOTATION in (await shop.stored())["metadata"]["annotations"], "kept intact"
    written = await ours.write(draft(range(11), details=DETAILS))
    assert written.outcome is WriteOutcome.OVERTAKEN
    assert written.found is not None
    assert written.found.history.samples == 9
    assert written.found.details.windows == NONE, "they are those of another status"
    assert (await ours.write(draft(range(11), details=DETAILS))).outcome is WriteOutcome.WRITTEN
    assert (await shop.stored())["status"]["totalSamplesCount"] == 11


async def test_a_write_without_an_answer_is_nobody_else(shop: Shop) -> None:
    """It arrived all the same: the next one takes it for what it is."""
    ours = shop.store()
    await ours.write(draft(range(5)))
    async with cut_off(shop):
        with pytest.raises(KubeError):
            await ours.write(draft(range(6)))
    assert (await shop.stored())["status"]["totalSamplesCount"] == 6
    assert await ours.write(draft(range(7))) == WriteResult(outcome=WriteOutcome.OVERTAKEN)
    assert (await ours.write(draft(range(7)))).outcome is WriteOutcome.WRITTEN
    assert shop.conflicts("foreign") is None


@contextlib.asynccontextmanager
async def cut_off(shop: Shop) -> AsyncIterator[None]:
    """Answers to patches are lost on their way."""
    lost = ApiFault(calls=Calls(verb="patch"), effect=Effect(drop=True, done=True))
    forget = shop.api.faults.add(lost)
    yield
    forget()


@dataclass(frozen=True, kw_only=True)
class Less:
    id: str
    cpu: range
    memory: range
    stored: range = range(24, 48)
    forgets: bool = False
    targets: tuple[str, str] = ("Deployment/web", "Deployment/web")  # of the stored, of the draft
    kept: bool  # whether what is stored stays in it


LESS = [
    Less(id="more of both", cpu=range(24, 50), memory=range(24, 50), kept=False),
    Less(id="as much", cpu=range(24, 48), memory=range(24, 48), kept=False),
    Less(id="less CPU", cpu=range(24, 40), memory=range(24, 48), kept=True),
    Less(id="less memory", cpu=range(24, 48), memory=range(24, 40), kept=True),
    Less(id="nothing", cpu=range(0), memory=range(0), kept=True),
    Less(id="more, but it began later", cpu=range(30, 54), memory=range(24, 50), kept=False),
    Less(
        id="less, but something expired",
        cpu=range(40, 48), memory=range(40, 48), forgets=True, kept=False,
    ),
    Less(
        id="X123: less, of another target",
        cpu=range(40, 48), memory=range(40, 48), targets=("Deployment/db", "Deployment/web"),
        kept=False,
    ),
    Less(
        id="X123: less, where nothing tells the target",
        cpu=range(40, 48), memory=range(40, 48), targets=("", "Deployment/web"), kept=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", LESS, ids=lambda case: case.id)
async def test_what_is_written_never_knows_less(shop: Shop, case: Less) -> None:
    store = shop.store()
    stored, drafted = (CheckpointDetails(target=target) for target in case.targets)
    await store.write(draft(case.stored, details=stored))
    before = (await shop.stored())["status"]
    known = replace(history(case.cpu), memory=history(case.memory).memory)
    at = START + timedelta(hours=60)
    asked = CheckpointDraft(
        vpa=WEB, container="app", history=known, details=drafted, at=at, forgets=case.forgets
    )
    assert (await store.write(asked)).outcome is WriteOutcome.WRITTEN
    written = await shop.stored()
    assert written["metadata"]["annotations"]["vpa-recommender/target"] == "Deployment/web"
    after = written["status"]
    assert (shop.conflicts("less") == 1) == case.kept
    if case.forgets or not set(case.targets) <= {"", drafted.target}:
        assert after["totalSamplesCount"] == len(case.cpu)
        assert after["firstSampleStart"] > before["firstSampleStart"]
        return
    for histogram in ("cpuHistogram", "memoryHistogram"):
        assert weight(after, histogram) >= weight(before, histogram) * (1 - 1e-9)
    assert after["firstSampleStart"] <= before["firstSampleStart"]
    calls = len(list(shop.api.audit.find({})))
    assert (await store.write(asked)).outcome is WriteOutcome.WRITTEN
    assert len(list(shop.api.audit.find({}))) == calls, "the same once more costs nothing"


GARBAGE = [
    pytest.param({"version": "v4"}, id="another version"),
    pytest.param({"version": 3}, id="another type"),
    pytest.param({"version": "v3", "cpuHistogram": {"totalWeight": "NaN"}}, id="NaN"),
    pytest.param({"version": "v3", "cpuHistogram": {"totalWeight": -1}}, id="negative total"),
    pytest.param(
        {"version": "v3", "cpuHistogram": {"bucketWeights": {"3": -1}, "totalWeight": 1}},
        id="negative weight",
    ),
    pytest.param(
        {"version": "v3", "memoryHistogram": {"bucketWeights": {"176": 1}, "totalWeight": 1}},
        id="no such bucket",
    ),
    pytest.param(
        {"version": "v3", "memoryHistogram": {"bucketWeights": {"x": "y"}, "totalWeight": 1}},
        id="texts",
    ),
    pytest.param({"version": "v3", "totalSamplesCount": -5}, id="negative samples"),
    pytest.param({"version": "v3", "firstSampleStart": "yesterday"}, id="no time"),
]


@pytest.mark.parametrize("status", GARBAGE)
async def test_garbage_is_not_loaded_and_told_before_it_is_replaced(
    shop: Shop, status: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put(status)
    store = shop.store()
    assert await store.load([WEB]) == ()
    (told,) = [one for one in caplog.records if one.name.startswith("recommender")]
    assert told.getMessage() == "checkpoint not loaded, the next one will replace it"
    assert vars(told)["checkpoint"] == f"{NAMESPACE}/{NAME}"
    assert (await store.write(draft(range(3)))).outcome is WriteOutcome.WRITTEN
    assert shop.conflicts("unreadable") == 1
    assert (await shop.stored())["status"]["totalSamplesCount"] == 3


async def test_a_name_that_is_anothers_is_left_alone_and_told_once_q6(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """VPA ``a`` with container ``b-c``, and VPA ``a-b`` with container ``c``."""
    first, second = VpaKey(NAMESPACE, "a"), VpaKey(NAMESPACE, "a-b")
    store = shop.store()
    await store.write(draft(range(3), key=first, container="b-c"))
    for hours in (range(5), range(6)):
        written = await store.write(draft(hours, key=second, container="c"))
        assert written.outcome is WriteOutcome.TAKEN
    stored = await shop.stored("a-b-c")
    assert stored["spec"] == {"vpaObjectName": "a", "containerName": "b-c"}
    assert stored["status"]["totalSamplesCount"] == 3
    assert caplog.text.count("it is another container's") == 1
    await shop.client.delete(OBJECTS, "a-b-c", namespace=NAMESPACE)
    written = await store.write(draft(range(6), key=second, container="c"))
    assert written.outcome is WriteOutcome.WRITTEN


async def test_a_spec_that_changed_is_tested_with_the_patch_q6(shop: Shop) -> None:
    store = shop.store()
    await store.write(draft(range(3)))
    patch = {"spec": {"containerName": "other"}}
    path = OBJECTS.object(NAME, NAMESPACE)
    await shop.client.request(
        "PATCH", path, body=patch, content_type="application/merge-patch+json"
    )
    assert (await store.write(draft(range(4)))).outcome is WriteOutcome.TAKEN
    assert (await shop.stored())["status"]["totalSamplesCount"] == 3


async def test_one_that_was_deleted_is_created_again(shop: Shop) -> None:
    store = shop.store()
    await store.write(draft(range(3)))
    await shop.client.delete(OBJECTS, NAME, namespace=NAMESPACE)
    assert (await store.write(draft(range(4)))).outcome is WriteOutcome.WRITTEN
    assert (await shop.stored())["status"]["totalSamplesCount"] == 4


# The running memory windows beside it


async def test_running_windows_stand_beside_the_history_and_other_annotations_stay(
    shop: Shop,
) -> None:
    store = shop.store()
    status = encode(history(range(3)), START)
    shop.put(msgspec.to_builtins(status), annotations={"example.com/owner": "me"})
    await store.load([WEB])
    await store.write(draft(range(4), details=DETAILS))
    annotations = (await shop.stored())["metadata"]["annotations"]
    assert annotations.keys() == {"example.com/owner", ANNOTATION}
    (found,) = await shop.store().load([WEB])
    assert found.details.windows == WINDOWS
    await store.write(draft(range(5)))
    assert (await shop.stored())["metadata"]["annotations"] == {"example.com/owner": "me"}
    (found,) = await shop.store().load([WEB])
    assert found.details.windows == NONE


async def test_running_windows_alone_are_worth_a_write(shop: Shop) -> None:
    """Usage of memory alone changes nothing else for a day."""
    store = shop.store()
    await store.write(draft(range(4)))
    before = (await shop.stored())["metadata"]["resourceVersion"]
    await store.write(draft(range(4), details=DETAILS))
    after = (await shop.stored())["metadata"]["resourceVersion"]
    assert after != before
    await store.write(draft(range(4), details=DETAILS))
    assert (await shop.stored())["metadata"]["resourceVersion"] == after


async def test_a_restart_finds_nothing_to_write_where_all_is_equal(shop: Shop) -> None:
    await shop.store().write(draft(range(4), details=DETAILS))
    before = await shop.stored()
    store = shop.store()
    await store.load([WEB])
    await store.write(draft(range(4), details=DETAILS))
    assert await shop.stored() == before


@pytest.mark.parametrize(
    "text",
    ["", "{", "7", '{"windows": 7', '{"lastUpdateTime": "never"}', '{"totalSamplesCount": "1"}'],
)
async def test_garbage_in_the_annotation_costs_the_windows_alone(
    shop: Shop, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="recommender")
    status = encode(history(range(3)), START)
    shop.put(msgspec.to_builtins(status), annotations={ANNOTATION: text})
    (found,) = await shop.store().load([WEB])
    assert found.history.samples == 3
    assert found.details.windows == NONE
    assert caplog.text.count("running memory windows of a checkpoint not loaded") == 1


async def test_a_copy_under_another_name_is_read_but_never_written(shop: Shop) -> None:
    shop.put(msgspec.to_builtins(encode(history(range(3)), START)), name="backup")
    store = shop.store()
    (found,) = await store.load([WEB])
    assert found.history.samples == 3
    await store.write(draft(range(4)))
    assert (await shop.stored("backup"))["status"]["totalSamplesCount"] == 3
    assert (await shop.stored())["status"]["totalSamplesCount"] == 4
