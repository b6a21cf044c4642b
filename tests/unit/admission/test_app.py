"""The webhook's answers: no pod is refused, and each gets an answer in time."""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asgi
from admission.pod_reviews import LookupFailedError, VpaMatch
from builders import recommendation, vpa
from common.api.autoscaling import ContainerPolicy, GenericStartupBoost, StartupBoost
from common.api.meta import ObjectMeta
from webhook_harness import FakeCluster, Harness, pod_request, vpa_request

POD = {
    "metadata": {"generateName": "web-", "labels": {"app": "web"}, "creationTimestamp": None},
    "spec": {
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": None}}]
    },
}
WEB = vpa(recommendations=(recommendation(target={"cpu": "250m"}),))
ALLOWED = {"uid": "u-1", "allowed": True}


async def test_a_pod_with_a_vpa_is_patched_and_counted() -> None:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    response = await harness.review(pod_request(POD, namespace="shop"))
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    assert {
        "op": "add",
        "path": "/spec/containers/0/resources/requests/cpu",
        "value": "250m",
    } in response["patch"]
    assert harness.counted("Pod", "patched") == 1
    assert [meta.namespace for meta in harness.cluster.asked] == ["shop"]


@pytest.mark.parametrize(
    ("fields", "logged"),
    [
        pytest.param({}, {"pod": "shop/web-%"}, id="generateName"),
        pytest.param({"name": "web-0"}, {"pod": "shop/web-0"}, id="a name"),
        pytest.param({"dryRun": True}, {"pod": "shop/web-%", "dry_run": True}, id="a dry run"),
        pytest.param({"dryRun": False}, {"pod": "shop/web-%"}, id="no dry run"),
        pytest.param({"dryRun": "yes"}, {"pod": "shop/web-%"}, id="an invalid dryRun"),
    ],
)
async def test_x114_each_patched_pod_is_logged_in_one_line(
    fields: dict[str, Any], logged: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    with caplog.at_level(logging.INFO):
        await harness.review(pod_request(POD, namespace="shop") | fields)
    (line,) = caplog.records
    assert line.message == "pod patched"
    own = {"pod", "vpa", "changes", "dry_run"} & vars(line).keys()
    changed = {"vpa": "shop/web", "changes": "app cpu 1 -> 250m"}
    assert {name: vars(line)[name] for name in own} == logged | changed


async def test_x114_a_pod_with_an_invalid_name_is_patched(caplog: pytest.LogCaptureFixture) -> None:
    strange = POD | {"metadata": {"generateName": 7}}
    with caplog.at_level(logging.INFO):
        response = await Harness(FakeCluster(VpaMatch(WEB))).review(pod_request(strange))
    assert "patch" in response
    (line,) = caplog.records
    assert vars(line)["pod"] == "default/7%"


async def test_x114_an_unchanged_pod_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        await Harness(FakeCluster()).review(pod_request(POD))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("cluster", "outcome"),
    [
        pytest.param(FakeCluster(), "no_vpa", id="no VPA"),
        pytest.param(FakeCluster(VpaMatch(off=True)), "off", id="only a VPA of mode Off"),
        pytest.param(
            FakeCluster(VpaMatch(WEB), synced=False), "not_synced", id="caches have not synced"
        ),
        pytest.param(FakeCluster(LookupFailedError("gone")), "lookup_failed", id="owner unknown"),
        pytest.param(FakeCluster(KeyError("bug")), "error", id="an unexpected error"),
        pytest.param(
            FakeCluster(VpaMatch(vpa(recommendations=(recommendation(target={"cpu": "lots"}),)))),
            "error",
            id="a VPA with an invalid target",
        ),
        pytest.param(
            FakeCluster(VpaMatch(vpa(mode="FromTheFuture", recommendations=()))),
            "patched",
            id="a VPA of an unknown mode acts like Initial",
        ),
    ],
)
async def test_every_pod_is_allowed(cluster: FakeCluster, outcome: str) -> None:
    harness = Harness(cluster)
    response = await harness.review(pod_request(POD))
    assert response["allowed"]
    assert ("patch" in response) == (outcome == "patched")
    assert harness.counted("Pod", outcome) == 1


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("lots", id="an invalid quantity"),
        pytest.param("-1", id="negative: the API server would refuse the pod"),
    ],
)
async def test_an_invalid_recommendation_is_logged_in_one_line(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    strange = vpa("odd", recommendations=(recommendation(target={"cpu": target}),))
    harness = Harness(FakeCluster(VpaMatch(strange)))
    assert await harness.review(pod_request(POD)) == ALLOWED
    assert harness.counted("Pod", "error") == 1
    (record,) = caplog.records
    assert record.exc_info is None
    assert vars(record)["vpa"] == "odd"
    assert target in vars(record)["error"]


async def test_a_boost_without_its_number_prevents_the_patch_and_not_the_pod() -> None:
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor"))
    broken = vpa(policies=(ContainerPolicy(container_name="*", startup_boost=boost),))
    harness = Harness(FakeCluster(VpaMatch(broken)), gates="CPUStartupBoost=true")
    assert await harness.review(pod_request(POD)) == ALLOWED
    assert harness.counted("Pod", "error") == 1


async def test_a_hanging_lookup_is_cancelled() -> None:
    class Hanging(FakeCluster):
        async def match(self, pod: ObjectMeta) -> VpaMatch:
            await asyncio.Event().wait()
            raise AssertionError(pod)

    harness = Harness(Hanging(), lookup_timeout=0.0)
    assert await harness.review(pod_request(POD)) == ALLOWED
    assert harness.counted("Pod", "timed_out") == 1


@pytest.mark.parametrize(
    ("query", "outcome"),
    [
        pytest.param("timeout=0s", "timed_out", id="no time"),
        pytest.param("dryRun=All&timeout=0s", "timed_out", id="among other parameters"),
        pytest.param("timeout=1s", "patched", id="one second: a quarter is enough"),
        pytest.param("timeout=30s", "patched", id="the maximum"),
        pytest.param("timeout=999999s", "patched", id="longer than the maximum"),
        pytest.param("timeout=0", "patched", id="without a unit"),
        pytest.param("mytimeout=0s", "patched", id="another parameter"),
        pytest.param("timeout=-1s", "patched", id="negative"),
        pytest.param("", "patched", id="no parameter"),
    ],
)
async def test_the_deadline_follows_the_timeout_parameter_of_the_api_server(
    query: str, outcome: str
) -> None:
    class Slow(FakeCluster):
        async def match(self, pod: ObjectMeta) -> VpaMatch:
            await asyncio.sleep(0.001)
            return await super().match(pod)

    harness = Harness(Slow(VpaMatch(WEB)))
    body = json.dumps({"request": pod_request(POD)}).encode()
    await harness.post(body, query=query)
    assert harness.counted("Pod", outcome) == 1


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(None, id="null"),
        pytest.param(7, id="a number"),
        pytest.param([], id="a list"),
        pytest.param({}, id="empty"),
        pytest.param({"metadata": None}, id="no metadata"),
        pytest.param({"metadata": {}, "spec": 7}, id="a number for the spec"),
        pytest.param({"metadata": {}, "spec": {"containers": None}}, id="null containers"),
        pytest.param({"metadata": {}, "spec": {"containers": [None]}}, id="a null container"),
        pytest.param(
            {"metadata": {}, "spec": {"containers": [{"resources": {}}]}}, id="no container name"
        ),
        pytest.param({"metadata": {"annotations": []}, "spec": {}}, id="a list of annotations"),
        pytest.param({"metadata": {"labels": {"a": 1}}}, id="a label that is a number"),
    ],
)
async def test_a_malformed_pod_is_allowed(pod: object) -> None:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    response = await harness.review(pod_request(pod))
    assert response["allowed"]
    assert "status" not in response


async def test_a_pod_with_an_invalid_quantity_passes_unchanged() -> None:
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "x"}}}]},
    }
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    assert await harness.review(pod_request(pod)) == ALLOWED
    assert harness.counted("Pod", "error") == 1


async def test_a_pod_of_another_version_passes_unchanged() -> None:
    request = pod_request(POD)
    request["resource"] = {"group": "", "version": "v2", "resource": "pods"}
    assert await Harness(FakeCluster(VpaMatch(WEB))).review(request) == ALLOWED


async def test_another_resource_passes_unchanged() -> None:
    request = pod_request(POD)
    request["resource"] = {"group": "apps", "version": "v1", "resource": "deployments"}
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    assert await harness.review(request) == ALLOWED
    assert harness.counted("unknown", "unsupported") == 1


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "STRANGE"])
@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/health-check", "/any/thing", "/any/thing/", "*", "/a%0Ab", ""]
)
async def test_every_path_and_method_is_answered_as_a_review(method: str, path: str) -> None:
    body = json.dumps({"request": pod_request(POD)}).encode()
    status, answer = await Harness().post(body, method=method, path=path)
    assert (status, json.loads(answer)["response"]) == (200, ALLOWED)


async def test_a_body_in_chunks_is_one_review() -> None:
    body = json.dumps({"request": pod_request(POD)}).encode()
    messages = asgi.pieces(body[:10], b"", body[10:])
    status, answer = await Harness().post(b"", pieces=messages)
    assert (status, json.loads(answer)["response"]) == (200, ALLOWED)


@pytest.mark.parametrize("received", [b'{"request":', None], ids=["in the body", "before the body"])
async def test_a_client_that_disconnects_gets_no_answer_and_is_not_counted(
    received: bytes | None,
) -> None:
    messages: list[asgi.Message] = [{"type": "http.disconnect"}]
    if received is not None:
        messages.insert(0, {"type": "http.request", "body": received, "more_body": True})
    harness = Harness()
    sent: list[Any] = []

    async def receive() -> asgi.Message:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await harness.app(asgi.scope_of("POST", "/", {}), receive, send)
    assert sent == []
    assert harness.counted("unknown", "undecodable") == 0


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json; charset=utf-8"])
async def test_another_content_type_gets_an_empty_answer(content_type: str) -> None:
    harness = Harness()
    assert await harness.post(b"{}", content_type=content_type) == (200, b"")
    assert harness.counted("unknown", "content_type") == 1


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        pytest.param(b"", "undecodable", id="empty"),
        pytest.param(b"{", "undecodable", id="truncated"),
        pytest.param(b"null", "undecodable", id="null"),
        pytest.param(b"[]", "undecodable", id="a list"),
        pytest.param(b"\xff\xfe", "undecodable", id="not UTF-8"),
        pytest.param(b'{"request": null}', "undecodable", id="no request"),
        pytest.param(b'{"request": 7}', "undecodable", id="a request that is a number"),
        pytest.param(b'{"request": {"uid": 7}}', "undecodable", id="a uid that is a number"),
        pytest.param(
            b'{"request":' + b"[" * 100_000, "undecodable", id="nested 100,000 levels deep"
        ),
        pytest.param(b'{"request": {}}', "unsupported", id="an empty request"),
    ],
)
async def test_an_invalid_body_is_allowed_and_counted_with_its_reason(
    body: bytes, outcome: str
) -> None:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    status, answer = await harness.post(body)
    assert (status, json.loads(answer)["response"]) == (200, {"uid": "", "allowed": True})
    assert harness.counted("unknown", outcome) == 1


@pytest.mark.parametrize(
    ("status", "outcome"), [(413, "oversized"), (400, "refused"), (408, "refused")]
)
def test_requests_that_the_server_refuses_are_counted(status: int, outcome: str) -> None:
    harness = Harness()
    harness.metrics.refused(status)
    assert harness.counted("unknown", outcome) == 1


async def test_unknown_fields_are_ignored() -> None:
    def with_more(value: Any) -> Any:
        """Return the value with an unknown field in every object of a known type."""
        if isinstance(value, dict) and not value.keys() & {"app", "cpu"}:
            return {key: with_more(one) for key, one in value.items()} | {"future": {"new": [1]}}
        return [with_more(one) for one in value] if isinstance(value, list) else value

    old, new = Harness(FakeCluster(VpaMatch(WEB))), Harness(FakeCluster(VpaMatch(WEB)))
    request = pod_request(POD)
    assert await new.review(with_more(request)) == await old.review(request)
    assert new.counted("Pod", "patched") == 1


async def test_a_vpa_gets_the_default_update_policy() -> None:
    harness = Harness()
    spec = {"targetRef": {"kind": "Deployment", "name": "web"}}
    response = await harness.review(vpa_request({"spec": spec}))
    assert response["patch"] == [
        {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
    ]
    assert harness.counted("VPA", "patched") == 1


async def test_a_vpa_is_checked_before_the_caches_have_synced() -> None:
    harness = Harness(FakeCluster(synced=False))
    response = await harness.review(vpa_request({"spec": {"updatePolicy": {}}}))
    assert not response["allowed"]
    assert response["status"]["code"] == 422
    assert harness.counted("VPA", "denied") == 1


async def test_a_valid_vpa_passes_unchanged() -> None:
    spec = {
        "targetRef": {"kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Off"},
    }
    harness = Harness()
    assert await harness.review(vpa_request({"spec": spec})) == {"uid": "u-2", "allowed": True}
    assert harness.counted("VPA", "allowed") == 1


async def test_a_pod_does_not_wait_for_an_expensive_vpa() -> None:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    policies = [{"containerName": f"c{number}" * 200} for number in range(200)]
    spec = {"updatePolicy": {}, "resourcePolicy": {"containerPolicies": policies}}
    done: list[str] = []

    async def ask(request: Mapping[str, Any]) -> dict[str, Any]:
        response = await harness.review(request)
        done.append(request["resource"]["resource"])
        return response

    strange, another, pod = await asyncio.gather(
        ask(vpa_request({"spec": spec})),
        ask(vpa_request({"spec": spec}, old={"spec": spec})),
        ask(pod_request(POD)),
    )
    assert done == ["pods", "verticalpodautoscalers", "verticalpodautoscalers"]
    assert pod["patch"]
    assert "targetRef" in strange["status"]["message"]
    assert another["status"]["details"]["causes"][0]["field"] == "spec.updatePolicy.updateMode"


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_operations_that_write_no_vpa_are_not_validated(operation: str) -> None:
    """The registered rules exclude these operations; rules that another client writes may not."""
    request = vpa_request(None, {"spec": {"updatePolicy": {}}}) | {"operation": operation}
    harness = Harness()
    assert await harness.review(request) == {"uid": "u-2", "allowed": True}
    assert harness.counted("VPA", "unsupported") == 1


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({"spec": 7}, id="an undecodable spec"),
        pytest.param(
            {"spec": {"resourcePolicy": {"containerPolicies": [{}] * 201}}}, id="too many policies"
        ),
    ],
)
async def test_an_undecodable_old_vpa_can_be_replaced_by_a_valid_one(
    before: dict[str, Any],
) -> None:
    """X126: the new VPA is validated like a created one."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    good = {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
    assert (await Harness().review(vpa_request({"spec": good}, old=before)))["allowed"]
    bad = {"updatePolicy": {"updateMode": "Off"}}
    response = await Harness().review(vpa_request({"spec": bad}, old=before))
    assert response["status"]["details"]["causes"][0]["field"] == "spec.targetRef"


async def test_the_reference_s_metrics_count_pods_and_latency() -> None:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
    await harness.review(pod_request(POD))
    harness.cluster.found = VpaMatch()
    await harness.review(pod_request(POD))
    await harness.post(b"?")
    prefix = "vpa_admission_controller"

    def value(name: str, **labels: str) -> float | None:
        return harness.registry.get_sample_value(f"{prefix}_{name}", labels)

    assert value("admission_pods_total", applied="true") == 1
    assert value("admission_pods_total", applied="false") == 1
    latency = "admission_latency_seconds_count"
    assert value(latency, status="applied", resource="Pod") == 1
    assert value(latency, status="skipped", resource="Pod") == 1
    assert value(latency, status="error", resource="unknown") == 1
    steps = "execution_latency_seconds_count"
    counts = {"read_request": 3, "admit": 3, "build_response": 1, "write_response": 3, "total": 3}
    assert {step: value(steps, step=step) for step in counts} == counts


FIELDS = (
    *("metadata", "spec", "containers", "name", "resources", "requests", "limits", "cpu"),
    *("annotations", "labels", "ownerReferences", "status", "containerStatuses"),
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(pod=JSON)
def test_random_pods_are_allowed(pod: object) -> None:
    async def ask() -> None:
        response = await Harness(FakeCluster(VpaMatch(WEB))).review(pod_request(pod))
        assert response["allowed"]
        assert response["uid"] == "u-1"

    asyncio.run(ask())


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=64) | st.builds(lambda value: json.dumps(value).encode(), JSON))
def test_random_bodies_are_allowed(body: bytes) -> None:
    async def ask() -> None:
        status, answer = await Harness().post(body)
        assert status == 200
        assert json.loads(answer)["response"]["allowed"]

    asyncio.run(ask())
