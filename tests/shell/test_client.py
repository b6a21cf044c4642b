"""The client with a fake API server."""

import asyncio
import logging
from urllib.parse import quote

import msgspec
import pytest

from common.api.autoscaling import CheckpointSpec, VerticalPodAutoscalerCheckpoint
from common.api.meta import ObjectMeta
from common.errors import (
    ConflictError,
    DecodeError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from common.kube.client import PatchType
from common.kube.endpoints import CHECKPOINTS, PODS, SECRETS
from fake_api import FakeApi, Reply, listing, named, status
from hostile_texts import NEIGHBOURS

PODS_PATH = "/api/v1/pods"
POD = "/api/v1/namespaces/shop/pods/web"
OVERLOAD = Reply(status=429, body="Too many requests.\n", headers={"Retry-After": "0"})


class Token:
    """A token that changes at a renewal."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.renewed = 0

    async def authorization(self) -> str:
        return f"Bearer {self.tokens[min(self.renewed, len(self.tokens) - 1)]}"

    async def renew(self) -> None:
        self.renewed += 1


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path", ["/apis/x\u0001", "/apis/x\r\nHost: y", "/apis/x\u0000"], ids=ascii
)
async def test_an_invalid_request_is_an_error_with_a_reason(method: str, path: str) -> None:
    async with FakeApi() as api, api.client() as client:
        with pytest.raises(InvalidRequestError, match="can't be sent"):
            await client.request(method, path)
        assert client.reachable
    assert api.requests == []


NAMES = {case: text for case, text in NEIGHBOURS.items() if text not in (".", "..")}


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES.keys())
async def test_a_name_is_quoted_in_the_path(text: str) -> None:
    sent = f"/api/v1/namespaces/shop/pods/{quote(text, safe='')}"
    async with FakeApi() as api, api.client() as client:
        with pytest.raises(NotFoundError):
            await client.get(PODS, text, namespace="shop")
        with pytest.raises(NotFoundError):
            await client.evict("shop", text)
        with pytest.raises(NotFoundError):
            await client.resize("shop", text, [])
        assert [request.target for request in api.requests] == [
            sent,
            f"{sent}/eviction",
            f"{sent}/resize",
        ]


@pytest.mark.parametrize("text", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
async def test_a_value_cannot_add_parameters_to_a_query(text: str) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on("GET /api/v1/pods", listing())
        await client.list(PODS, field_selector=text)
        (request,) = api.requests
        assert request.query["fieldSelector"] == text
        assert request.query.keys() <= {"fieldSelector", "limit", "resourceVersion"}
        assert request.target.isascii()


async def test_get_decodes_the_object_and_sends_the_user_agent() -> None:
    async with FakeApi() as api, api.client(credentials=Token("t1")) as client:
        api.on(f"GET {POD}", Reply(body=named("web", 7)))
        pod = await client.get(PODS, "web", namespace="shop")

    assert (pod.metadata.name, pod.metadata.resource_version) == ("web", "7")
    assert api.requests[0].headers["Authorization"] == "Bearer t1"
    assert api.requests[0].headers["User-Agent"] == "test"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(OVERLOAD, id="429 as plain text"),
        pytest.param(status(503, "ServiceUnavailable"), id="503"),
        pytest.param(status(504, "Timeout", retryAfterSeconds=0), id="504"),
        pytest.param(Reply(cut=True), id="connection broken"),
    ],
)
async def test_reads_are_retried(fault: Reply) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {POD}", fault, fault, Reply(body=named("web")))
        pod = await client.get(PODS, "web", namespace="shop")
    assert pod.metadata.name == "web"
    assert len(api.requests) >= 3


async def test_a_read_gives_up_after_four_tries() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {POD}", status(503, "ServiceUnavailable"))
        with pytest.raises(ServerError) as refused:
            await client.get(PODS, "web", namespace="shop")
    assert refused.value.status == 503
    assert len(api.requests) == 4


async def test_a_read_does_not_wait_for_a_long_retry_after() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {POD}", Reply(status=429, body="no", headers={"Retry-After": "32"}))
        with pytest.raises(TooManyRequestsError) as refused:
            await client.get(PODS, "web", namespace="shop")
    assert refused.value.retry_after == 32
    assert len(api.requests) == 1


async def test_a_permanent_error_is_not_retried() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {POD}", status(403, "Forbidden"))
        with pytest.raises(ForbiddenError):
            await client.get(PODS, "web", namespace="shop")
        assert len(api.requests) == 1


@pytest.mark.parametrize("fault", [OVERLOAD, status(500, "InternalError"), Reply(cut=True)])
async def test_writes_are_never_retried(fault: Reply) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"POST {POD}/eviction", fault)
        with pytest.raises(KubeError):
            await client.evict("shop", "web")
        assert len(api.requests) == 1


async def test_a_refused_write_has_a_retry_after() -> None:
    async with FakeApi() as api, api.client() as client:
        reply = Reply(status=429, body="Too many requests.", headers={"Retry-After": "32"})
        api.on(f"POST {POD}/eviction", reply)
        with pytest.raises(TooManyRequestsError) as refused:
            await client.evict("shop", "web")
    assert refused.value.retry_after == 32


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_refused_connection_is_unreachable_with_the_cause(method: str) -> None:
    async with FakeApi() as api:
        client = api.client()
    async with client:
        with pytest.raises(UnreachableError) as failed:
            await client.request(method, "/version")
    assert failed.value.__cause__ is not None
    assert failed.value.reason == "Unreachable"
    assert not client.reachable


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_silent_server_is_unreachable_after_the_timeout(method: str) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"{method} /version", Reply(chunks=[b"{"], hold=True))
        with pytest.raises(UnreachableError, match="no answer"):
            await client.request(method, "/version", retry=False, seconds=0.05)


async def test_the_beginning_and_end_of_an_outage_are_one_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="common.kube")
    api = FakeApi()
    await api.start()
    api.on("GET /version", Reply(body={}))
    async with api.client() as client:
        await client.request("GET", "/version")
        await api.stop()
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await client.request("GET", "/version")
        await api.start()
        await client.request("GET", "/version")
        await client.request("GET", "/version")
    await api.stop()
    assert [record.message for record in caplog.records] == [
        "API server unreachable, trying again until it is back",
        "API server reachable again",
    ]


async def test_a_refused_token_is_renewed_and_the_request_sent_again() -> None:
    token = Token("old", "new")
    async with FakeApi() as api, api.client(credentials=token) as client:
        api.on(f"POST {POD}/eviction", status(401, "Unauthorized"), Reply(status=201, body={}))
        await client.evict("shop", "web")
    assert [r.headers["Authorization"] for r in api.requests] == ["Bearer old", "Bearer new"]


async def test_a_401_with_an_unchanged_token_is_not_retried() -> None:
    async with FakeApi() as api, api.client(credentials=Token("old")) as client:
        api.on(f"GET {POD}", status(401, "Unauthorized"))
        with pytest.raises(UnauthorizedError):
            await client.get(PODS, "web", namespace="shop")
    assert len(api.requests) == 1


async def test_a_list_is_fetched_page_by_page() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(
            f"GET {PODS_PATH}",
            listing(named("a"), named("b"), version=10, continue_="more"),
            listing(named("c"), version=10),
        )
        found = await client.list(
            PODS, field_selector="spec.nodeName!=", label_selector="app in (a, b)"
        )
    assert [pod.metadata.name for pod in found.items] == ["a", "b", "c"]
    assert (found.resource_version, found.undecodable) == ("10", ())
    assert api.requests[0].query == {
        "limit": "500",
        "fieldSelector": "spec.nodeName!=",
        "labelSelector": "app in (a, b)",
    }
    assert api.requests[1].query["continue"] == "more"
    assert api.requests[1].query["fieldSelector"] == "spec.nodeName!="


async def test_an_invalid_object_affects_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    strange = named("bad", status={"phase": ["no", "text"]})
    nameless: dict[str, object] = {"spec": {}}
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {PODS_PATH}", listing(named("a"), strange, nameless, named("c")))
        found = await client.list(PODS)
        whole = await client.list(PODS.as_dicts())
    assert [pod.metadata.name for pod in found.items] == ["a", "c"]
    assert len(found.undecodable) == 2
    assert len(whole.undecodable) == 1
    assert "object skipped" in caplog.records[0].message


@pytest.mark.parametrize("levels", [500, 1000, 9900])
async def test_a_deeply_nested_object_affects_only_itself(levels: int) -> None:
    deep = msgspec.Raw(b"[" * levels + b"]" * levels)
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {PODS_PATH}", listing(named("a"), named("deep", unknown=deep), named("c")))
        api.on(f"GET {POD}", Reply(body=named("web", unknown=deep)))
        found = await client.list(PODS)
        one = await client.get(PODS, "web", namespace="shop")
    assert [pod.metadata.name for pod in found.items] == ["a", "deep", "c"]
    assert one.metadata.name == "web"


async def test_a_list_whose_continue_token_expired_starts_over() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(
            f"GET {PODS_PATH}",
            listing(named("a"), version=10, continue_="more"),
            status(410, "Expired"),
            listing(named("b"), version=20),
        )
        found = await client.list(PODS)
    assert [pod.metadata.name for pod in found.items] == ["b"]
    assert found.resource_version == "20"


async def test_an_endless_list_is_an_error() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {PODS_PATH}", status(410, "Expired"))
        with pytest.raises(GoneError):
            await client.list(PODS)
    assert len(api.requests) == 4


@pytest.mark.parametrize("body", [[1, 2], "<html>", {"items": 7}])
async def test_a_response_that_is_no_list(body: object) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {PODS_PATH}", Reply(body=body))
        with pytest.raises(DecodeError):
            await client.list(PODS)


async def test_an_empty_list_may_be_null() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {PODS_PATH}", Reply(body={"metadata": {}, "items": None}))
        assert (await client.list(PODS)).items == ()


async def test_other_tasks_run_while_a_large_page_is_decoded() -> None:
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {PODS_PATH}", listing(*(named(f"p{n}") for n in range(500))))
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(tick())
            await client.list(PODS)
            ticking.cancel()
    assert turns >= 10


async def test_create_sends_api_version_and_kind() -> None:
    checkpoint = VerticalPodAutoscalerCheckpoint(
        metadata=ObjectMeta(name="web-app"), spec=CheckpointSpec(vpa_object_name="web")
    )
    path = CHECKPOINTS.collection("shop")
    async with FakeApi() as api, api.client() as client:
        api.on(f"POST {path}", Reply(status=201, body=named("web-app")))
        created = await client.create(CHECKPOINTS, checkpoint, namespace="shop")
        await client.create(CHECKPOINTS, {"metadata": {"name": "x"}}, namespace="shop")
    assert created.metadata.name == "web-app"
    assert api.requests[0].json() == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "web-app"},
        "spec": {"vpaObjectName": "web"},
    }
    assert api.requests[1].json()["kind"] == "VerticalPodAutoscalerCheckpoint"


async def test_an_existing_name_is_a_conflict_with_its_own_reason() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on("POST /api/v1/namespaces/shop/secrets", status(409, "AlreadyExists"))
        with pytest.raises(ConflictError) as taken:
            await client.create(SECRETS, {"metadata": {"name": "tls"}}, namespace="shop")
    assert taken.value.reason == "AlreadyExists"


@pytest.mark.parametrize("kind", list(PatchType))
async def test_a_patch_has_its_content_type(kind: PatchType) -> None:
    patch = [{"op": "remove", "path": "/x"}] if kind is PatchType.JSON else {"x": None}
    async with FakeApi() as api, api.client() as client:
        api.on(f"PATCH {POD}/status", Reply(body=named("web")))
        await client.patch(
            PODS, "web", patch, patch_type=kind, namespace="shop", subresource="status"
        )
    assert api.requests[0].headers["Content-Type"] == kind.value
    assert api.requests[0].json() == patch


async def test_resize_patches_the_subresource_by_json_patch() -> None:
    path = "/spec/containers/0/resources/requests/cpu"
    operations = [{"op": "replace", "path": path, "value": "1"}]
    async with FakeApi() as api, api.client() as client:
        api.on(f"PATCH {POD}/resize", Reply(body=named("web", 9)))
        pod = await client.resize("shop", "web", operations)
    assert pod.metadata.resource_version == "9"
    assert api.requests[0].headers["Content-Type"] == "application/json-patch+json"
    assert api.requests[0].json() == operations


async def test_an_eviction_refused_by_a_budget_has_the_reason() -> None:
    refusal = status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}])
    async with FakeApi() as api, api.client() as client:
        api.on(f"POST {POD}/eviction", refusal)
        with pytest.raises(TooManyRequestsError) as refused:
            await client.evict("shop", "web")
    assert refused.value.has_cause("DisruptionBudget")
    assert api.requests[0].json()["metadata"] == {"name": "web", "namespace": "shop"}


async def test_an_eviction_has_the_uid_as_a_precondition() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"POST {POD}/eviction", status(409, "Conflict"))
        with pytest.raises(ConflictError):
            await client.evict("shop", "web", uid="u1")
    assert api.requests[0].json() == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u1"}},
    }


async def test_delete_sends_its_preconditions() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"DELETE {POD}", Reply(body={}))
        await client.delete(PODS, "web", namespace="shop", uid="u1", grace_period_seconds=0)
        with pytest.raises(NotFoundError):
            await client.delete(PODS, "gone", namespace="shop")
    assert api.requests[0].json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u1"},
    }


async def test_calls_wait_for_the_rate_limit() -> None:
    async with FakeApi() as api, api.client(qps=50.0) as client:
        api.on("GET /version", Reply(body={}))
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(4):
            await client.request("GET", "/version")
        assert loop.time() - started >= 0.055  # burst 1, then 50 a second


async def test_a_separate_client_has_its_own_rate_limit() -> None:
    async with FakeApi() as api, api.client(qps=0.001) as client:
        api.on("GET /version", Reply(body={}))
        limited = client.with_rate_limit(qps=0.001, burst=2)
        async with asyncio.timeout(5):
            for _ in range(2):
                await limited.request("GET", "/version")
            await client.request("GET", "/version")
        with pytest.raises(TimeoutError):  # each has used its burst
            async with asyncio.timeout(0.01):
                await limited.request("GET", "/version")
    assert len(api.requests) == 3


class WriteGuard:
    """A guard that allows or refuses writes."""

    def __init__(self) -> None:
        self.valid = True

    def check(self) -> None:
        if not self.valid:
            raise NotLeadingError("it may have run out", reason="NotLeading")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_guarded_client_refuses_writes(method: str) -> None:
    lease = WriteGuard()
    async with FakeApi() as api, api.client() as client:
        guarded = client.guarded(lease.check)
        for route in (f"{method} {POD}", f"GET {POD}"):
            api.on(route, Reply(body={}))
        await guarded.request(method, POD)
        lease.valid = False
        with pytest.raises(NotLeadingError):
            await guarded.request(method, POD)
        await guarded.request("GET", POD)
        await client.request(method, POD)
        assert guarded.reachable
    assert api.routes == [f"{method} {POD}", f"GET {POD}", f"{method} {POD}"]


async def test_a_guarded_client_checks_after_the_rate_limit() -> None:
    lease = WriteGuard()
    async with FakeApi() as api, api.client(qps=20.0) as client:
        api.on(f"POST {POD}", Reply(body={}))
        guarded = client.guarded(lease.check)
        await guarded.request("POST", POD)
        waiting = asyncio.create_task(guarded.request("POST", POD))
        await asyncio.sleep(0)  # it waits for the rate limit
        lease.valid = False
        with pytest.raises(NotLeadingError):
            await waiting
    assert api.routes == [f"POST {POD}"]


async def test_a_guarded_client_checks_again_after_a_renewed_credential() -> None:
    lease = WriteGuard()

    class Renewed(Token):
        async def renew(self) -> None:
            await super().renew()
            lease.valid = False

    async with FakeApi() as api, api.client(credentials=Renewed("t1", "t2")) as client:
        api.on(f"POST {POD}", status(401, "Unauthorized"))
        with pytest.raises(NotLeadingError):
            await client.guarded(lease.check).request("POST", POD)
    assert api.routes == [f"POST {POD}"]


async def test_a_client_that_is_not_open_is_a_bug() -> None:
    async with FakeApi() as api:
        with pytest.raises(RuntimeError, match="not open"):
            await api.client().request("GET", "/version")


async def test_an_unreachable_server_is_not_retried() -> None:
    """A caller with many requests would otherwise wait for hours."""
    async with FakeApi() as api, api.client() as client:
        api.on("GET /api/v1/namespaces/shop/pods/web-0", Reply(cut=True))
        requests = []
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await client.get(PODS, "web-0", namespace="shop")
            requests.append(len(api.requests))
    first, both = requests
    assert both - first == first / 4
