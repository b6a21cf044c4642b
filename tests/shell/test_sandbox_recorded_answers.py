"""Requests to real API servers, sent to the sandbox: its responses must be the same."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from recorded_cases import Recorded, recorded
from sandbox_client import Answer, Api, api_server

MINORS = (33, 35, 36)
VOLATILE = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "storageVersionHash",
        "description",  # of a column of a built-in kind, which is the field's documentation
    }
)
ALIKE: dict[str, Callable[[Any], Any]] = {  # lists of which the order doesn't count
    "verbs": lambda found: sorted(set(found) - {"deletecollection"}),  # not served
    "resources": lambda found: sorted(found, key=lambda one: str(one.get("name"))),
}


def comparable(value: Any) -> Any:
    """Return a copy without values that differ between servers."""
    if isinstance(value, dict):
        return {
            key: ALIKE[key](comparable(item))
            if key in ALIKE and isinstance(item, list)
            else comparable(item)
            for key, item in value.items()
            if key not in VOLATILE
        }
    return [comparable(item) for item in value] if isinstance(value, list) else value


async def send(api: Api, case: Recorded, body: Any = None) -> Answer:
    request = case.raw["request"]
    headers = {"content_type": case.content_type} if case.content_type else {}
    accept = request.get("headers", {}).get("Accept")
    if accept:
        headers["accept"] = accept
    return await api(case.method, request["path"], case.body if body is None else body, **headers)


def differences(case: Recorded, got: Answer) -> list[str]:
    """Return the differences of a response from the recorded one; empty if there are none."""
    if got.status != case.status:
        return [f"{case.id}: {got.status} instead of {case.status}: {got.body[:300]!r}"]
    want = case.response
    if isinstance(want, str):
        return [] if got.body.decode() == want else [f"{case.id}: {got.body!r}"]
    events = "watch=true" in case.raw["request"]["path"] and got.status == 200
    answer = comparable(got.lines if events and isinstance(want, list) else got.json)
    wanted = comparable(want)
    if answer != wanted:
        return [f"{case.id}:\n  got  {answer}\n  want {wanted}"]
    return [] if case.raw["headers"].get("Warning") == got.headers.get("warning") else [case.id]


def cases(prefix: str, minor: int) -> dict[str, Recorded]:
    return {case.case: case for case in recorded(prefix, minor)}


@pytest.fixture(params=MINORS, ids=lambda minor: f"1.{minor}")
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    async with api_server(request.param) as server:
        yield server


async def test_leases(api: Api) -> None:
    found = cases("lease-", api.server.version.minor)
    path = "/apis/coordination.k8s.io/v1/namespaces/golden/leases"
    wrong = differences(found["lease-create"], await send(api, found["lease-create"]))
    first = await api.read(f"{path}/l")
    for name in ("lease-create-exists", "lease-not-found"):
        wrong += differences(found[name], await send(api, found[name]))
    for name in ("lease-put", "lease-put-conflict"):  # the second one is too late
        case = found[name]
        identity = {key: first["metadata"][key] for key in ("uid", "resourceVersion")}
        body = {**case.body, "metadata": {**case.body["metadata"], **identity}}
        wrong += differences(case, await send(api, case, body))
    assert not wrong, "\n".join(wrong)


async def test_custom_resources(api: Api) -> None:
    await api.apply_definitions()
    found = cases("vpa-", api.server.version.minor)
    # A real server warns of an unknown field.
    await send(api, found.pop("vpa-create-unknown-field"))
    creates = [name for name in found if name.startswith("vpa-create")]
    statuses = ("invalid", "merge-patch", "json-patch")
    rest = ("vpa-discovery", *(f"vpa-status-{name}" for name in statuses))
    last = ("vpa-status-through-main-endpoint", "vpa-get", "vpa-table")
    wrong: list[str] = []
    for name in (*creates, *rest, *last):
        wrong += differences(found[name], await send(api, found[name]))
    for name in ("checkpoint-create", "checkpoint-merge-patch", "checkpoint-get"):
        case = cases("checkpoint-", api.server.version.minor)[name]
        wrong += differences(case, await send(api, case))
    assert not wrong, "\n".join(wrong)


async def test_events(api: Api) -> None:
    found = cases("event-", api.server.version.minor)
    names = ("create", "create-exists", "patch-count")
    wrong: list[str] = []
    for name in names:
        case = found[f"event-{name}"]
        wrong += differences(case, await send(api, case))
    assert not wrong, "\n".join(wrong)


async def test_scales(api: Api) -> None:
    template = {
        "metadata": {"labels": {"app": "sc"}},
        "spec": {"containers": [{"name": "app", "image": "i"}]},
    }
    for kind in ("deployments", "replicasets", "statefulsets"):
        selector = {"matchLabels": {"app": "sc"}}
        spec = {"replicas": 0, "selector": selector, "template": template}
        path = f"/apis/apps/v1/namespaces/golden/{kind}"
        await api.make(path, {"metadata": {"name": "sc"}, "spec": spec})
    await api.make(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "rockets.example.test"},
            "spec": {
                "group": "example.test",
                "scope": "Namespaced",
                "names": {"plural": "rockets", "kind": "Rocket"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                        "subresources": {
                            "status": {},
                            "scale": {
                                "specReplicasPath": ".spec.replicas",
                                "statusReplicasPath": ".status.replicas",
                                "labelSelectorPath": ".status.selector",
                            },
                        },
                    }
                ],
            },
        },
    )
    rocket = "/apis/example.test/v1/namespaces/golden/rockets"
    made = {"apiVersion": "example.test/v1", "kind": "Rocket", "metadata": {"name": "r"}}
    await api.make(rocket, {**made, "spec": {"replicas": 2}})
    found = cases("scale-", api.server.version.minor)
    wrong: list[str] = []
    for name, case in found.items():
        if name == "scale-get-custom":
            continue
        wrong += differences(case, await send(api, case))
    await api.merge(f"{rocket}/r/status", {"status": {"replicas": 2, "selector": "app=r"}})
    wrong += differences(found["scale-get-custom"], await send(api, found["scale-get-custom"]))
    assert not wrong, "\n".join(wrong)


async def test_bad_list_options(api: Api) -> None:
    """Compares only code and reason: the messages are shorter than those of a real server."""
    found = cases("list-", api.server.version.minor)
    api.store.compact()
    for name in (*(name for name in found if "-bad-" in name), "list-expired-continue"):
        answer, want = await send(api, found[name]), found[name]
        assert answer.status == want.status
        assert answer.json.get("reason") == want.response.get("reason")


async def test_responses_of_non_resource_paths(api: Api) -> None:
    minor = api.server.version.minor
    missing = cases("not-found-path", minor)["not-found-path"]
    assert not differences(missing, await send(api, missing))
    unauthorized = cases("unauthorized", minor)["unauthorized"]
    api.token = "an unknown token"
    assert not differences(unauthorized, await send(api, unauthorized))


async def test_a_watch_that_is_too_old(api: Api) -> None:
    for number in range(3):  # the recorded watches are from version 5
        await api.namespace(f"later-{number}")
    api.store.compact()
    for name in ("watch-too-old", "watch-too-old-crd-group"):
        case = cases("watch-", api.server.version.minor)[name]
        got = (await send(api, case)).lines[0]
        floor = api.store.version
        got["object"]["message"] = got["object"]["message"].replace(f"({floor})", "(782)")
        assert got == case.response
