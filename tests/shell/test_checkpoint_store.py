"""Checkpoints in an API server with other writers: no history is lost."""

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
from common.kube.endpoints import CHECKPOINTS
from common.runtime.clock import SystemClock
from recommender.checkpoints.checkpoint_annotations import CheckpointDetails
from recommender.checkpoints.checkpoint_store import (
    CheckpointDraft,
    CheckpointStore,
    WriteOutcome,
    WriteResult,
)
from recommender.checkpoints.codec import encode, new_object, object_name
from recommender.checkpoints.window_annotation import ANNOTATION, NONE, encode_windows
from recommender.metrics import RecommenderMetrics
from recommender.model.aggregates import HalfLives
from recommender.model.keys import VpaKey
from recommender.model.running_windows import RunningWindow
from recommender.model.timestamps import instant
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from sandbox.apiserver.server import ApiServer, serve
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
class Stores:
    """An API server with independent checkpoint stores."""

    client: KubeClient
    api: ApiServer
    metrics: RecommenderMetrics = field(default_factory=RecommenderMetrics)

    def store(self) -> CheckpointStore:
        return CheckpointStore(
            self.client, namespace="", half_lives=HalfLives(), metrics=self.metrics
        )

    async def stored(self, name: str = NAME) -> Any:
        return await self.client.get(OBJECTS, name, namespace=NAMESPACE)

    def store_foreign(self, status: Any, **meta: Any) -> None:
        """Store a checkpoint of another writer without validation."""
        body = msgspec.to_builtins(new_object(WEB, "app", encode(history(range(1)), START)))
        body["metadata"] |= {"uid": "1", **meta}
        resource = self.api.registry.find(OBJECTS.group, OBJECTS.version, OBJECTS.resource)
        assert resource is not None
        self.api.store.create(resource, body | {"status": status})

    def conflict_count(self, reason: str) -> float | None:
        name = "vpa_recommender_checkpoint_conflicts_total"
        return self.metrics.registry.get_sample_value(name, {"reason": reason})


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    api = ApiServer(Store(), Scenario().version, SystemClock())
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(api))
        client = await stack.enter_async_context(served.client("test"))
        await prepare(client)
        yield Stores(client, api)


def weight(status: Mapping[str, Any], histogram: str = "cpuHistogram") -> float:
    """Return the total weight at the start."""
    found = status[histogram]
    days = (datetime.fromisoformat(found["referenceTimestamp"]) - START) / timedelta(days=1)
    return float(found["totalWeight"]) * math.exp2(days)


async def test_a_new_checkpoint_is_created_and_then_patched(stores: Stores) -> None:
    store = stores.store()
    assert (await store.write(draft(range(5)))).outcome is WriteOutcome.WRITTEN
    first = await stores.stored()
    assert (await store.write(draft(range(5)))).outcome is WriteOutcome.WRITTEN
    assert (await stores.stored()) == first, "an equal checkpoint is not sent again"
    assert (await store.write(draft(range(6)))).outcome is WriteOutcome.WRITTEN
    second = await stores.stored()
    assert second["status"]["totalSamplesCount"] == 6
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert [stores.conflict_count(reason) for reason in ("foreign", "less")] == [None, None]


async def test_a_checkpoint_created_meanwhile_is_read_and_not_replaced(stores: Stores) -> None:
    ours, theirs = stores.store(), stores.store()
    assert await ours.load([WEB]) == ()
    await theirs.write(draft(range(20)))
    before = await stores.stored()
    written = await ours.write(draft(range(2)))
    assert written.outcome is WriteOutcome.OVERTAKEN
    assert written.found is not None
    assert written.found.history.samples == 20
    assert await stores.stored() == before
    assert stores.conflict_count("foreign") == 1


async def test_a_checkpoint_written_meanwhile_is_not_replaced(stores: Stores) -> None:
    ours, theirs = stores.store(), stores.store()
    await ours.write(draft(range(2)))
    await theirs.load([WEB])
    await theirs.write(draft(range(20)))
    before = await stores.stored()
    written = await ours.write(draft(range(3)))
    assert written.outcome is WriteOutcome.OVERTAKEN
    assert written.found is not None
    assert await stores.stored() == before
    assert (await ours.write(draft(range(21)))).outcome is WriteOutcome.WRITTEN, (
        "it has the stored history"
    )


async def test_a_write_of_the_reference_is_returned_before_the_next_write(stores: Stores) -> None:
    """The reference replaces the status without a precondition; we read its history back."""
    ours = stores.store()
    await ours.write(draft(range(10), details=DETAILS))
    status = encode(history(range(9)), START + timedelta(hours=30))
    patch = [{"op": "replace", "path": "/status", "value": msgspec.to_builtins(status)}]
    path = OBJECTS.object(NAME, NAMESPACE)
    await stores.client.request(
        "PATCH", path, body=patch, content_type="application/json-patch+json"
    )
    assert ANNOTATION in (await stores.stored())["metadata"]["annotations"], (
        "the annotation is kept"
    )
    written = await ours.write(draft(range(11), details=DETAILS))
    assert written.outcome is WriteOutcome.OVERTAKEN
    assert written.found is not None
    assert written.found.history.samples == 9
    assert written.found.details.windows == NONE, "they belong to another status"
    assert (await ours.write(draft(range(11), details=DETAILS))).outcome is WriteOutcome.WRITTEN
    assert (await stores.stored())["status"]["totalSamplesCount"] == 11


async def test_a_write_without_a_response_is_recognized_as_our_own(stores: Stores) -> None:
    """The write was carried out; the next one recognizes it."""
    ours = stores.store()
    await ours.write(draft(range(5)))
    async with lost_responses(stores):
        with pytest.raises(KubeError):
            await ours.write(draft(range(6)))
    assert (await stores.stored())["status"]["totalSamplesCount"] == 6
    assert await ours.write(draft(range(7))) == WriteResult(outcome=WriteOutcome.OVERTAKEN)
    assert (await ours.write(draft(range(7)))).outcome is WriteOutcome.WRITTEN
    assert stores.conflict_count("foreign") is None


@contextlib.asynccontextmanager
async def lost_responses(stores: Stores) -> AsyncIterator[None]:
    """Drop the responses of patches."""
    lost = ApiFault(calls=Calls(verb="patch"), effect=Effect(drop=True, done=True))
    forget = stores.api.faults.add(lost)
    yield
    forget()


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    cpu: range
    memory: range
    stored: range = range(24, 48)
    forgets: bool = False
    targets: tuple[str, str] = ("Deployment/web", "Deployment/web")  # of the stored, of the draft
    kept: bool  # the stored history is still contained


CASES = [
    Case(id="more of both", cpu=range(24, 50), memory=range(24, 50), kept=False),
    Case(id="equal", cpu=range(24, 48), memory=range(24, 48), kept=False),
    Case(id="less CPU", cpu=range(24, 40), memory=range(24, 48), kept=True),
    Case(id="less memory", cpu=range(24, 48), memory=range(24, 40), kept=True),
    Case(id="no samples", cpu=range(0), memory=range(0), kept=True),
    Case(id="more, but with a later start", cpu=range(30, 54), memory=range(24, 50), kept=False),
    Case(
        id="less, because history expired",
        cpu=range(40, 48), memory=range(40, 48), forgets=True, kept=False,
    ),
    Case(
        id="X123: less, of another target",
        cpu=range(40, 48), memory=range(40, 48), targets=("Deployment/db", "Deployment/web"),
        kept=False,
    ),
    Case(
        id="X123: less, with an unknown target",
        cpu=range(40, 48), memory=range(40, 48), targets=("", "Deployment/web"), kept=True,
    ),
]  # fmt: skip  # a table: a row or two for each case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_write_never_loses_history(stores: Stores, case: Case) -> None:
    store = stores.store()
    stored, drafted = (CheckpointDetails(target=target) for target in case.targets)
    await store.write(draft(case.stored, details=stored))
    before = (await stores.stored())["status"]
    known = replace(history(case.cpu), memory=history(case.memory).memory)
    at = START + timedelta(hours=60)
    checkpoint_draft = CheckpointDraft(
        vpa=WEB, container="app", history=known, details=drafted, at=at, forgets=case.forgets
    )
    assert (await store.write(checkpoint_draft)).outcome is WriteOutcome.WRITTEN
    written = await stores.stored()
    assert written["metadata"]["annotations"]["vpa-recommender/target"] == "Deployment/web"
    after = written["status"]
    assert (stores.conflict_count("less") == 1) == case.kept
    if case.forgets or not set(case.targets) <= {"", drafted.target}:
        assert after["totalSamplesCount"] == len(case.cpu)
        assert after["firstSampleStart"] > before["firstSampleStart"]
        return
    for histogram in ("cpuHistogram", "memoryHistogram"):
        assert weight(after, histogram) >= weight(before, histogram) * (1 - 1e-9)
    assert after["firstSampleStart"] <= before["firstSampleStart"]
    calls = len(list(stores.api.audit.find({})))
    assert (await store.write(checkpoint_draft)).outcome is WriteOutcome.WRITTEN
    assert len(list(stores.api.audit.find({}))) == calls, "an equal checkpoint is not written again"


INVALID = [
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
        id="a bucket that doesn't exist",
    ),
    pytest.param(
        {"version": "v3", "memoryHistogram": {"bucketWeights": {"x": "y"}, "totalWeight": 1}},
        id="texts",
    ),
    pytest.param({"version": "v3", "totalSamplesCount": -5}, id="negative samples"),
    pytest.param({"version": "v3", "firstSampleStart": "yesterday"}, id="no time"),
]


@pytest.mark.parametrize("status", INVALID)
async def test_an_invalid_checkpoint_is_logged_and_replaced(
    stores: Stores, status: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stores.store_foreign(status)
    store = stores.store()
    assert await store.load([WEB]) == ()
    (record,) = [one for one in caplog.records if one.name.startswith("recommender")]
    assert record.getMessage() == "checkpoint not loaded, the next one will replace it"
    assert vars(record)["checkpoint"] == f"{NAMESPACE}/{NAME}"
    assert (await store.write(draft(range(3)))).outcome is WriteOutcome.WRITTEN
    assert stores.conflict_count("unreadable") == 1
    assert (await stores.stored())["status"]["totalSamplesCount"] == 3


async def test_the_name_of_another_checkpoint_is_not_written_and_logged_once_q6(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """VPA ``a`` with container ``b-c``, and VPA ``a-b`` with container ``c``."""
    first, second = VpaKey(NAMESPACE, "a"), VpaKey(NAMESPACE, "a-b")
    store = stores.store()
    await store.write(draft(range(3), key=first, container="b-c"))
    for hours in (range(5), range(6)):
        written = await store.write(draft(hours, key=second, container="c"))
        assert written.outcome is WriteOutcome.TAKEN
    stored = await stores.stored("a-b-c")
    assert stored["spec"] == {"vpaObjectName": "a", "containerName": "b-c"}
    assert stored["status"]["totalSamplesCount"] == 3
    assert caplog.text.count("it is another container's") == 1
    await stores.client.delete(OBJECTS, "a-b-c", namespace=NAMESPACE)
    written = await store.write(draft(range(6), key=second, container="c"))
    assert written.outcome is WriteOutcome.WRITTEN


async def test_a_spec_that_changed_is_tested_with_the_patch_q6(stores: Stores) -> None:
    store = stores.store()
    await store.write(draft(range(3)))
    patch = {"spec": {"containerName": "other"}}
    path = OBJECTS.object(NAME, NAMESPACE)
    await stores.client.request(
        "PATCH", path, body=patch, content_type="application/merge-patch+json"
    )
    assert (await store.write(draft(range(4)))).outcome is WriteOutcome.TAKEN
    assert (await stores.stored())["status"]["totalSamplesCount"] == 3


async def test_a_deleted_checkpoint_is_created_again(stores: Stores) -> None:
    store = stores.store()
    await store.write(draft(range(3)))
    await stores.client.delete(OBJECTS, NAME, namespace=NAMESPACE)
    assert (await store.write(draft(range(4)))).outcome is WriteOutcome.WRITTEN
    assert (await stores.stored())["status"]["totalSamplesCount"] == 4


# The current memory windows in the annotation


async def test_current_windows_are_an_annotation_and_others_are_kept(
    stores: Stores,
) -> None:
    store = stores.store()
    status = encode(history(range(3)), START)
    stores.store_foreign(msgspec.to_builtins(status), annotations={"example.com/owner": "me"})
    await store.load([WEB])
    await store.write(draft(range(4), details=DETAILS))
    annotations = (await stores.stored())["metadata"]["annotations"]
    assert annotations.keys() == {"example.com/owner", ANNOTATION}
    (found,) = await stores.store().load([WEB])
    assert found.details.windows == WINDOWS
    await store.write(draft(range(5)))
    assert (await stores.stored())["metadata"]["annotations"] == {"example.com/owner": "me"}
    (found,) = await stores.store().load([WEB])
    assert found.details.windows == NONE


async def test_changed_windows_are_written(stores: Stores) -> None:
    """Memory usage changes only the windows for a day."""
    store = stores.store()
    await store.write(draft(range(4)))
    before = (await stores.stored())["metadata"]["resourceVersion"]
    await store.write(draft(range(4), details=DETAILS))
    after = (await stores.stored())["metadata"]["resourceVersion"]
    assert after != before
    await store.write(draft(range(4), details=DETAILS))
    assert (await stores.stored())["metadata"]["resourceVersion"] == after


async def test_a_restart_writes_nothing_if_all_is_equal(stores: Stores) -> None:
    await stores.store().write(draft(range(4), details=DETAILS))
    before = await stores.stored()
    store = stores.store()
    await store.load([WEB])
    await store.write(draft(range(4), details=DETAILS))
    assert await stores.stored() == before


@pytest.mark.parametrize(
    "text",
    ["", "{", "7", '{"windows": 7', '{"lastUpdateTime": "never"}', '{"totalSamplesCount": "1"}'],
)
async def test_an_invalid_annotation_loses_only_the_windows(
    stores: Stores, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="recommender")
    status = encode(history(range(3)), START)
    stores.store_foreign(msgspec.to_builtins(status), annotations={ANNOTATION: text})
    (found,) = await stores.store().load([WEB])
    assert found.history.samples == 3
    assert found.details.windows == NONE
    assert caplog.text.count("running memory windows of a checkpoint not loaded") == 1


async def test_a_copy_under_another_name_is_read_but_never_written(stores: Stores) -> None:
    stores.store_foreign(msgspec.to_builtins(encode(history(range(3)), START)), name="backup")
    store = stores.store()
    (found,) = await store.load([WEB])
    assert found.history.samples == 3
    await store.write(draft(range(4)))
    assert (await stores.stored("backup"))["status"]["totalSamplesCount"] == 3
    assert (await stores.stored())["status"]["totalSamplesCount"] == 4
