"""Writing: identity, generations, conflicts, patches, dry runs."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from sandbox_client import Answer, Api, api_server, pod

PODS = "/api/v1/namespaces/golden/pods"
CONFIG_MAPS = "/api/v1/namespaces/golden/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/golden/deployments"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as server:
        yield server


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "i:1"}]},
            },
            **spec,
        },
    }


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["reason"]


async def test_a_new_object_gets_its_identity(api: Api) -> None:
    sent = pod("web")
    sent["metadata"] |= {"uid": "mine", "creationTimestamp": None, "annotations": {}}
    sent["status"] = {"phase": "Running"}
    made = await api.make(PODS, sent)
    meta = made["metadata"]
    assert (made["kind"], made["apiVersion"]) == ("Pod", "v1")
    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] == "2026-11-21T08:25:00Z"
    assert (meta["generation"], meta["namespace"]) == (1, "golden")
    assert "annotations" not in meta
    assert meta["managedFields"][0]["manager"] == "test"
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


async def test_pods_get_their_defaults(api: Api) -> None:
    body = pod("web")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "0.5", "memory": "1.5Gi"}}
    spec = (await api.make(PODS, body))["spec"]
    assert spec["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1536Mi"},
        "requests": {"cpu": "500m", "memory": "1536Mi"},
    }
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert [one["key"] for one in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


async def test_generated_names_are_unique(api: Api) -> None:
    body = pod("")
    body["metadata"] = {"generateName": "web-"}
    names = {(await api.make(PODS, body))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_invalid_creations(api: Api) -> None:
    await api.make(PODS, pod("web"))
    assert refused(await api("POST", PODS, pod("web"))) == (409, "AlreadyExists")
    assert refused(await api("POST", PODS, pod("Web"))) == (422, "Invalid")
    assert refused(await api("POST", PODS, {"metadata": {"name": "x"}})) == (422, "Invalid")
    elsewhere = await api("POST", "/api/v1/namespaces/nowhere/pods", pod())
    assert elsewhere.json["message"] == 'namespaces "nowhere" not found'
    wrong = {**pod("x"), "metadata": {"name": "x", "namespace": "default"}}
    assert refused(await api("POST", PODS, wrong)) == (400, "BadRequest")
    assert refused(await api("POST", PODS, {**pod("x"), "kind": "Node"})) == (400, "BadRequest")
    assert refused(await api("POST", PODS, {**pod("x"), "apiVersion": "v2"})) == (
        400,
        "BadRequest",
    )
    assert refused(await api("POST", "/api/v1/pods", pod("x"))) == (405, "MethodNotAllowed")
    assert refused(await api("POST", PODS, b"{")) == (400, "BadRequest")
    assert refused(await api("POST", PODS, b"x", content_type="text/plain")) == (
        415,
        "UnsupportedMediaType",
    )


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"labels": {"a": 1}}, id="a label that is a number"),
        pytest.param({"annotations": []}, id="annotations that are a list"),
        pytest.param({"ownerReferences": [{"uid": 5}]}, id="an owner whose uid is a number"),
        pytest.param({"name": 5}, id="a name that is a number"),
    ],
)
async def test_metadata_of_another_shape_is_a_bad_request(api: Api, meta: Any) -> None:
    body = {"metadata": {"name": "x", **meta}}
    assert refused(await api("POST", CONFIG_MAPS, body)) == (400, "BadRequest")


async def test_generations_count_changes_of_the_spec(api: Api) -> None:
    made = await api.make(DEPLOYMENTS, deployment())
    assert (made["metadata"]["generation"], made["spec"]["replicas"]) == (1, 1)
    path = f"{DEPLOYMENTS}/web"
    labelled = await api.merge(path, {"metadata": {"labels": {"a": "b"}}})
    assert labelled.json["metadata"]["generation"] == 1
    status = {"status": {"replicas": 1}, "metadata": {"labels": {"a": "ignored"}}}
    reported = (await api.merge(f"{path}/status", status)).json
    assert (reported["metadata"]["generation"], reported["status"]) == (1, {"replicas": 1})
    assert reported["metadata"]["labels"] == {"a": "b"}
    scaled = (await api.merge(path, {"spec": {"replicas": 3}, "status": {"replicas": 9}})).json
    assert (scaled["metadata"]["generation"], scaled["status"]) == (2, {"replicas": 1})


async def test_an_update_that_changes_nothing_is_not_written(api: Api) -> None:
    made = await api.make(PODS, pod())
    before = api.store.version
    same = await api.merge(f"{PODS}/web", {"spec": {"restartPolicy": "Always"}})
    assert same.json == made
    assert api.store.version == before


async def test_updates_with_a_version_are_refused_when_it_is_old(api: Api) -> None:
    made = await api.make(CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a": "1"}})
    path = f"{CONFIG_MAPS}/x"
    assert (await api.merge(path, {"data": {"a": "2"}})).status == 200
    assert refused(await api("PUT", path, made)) == (409, "Conflict")
    version = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    assert refused(await api.merge(path, version)) == (409, "Conflict")
    del made["metadata"]["resourceVersion"]
    assert (await api("PUT", path, made)).json["data"] == {"a": "1"}


async def test_put_does_not_create(api: Api) -> None:
    body = {"metadata": {"name": "x"}}
    assert refused(await api("PUT", f"{CONFIG_MAPS}/x", body)) == (404, "NotFound")
    assert refused(await api("PUT", f"{CONFIG_MAPS}/y", body)) == (400, "BadRequest")


async def test_server_fields_cannot_be_changed(api: Api) -> None:
    made = await api.make(CONFIG_MAPS, {"metadata": {"name": "x"}})
    patch = {
        "metadata": {
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "deletionTimestamp": "2020-01-01T00:00:00Z",
            "generation": 9,
            "labels": {"a": "b"},
        }
    }
    meta = (await api.merge(f"{CONFIG_MAPS}/x", patch)).json["metadata"]
    assert meta["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert "deletionTimestamp" not in meta
    assert "generation" not in meta


async def test_names_and_uids_can_not_be_patched(api: Api) -> None:
    await api.make(CONFIG_MAPS, {"metadata": {"name": "x"}})
    refusals = (({"name": "y"}, (400, "BadRequest")), ({"uid": "other"}, (422, "Invalid")))
    for change, refusal in refusals:
        answer = await api.merge(f"{CONFIG_MAPS}/x", {"metadata": change})
        assert refused(answer) == refusal


async def test_pods_refuse_new_resources_but_take_images(api: Api) -> None:
    await api.make(PODS, pod())
    path = f"{PODS}/web"
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "i:2"}]
    assert (await api("PATCH", path, image, content_type=JSON_PATCH)).status == 200
    larger = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}
    answer = await api("PATCH", path, {"spec": larger}, content_type=STRATEGIC)
    assert refused(answer) == (422, "Invalid")
    assert "pod updates may not change fields other than" in answer.json["message"]
    resized = await api("PATCH", f"{path}/resize", {"spec": larger}, content_type=STRATEGIC)
    assert resized.json["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
    assert resized.json["metadata"]["generation"] == 3


async def test_dry_runs_store_nothing(api: Api) -> None:
    before = api.store.version
    made = await api("POST", f"{PODS}?dryRun=All", pod())
    assert made.status == 201
    assert "resourceVersion" not in made.json["metadata"]
    assert api.store.version == before
    await api.make(PODS, pod())
    before = api.store.version
    assert refused(await api("POST", f"{PODS}?dryRun=All", pod())) == (409, "AlreadyExists")
    patched = await api.merge(f"{PODS}/web?dryRun=All", {"metadata": {"labels": {"a": "b"}}})
    assert patched.json["metadata"]["labels"] == {"a": "b"}
    assert (await api("DELETE", f"{PODS}/web?dryRun=All")).status == 200
    assert refused(await api("DELETE", f"{PODS}/web?dryRun=Some")) == (422, "Invalid")
    assert api.store.version == before


async def test_managers_are_named_after_the_user_agent_or_the_parameter(api: Api) -> None:
    await api.make(PODS, pod())
    await api.merge(f"{PODS}/web/status?fieldManager=me", {"status": {"phase": "Running"}})
    fields = (await api.read(f"{PODS}/web"))["metadata"]["managedFields"]
    assert [(one["manager"], one.get("subresource")) for one in fields] == [
        ("test", None),
        ("me", "status"),
    ]


async def test_server_side_apply_is_refused(api: Api) -> None:
    await api.make(PODS, pod())
    for name in ("web", "new"):
        path = f"{PODS}/{name}?fieldManager=me"
        answer = await api("PATCH", path, pod(), content_type="application/apply-patch+yaml")
        assert refused(answer) == (415, "UnsupportedMediaType")


async def test_large_bodies_are_refused(api: Api) -> None:
    answer = await api("POST", PODS, b" " * (3 * 1024 * 1024 + 1))
    assert refused(answer) == (413, "RequestEntityTooLarge")


async def test_events_expire_after_an_hour(api: Api) -> None:
    path = "/api/v1/namespaces/golden/events"

    def event(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "involvedObject": {"namespace": "golden"}}

    await api.make(path, event("old"))
    await api.make(path, event("repeated"))
    api.clock.forward(timedelta(seconds=3599))
    await api.merge(f"{path}/repeated", {"count": 2})
    api.clock.forward(timedelta(seconds=1))
    await api.make(path, event("new"))
    items = (await api.read(path))["items"]
    assert [one["metadata"]["name"] for one in items] == ["new", "repeated"]


async def test_secrets_take_texts(api: Api) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    made = await api.make("/api/v1/namespaces/golden/secrets", body)
    assert (made["data"], made["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in made
