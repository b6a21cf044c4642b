"""Reading: pages, selectors, forms, discovery, the audit log."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox_client import VPAS, Api, api_server, pod, vpa

PODS = "/api/v1/namespaces/golden/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as server:
        yield server


async def some_pods(api: Api) -> None:
    for index, (name, node) in enumerate((("a", "n1"), ("b", ""), ("c", "n1"), ("d", "n2"))):
        body = pod(name, node=node)
        body["metadata"]["labels"] = {"app": "x" if index % 2 else "y"}
        await api.make(PODS, body)


def names(listing: Any) -> list[str]:
    return [one["metadata"]["name"] for one in listing["items"]]


async def test_items_of_built_in_kinds_lack_the_kind_of_the_list(api: Api) -> None:
    await some_pods(api)
    listing = await api.read(PODS)
    assert (listing["kind"], listing["apiVersion"]) == ("PodList", "v1")
    assert listing["metadata"] == {"resourceVersion": str(api.store.version)}
    assert all("kind" not in one for one in listing["items"])
    assert (await api.read("/api/v1/namespaces/default/pods"))["items"] == []


async def test_items_of_custom_resources_have_it(api: Api) -> None:
    await api.apply_definitions()
    await api.make(VPAS, vpa())
    assert (await api.read(VPAS))["items"][0]["kind"] == "VerticalPodAutoscaler"


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param("", "abcd", id="everything"),
        pytest.param("labelSelector=app%3Dx", "bd", id="label"),
        pytest.param("labelSelector=app+notin+(x)", "ac", id="label set"),
        pytest.param("fieldSelector=metadata.name%3Dc", "c", id="name"),
        pytest.param("fieldSelector=spec.nodeName%3Dn1", "ac", id="node"),
        pytest.param("fieldSelector=spec.nodeName!%3D", "acd", id="any node"),
        pytest.param("fieldSelector=spec.nodeName%3Dn1,metadata.name!%3Da", "c", id="both"),
        pytest.param("fieldSelector=status.phase%3D%3DPending", "abcd", id="phase"),
        pytest.param("fieldSelector=metadata.namespace%3Ddefault", "", id="namespace"),
    ],
)
async def test_selectors(api: Api, query: str, want: str) -> None:
    await some_pods(api)
    assert "".join(names(await api.read(f"{PODS}?{query}"))) == want


async def test_pages_show_the_state_at_the_first_page(api: Api) -> None:
    await some_pods(api)
    first = await api.read(f"{PODS}?limit=2")
    version = first["metadata"]["resourceVersion"]
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 2)
    await api("DELETE", f"{PODS}/d?gracePeriodSeconds=0")
    await api.make(PODS, pod("e"))
    token = first["metadata"]["continue"]
    second = await api.read(f"{PODS}?limit=2&continue={token}")
    assert (names(second), second["metadata"]) == (["c", "d"], {"resourceVersion": version})


async def test_selected_pages_have_no_remaining_item_count(api: Api) -> None:
    await some_pods(api)
    first = await api.read(f"{PODS}?limit=1&labelSelector=app%3Dx")
    assert "remainingItemCount" not in first["metadata"]
    rest = await api.read(f"{PODS}?labelSelector=app%3Dx&continue={first['metadata']['continue']}")
    assert (names(first), names(rest)) == (["b"], ["d"])


async def test_pages_over_all_namespaces_follow_namespace_and_name(api: Api) -> None:
    await some_pods(api)
    await api.make("/api/v1/namespaces/default/pods", pod("z"))
    seen, query = [], "limit=1"
    while query:
        page = await api.read(f"/api/v1/pods?{query}")
        seen += [one["metadata"]["name"] for one in page["items"]]
        token = page["metadata"].get("continue")
        query = f"limit=1&continue={token}" if token else ""
    assert seen == ["z", "a", "b", "c", "d"]


async def test_a_continue_token_of_a_compacted_version_is_expired(api: Api) -> None:
    await some_pods(api)
    first = await api.read(f"{PODS}?limit=2")
    await api("DELETE", f"{PODS}/d?gracePeriodSeconds=0")
    api.store.compact()
    expired = await api("GET", f"{PODS}?limit=2&continue={first['metadata']['continue']}")
    assert (expired.status, expired.json["reason"]) == (410, "Expired")


async def test_a_list_from_the_cache_has_no_pages(api: Api) -> None:
    await some_pods(api)
    assert len((await api.read(f"{PODS}?limit=1&resourceVersion=0"))["items"]) == 4


async def test_bare_metadata(api: Api) -> None:
    await some_pods(api)
    one = (await api("GET", f"{PODS}/a", accept=METADATA)).json
    assert (one["kind"], set(one)) == (
        "PartialObjectMetadata",
        {"kind", "apiVersion", "metadata"},
    )
    many = (await api("GET", PODS, accept=METADATA_LIST)).json
    assert (many["kind"], names(many)) == ("PartialObjectMetadataList", ["a", "b", "c", "d"])


async def test_tables_of_one_and_of_many(api: Api) -> None:
    await some_pods(api)
    status = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "app",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {}},
            }
        ],
    }
    await api.merge(f"{PODS}/a/status", {"status": status})
    table = (await api("GET", PODS, accept=TABLE)).json
    shown = [one["name"] for one in table["columnDefinitions"] if one["priority"] == 0]
    assert shown == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:5] == ["a", "1/1", "Running", "2", "0s"]
    assert table["rows"][1]["cells"][:5] == ["b", "0/1", "Pending", "0", "0s"]
    assert table["rows"][0]["object"]["metadata"]["name"] == "a"
    one = (await api("GET", f"{PODS}/b", accept=TABLE)).json
    assert [row["cells"][0] for row in one["rows"]] == ["b"]


async def test_every_kind_has_a_table(api: Api) -> None:
    for resource in api.server.registry:
        if "list" in resource.verbs:
            root = f"/apis/{resource.group}" if resource.group else "/api"
            answer = await api("GET", f"{root}/{resource.version}/{resource.plural}", accept=TABLE)
            assert answer.json["kind"] == "Table"


async def test_other_forms_are_not_acceptable(api: Api) -> None:
    answer = await api("GET", PODS, accept="application/vnd.kubernetes.protobuf")
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    both = await api("GET", PODS, accept="application/vnd.kubernetes.protobuf,application/json")
    assert both.status == 200


async def test_unserved_paths_are_distinguished(api: Api) -> None:
    unknown_resource = await api("GET", "/apis/apps/v1/nothings")
    assert (unknown_resource.status, unknown_resource.json["reason"]) == (404, "NotFound")
    for path in ("/apis/apps/v9", "/api/v2", "/api/v2/pods"):
        answer = await api("GET", path)
        assert (answer.status, answer.json["reason"]) == (404, "NotFound")
    for path in ("/apis/missing.example", "/apis/missing.example/v1/things", "/nothing"):
        answer = await api("GET", path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
    for path in (f"{PODS}/a/exec", f"{PODS}/a/nothing"):
        assert (await api("GET", path)).status == 404
    assert (await api("PATCH", PODS, {})).status == 405


async def test_versions_and_health(api: Api) -> None:
    assert (await api.read("/version"))["minor"] == "36"
    assert (await api("GET", "/readyz")).body == b"ok"
    api.token = "unknown"
    assert (await api("GET", "/healthz")).status == 401
    assert (await api("GET", "/version", authorization="")).status == 401


async def test_discovery_lists_what_is_served(api: Api) -> None:
    assert (await api.read("/api"))["versions"] == ["v1"]
    groups = {one["name"]: one for one in (await api.read("/apis"))["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await api.read("/apis/apps"))["kind"] == "APIGroup"
    core = {one["name"]: one for one in (await api.read("/api/v1"))["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods/eviction"] | {"verbs": []} == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": [],
    }


async def test_openapi_has_the_entries_that_kubectl_needs(api: Api) -> None:
    await api.apply_definitions()
    paths = (await api.read("/openapi/v3"))["paths"]
    for root in ("api/v1", "apis/apps/v1", "apis/autoscaling.k8s.io/v1"):
        document = await api.read(paths[root]["serverRelativeURL"].partition("?")[0])
        patches = [one["patch"] for one in document["paths"].values() if "patch" in one]
        assert patches
        for patch in patches:
            named = {one["name"] for one in patch["parameters"]}
            assert {"fieldValidation", "dryRun"} <= named
            assert patch["x-kubernetes-group-version-kind"]["kind"]
    assert (await api("GET", "/openapi/v2")).status == 404


async def test_the_audit_log_has_user_and_request(api: Api) -> None:
    await api.make(PODS, pod())
    await api("GET", f"{PODS}/missing", user_agent="vpa-updater/1.0")
    await api.merge(f"{PODS}/web/status", {"status": {}})
    found = (await api.read("/sandbox/audit?userAgent=vpa-updater"))["items"]
    assert [(one["verb"], one["name"], one["code"]) for one in found] == [("get", "missing", 404)]
    found = (await api.read("/sandbox/audit?verb=patch&resource=pods&subresource=status"))["items"]
    assert [(one["user"], one["namespace"]) for one in found] == [("kubernetes-admin", "golden")]
    counts = (await api.read("/sandbox/audit"))["counts"]
    assert {
        "verb": "create",
        "resource": "pods",
        "subresource": "",
        "userAgent": "test",
        "code": 201,
        "count": 1,
    } in counts
    assert (await api("GET", "/sandbox/audit?colour=red")).status == 400
