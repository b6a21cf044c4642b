"""Hostile names and annotations of checkpoints: a write changes only its own object."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from checkpoint_drafts import START, draft, history
from common.kube.client import KubeClient
from common.kube.endpoints import CHECKPOINTS
from fake_api import FakeApi, Reply, listing, named, status
from hostile_texts import NEIGHBOURS
from recommender.checkpoints.checkpoint_annotations import TARGET, CheckpointDetails
from recommender.checkpoints.checkpoint_store import CheckpointStore, WriteOutcome
from recommender.checkpoints.codec import encode
from recommender.checkpoints.window_annotation import ANNOTATION, NONE
from recommender.metrics import RecommenderMetrics
from recommender.model.aggregates import HalfLives
from recommender.model.keys import VpaKey

COLLECTION = CHECKPOINTS.collection("shop")
WEB = VpaKey("shop", "web")
DEEP = "[" * 9900 + "]" * 9900


def store_of(client: KubeClient) -> CheckpointStore:
    return CheckpointStore(
        client, namespace="", half_lives=HalfLives(), metrics=RecommenderMetrics()
    )


def stored(
    key: VpaKey, container: str, version: int = 1, annotations: Mapping[str, str] | None = None
) -> Any:
    """Return a checkpoint as in a response of an API server."""
    found = named(f"{key.name}-{container}", version, status=STATUS)
    found["spec"] = {"vpaObjectName": key.name, "containerName": container}
    found["metadata"]["annotations"] = annotations or {}
    return found


STATUS = msgspec.to_builtins(encode(history(range(3)), START))
PLACES = {
    "VPA": lambda text: (VpaKey("shop", text), "app"),
    "container": lambda text: (WEB, text),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("text", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
async def test_a_write_changes_only_the_checkpoint_of_its_name(text: str, place: Any) -> None:
    key, container = place(text)
    name = f"{key.name}-{container}"
    ours = f"{COLLECTION}/{quote(name, safe='')}"
    async with FakeApi() as api, api.client() as client:
        store = store_of(client)
        api.on(f"POST {COLLECTION}", Reply(status=201, body=stored(key, container)))
        answers = Reply(body=stored(key, container, 2)), status(409, "Conflict")
        api.on(f"PATCH {COLLECTION}/{name}", *answers)
        api.on(f"GET {COLLECTION}", listing(stored(key, container, 3)))
        for hours in (3, 5, 7):
            await store.write(draft(range(hours), key=key, container=container))
        created, patched, refused, found = api.requests
    assert created.target == COLLECTION
    assert created.json()["metadata"]["name"] == name
    assert created.json()["spec"] == {"vpaObjectName": key.name, "containerName": container}
    assert patched.target == refused.target == ours
    assert found.path == COLLECTION
    assert found.query["fieldSelector"] == f"metadata.name={name}"
    assert found.query.keys() <= {"fieldSelector", "limit", "resourceVersion"}


TEXTS = {
    **NEIGHBOURS,
    "nothing": "",
    "nesting": DEEP,
    "nesting in an object": f'{{"x": {DEEP}}}',
    "nesting windows": f'{{"windows": {DEEP}}}',
    "long number": f'{{"totalSamplesCount": {"9" * 5000}}}',
    "long text": "x" * 100_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_no_annotation_loses_the_history_or_is_written_back(text: str) -> None:
    async with FakeApi() as api, api.client() as client:
        store = store_of(client)
        there = stored(WEB, "app", annotations={ANNOTATION: text, TARGET: text})
        api.on(f"GET {CHECKPOINTS.collection()}", listing(there))
        api.on(f"PATCH {COLLECTION}/web-app", Reply(body=stored(WEB, "app", 2)))
        (found,) = await store.load([WEB])
        wanted = CheckpointDetails(target="Deployment/web")
        answer = await store.write(draft(range(4), key=WEB, details=wanted))
        operations = api.requests[-1].json()
    assert found.history.samples == 3
    assert found.details == CheckpointDetails(target=text, windows=NONE)
    assert answer.outcome is WriteOutcome.WRITTEN
    written = {each["path"]: each.get("value") for each in operations}
    assert written["/metadata/annotations/vpa-recommender~1target"] == "Deployment/web"
    assert written["/metadata/annotations/vpa-recommender~1memory-windows"] is None
