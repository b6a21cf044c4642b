"""Selectors and topmost controllers over caches and scale subresources."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest

from builders import vpa
from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaSpec
from common.api.meta import ObjectMeta
from common.kube.client import KubeClient
from common.kube.targets import ControllerCaches, TargetError, Targets
from common.kube.watch import identity
from common.target.owners import Controller
from fake_api import FakeApi, Reply, listing, named, status, until, watch_line
from hostile_texts import NEIGHBOURS
from synced_caches import following

GROUP = "/apis/example.test"
SCALE = "/apis/example.test/v1/namespaces/default/rockets/r/scale"
OWNED = "/apis/example.test/v1/namespaces/default/rockets/r2/scale"
LISTS = {
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "CronJob": "/apis/batch/v1/cronjobs",
    "ReplicationController": "/api/v1/replicationcontrollers",
}
only_owners = functools.partial(ControllerCaches.create, only_owners=True)
SELECTOR = {"matchLabels": {"app": "web"}}


def owned(name: str, *, by: tuple[str, str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a controller in ``default``; ``by`` is the owner's apiVersion, kind and name."""
    item: dict[str, Any] = named(name, namespace="default", spec=spec)
    if by is not None:
        reference = {"apiVersion": by[0], "kind": by[1], "name": by[2], "controller": True}
        item["metadata"]["ownerReferences"] = [reference]
    return item


def scale(name: str, selector: str = "app=r", **more: Any) -> Reply:
    return Reply(body={**owned(name, **more), "status": {"replicas": 1, "selector": selector}})


def discover(api: FakeApi, *, kind: str = "Rocket", with_scale: bool = True) -> None:
    names = ["rockets", "rockets/status", *(["rockets/scale"] if with_scale else [])]
    api.on(f"GET {GROUP}", Reply(body={"versions": [{"version": "v2"}, {"version": "v1"}]}))
    resources = [
        {"name": n, "kind": "Scale" if n.endswith("scale") else kind, "namespaced": True}
        for n in names
    ]
    api.on(f"GET {GROUP}/v1", Reply(body={"resources": resources}))
    api.on(f"GET {GROUP}/v2", Reply(body={"resources": []}))


@contextlib.asynccontextmanager
async def resolving(
    api: FakeApi,
    made: Callable[[KubeClient], ControllerCaches] = ControllerCaches.create,
    /,
    **controllers: list[dict[str, Any]],
) -> AsyncIterator[Targets]:
    for kind, path in LISTS.items():
        api.on(f"GET {path}", listing(*controllers.get(kind, [])))
        api.on(f"WATCH {path}", Reply(chunks=[], hold=True))
    async with api.client() as client:
        caches = made(client)
        async with following(caches.all()):
            yield Targets(client, caches)


def rocket(name: str = "r", api_version: str = "example.test/v1") -> VerticalPodAutoscaler:
    """Return a VPA for a custom resource."""
    target = TargetReference(api_version=api_version, kind="Rocket", name=name)
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(name="r", namespace="default"), spec=VpaSpec(target_ref=target)
    )


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
async def test_the_selector_of_a_well_known_kind_is_its_own(kind: str) -> None:
    async with FakeApi() as api, resolving(api, **{kind: [owned("web", selector=SELECTOR)]}) as t:
        selector = await t.selector(vpa(target=(kind, "web")))
    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "other"})


async def test_only_owners_of_replica_sets_are_requested_if_that_is_enough() -> None:
    made = owned("web-1", by=("apps/v1", "Deployment", "web"))
    async with FakeApi() as api:
        async with resolving(
            api, only_owners, ReplicaSet=[made], Deployment=[owned("web")]
        ) as targets:
            top = await targets.topmost(Controller("default", "ReplicaSet", "web-1", "apps/v1"))
        forms = {
            (request.path, request.method): request.headers["Accept"] for request in api.requests
        }
    assert top == Controller("default", "Deployment", "web", "apps/v1")
    lists, watches = "as=PartialObjectMetadataList;", "as=PartialObjectMetadata;"
    assert lists in forms[LISTS["ReplicaSet"], "GET"]
    assert watches in forms[LISTS["ReplicaSet"], "WATCH"]
    assert forms[LISTS["Deployment"], "GET"] == "application/json"


@pytest.mark.parametrize("version", ["apps/v1", ""], ids=["apps/v1", "no version"])
async def test_the_selector_of_a_replica_set_with_owners_only_is_read_from_its_scale(
    version: str,
) -> None:
    kinds = [{"name": "replicasets", "kind": "ReplicaSet"}, {"name": "replicasets/scale"}]
    async with FakeApi() as api:
        api.on("GET /apis/apps", Reply(body={"versions": [{"version": "v1"}]}))
        api.on("GET /apis/apps/v1", Reply(body={"resources": kinds}))
        path = "/apis/apps/v1/namespaces/default/replicasets/web/scale"
        api.on(f"GET {path}", scale("web", selector="app=web"))
        ref = TargetReference(api_version=version, kind="ReplicaSet", name="web")
        target = VerticalPodAutoscaler(
            metadata=ObjectMeta(name="web", namespace="default"), spec=VpaSpec(target_ref=ref)
        )
        async with resolving(api, only_owners, ReplicaSet=[owned("web")]) as targets:
            selector = await targets.selector(target)
    assert str(selector) == "app=web"


async def test_a_cron_job_is_selected_by_its_template_and_a_controller_by_its_map() -> None:
    template = {"spec": {"template": {"metadata": {"labels": {"app": "nightly"}}}}}
    async with (
        FakeApi() as api,
        resolving(
            api,
            CronJob=[owned("nightly", jobTemplate=template)],
            ReplicationController=[owned("old", selector={"app": "old"})],
        ) as t,
    ):
        nightly = await t.selector(vpa(target=("CronJob", "nightly")))
        old = await t.selector(vpa(target=("ReplicationController", "old")))
    assert str(nightly) == "app=nightly"
    assert str(old) == "app=old"


async def test_a_workload_without_a_selector_selects_nothing() -> None:
    async with FakeApi() as api, resolving(api, Deployment=[owned("web")]) as t:
        selector = await t.selector(vpa())
    assert not selector.matches({"app": "web"})


async def test_a_vpa_without_a_target() -> None:
    async with FakeApi() as api, resolving(api) as t:
        with pytest.raises(TargetError) as failed:
            await t.selector(vpa(target=None))
    assert str(failed.value) == ("targetRef not defined. If this is a v1beta1 object, switch to v1")


async def test_a_target_that_does_not_exist() -> None:
    async with FakeApi() as api, resolving(api) as t:
        with pytest.raises(TargetError) as failed:
            await t.selector(vpa())
    assert str(failed.value) == "Deployment default/web does not exist"
    assert not failed.value.transient


async def test_the_selector_of_any_other_kind_is_in_its_scale() -> None:
    async with FakeApi() as api, resolving(api) as t:
        discover(api)
        api.on(f"GET {SCALE}", scale("r"))
        selector = await t.selector(rocket())
        again = await t.selector(rocket())
    assert str(selector) == str(again) == "app=r"
    assert api.routes.count(f"GET {SCALE}") == 1  # cached for half a minute
    assert api.routes.count(f"GET {GROUP}/v2") == 0  # the target's version is tried first


@pytest.mark.parametrize(
    ("replies", "want", "transient"),
    [
        pytest.param(
            {SCALE: scale("r", "")},
            "resource default/r has an empty selector for scale sub-resource",
            False,
            id="empty selector",
        ),
        pytest.param(
            {SCALE: status(404, "NotFound", 'rockets.example.test "r" not found')},
            'rockets.example.test "r" not found',
            False,
            id="no such object",
        ),
        pytest.param({SCALE: status(403, "Forbidden", "no")}, "no", True, id="forbidden"),
        pytest.param({GROUP: status(401, "Unauthorized", "who?")}, "who?", True, id="401"),
        pytest.param({SCALE: status(422, "Invalid", "webhook")}, "webhook", True, id="refused"),
        pytest.param({SCALE: status(503, "X", "busy")}, "busy", True, id="a server error"),
        pytest.param({GROUP: status(503, "X", "busy")}, "busy", True, id="a failed discovery"),
        pytest.param(
            {GROUP: Reply(status=404, body="404 page not found\n")},
            'no matches for kind "Rocket" in group "example.test"',
            False,
            id="no such kind",
        ),
    ],
)
async def test_a_scale_that_cannot_be_read(
    replies: dict[str, Reply],
    want: str,
    transient: bool,  # noqa: FBT001 - a table's column
) -> None:
    async with FakeApi() as api, resolving(api) as t:
        discover(api)
        for path, reply in replies.items():
            api.on(f"GET {path}", reply)
        with pytest.raises(TargetError) as failed:
            await t.selector(rocket())
    assert str(failed.value) == (
        f"unhandled targetRef example.test/v1 / Rocket / r, last error {want}"
    )
    assert failed.value.transient is transient


async def test_the_selector_of_a_custom_kind_with_a_well_known_name_is_in_its_scale() -> None:
    """Q18."""
    target = TargetReference(api_version="example.test/v1", kind="Job", name="r")
    one = VerticalPodAutoscaler(
        metadata=ObjectMeta(name="r", namespace="default"), spec=VpaSpec(target_ref=target)
    )
    async with FakeApi() as api, resolving(api, Job=[owned("r", selector=SELECTOR)]) as t:
        discover(api, kind="Job")
        api.on(f"GET {SCALE}", scale("r"))
        selector = await t.selector(one)
        top = await t.topmost(Controller("default", "Job", "r", "example.test/v1"))
    assert str(selector) == "app=r"
    assert top == Controller("default", "Job", "r", "example.test/v1")


async def test_a_kind_without_scale_is_detected_by_discovery() -> None:
    async with FakeApi() as api, resolving(api) as t:
        discover(api, with_scale=False)
        with pytest.raises(TargetError, match="could not find the requested resource"):
            await t.selector(rocket())
    assert f"GET {SCALE}" not in api.routes


async def test_the_topmost_controller_of_a_replica_set_is_its_deployment() -> None:
    async with (
        FakeApi() as api,
        resolving(
            api,
            ReplicaSet=[owned("web-1", by=("apps/v1", "Deployment", "web"))],
            Deployment=[owned("web")],
        ) as t,
    ):
        top = await t.topmost(Controller("default", "ReplicaSet", "web-1", "apps/v1"))
    assert top == Controller("default", "Deployment", "web", "apps/v1")


async def test_a_scalable_owner_is_the_topmost_and_is_cached() -> None:
    async with (
        FakeApi() as api,
        resolving(api, Deployment=[owned("web", by=("example.test/v1", "Rocket", "r"))]) as t,
    ):
        discover(api)
        api.on(f"GET {SCALE}", scale("r", by=("example.test/v1", "Rocket", "r2")))
        api.on(f"GET {OWNED}", scale("r2"))
        start = Controller("default", "Deployment", "web", "apps/v1")
        first, second = await asyncio.gather(t.topmost(start), t.topmost(start))
        third = await t.topmost(start)
    assert first == second == third == Controller("default", "Rocket", "r2", "example.test/v1")
    assert api.routes.count(f"GET {SCALE}") == 1
    assert api.routes.count(f"GET {OWNED}") == 1


async def test_an_owner_without_scale_ends_the_chain() -> None:
    async with (
        FakeApi() as api,
        resolving(api, Deployment=[owned("web", by=("example.test/v1", "Rocket", "r"))]) as t,
    ):
        discover(api, with_scale=False)
        start = Controller("default", "Deployment", "web", "apps/v1")
        assert await t.topmost(start) == start


async def test_an_owner_of_an_unknown_kind_is_an_error() -> None:
    async with FakeApi() as api, resolving(api) as t:
        with pytest.raises(TargetError, match='no matches for kind "Rocket"') as failed:
            await t.topmost(Controller("default", "Rocket", "r", "example.test/v1"))
    assert not failed.value.transient


async def test_a_failing_api_server_is_a_transient_error() -> None:
    async with FakeApi() as api, resolving(api) as t:
        discover(api)
        api.on(f"GET {SCALE}", status(500, "InternalError", "etcd"))
        with pytest.raises(TargetError) as failed:
            await t.topmost(Controller("default", "Rocket", "r", "example.test/v1"))
    assert failed.value.transient
    assert str(failed.value).endswith("last error etcd")


async def test_a_node_is_no_owner_and_is_never_requested() -> None:
    async with FakeApi() as api, resolving(api) as t:
        with pytest.raises(TargetError, match="node is not a valid owner"):
            await t.topmost(Controller("default", "Node", "n1", "v1"))
    assert not [route for route in api.routes if "nodes" in route]


async def test_a_changed_selector_is_used_immediately() -> None:
    changed = owned("web", selector={"matchLabels": {"app": "other"}})
    changed["metadata"]["resourceVersion"] = "2"
    async with FakeApi() as api:
        api.on("GET /apis/apps/v1/deployments", listing(owned("web", selector=SELECTOR)))
        async with api.client() as client, asyncio.TaskGroup() as group:
            caches = ControllerCaches.create(client)
            targets = Targets(client, caches)
            lines = Reply(chunks=[watch_line("MODIFIED", changed)], hold=True)
            following = group.create_task(caches.deployments.run())
            await caches.deployments.wait_synced()
            before = await targets.selector(vpa())
            assert await targets.selector(vpa()) is before
            api.on("WATCH /apis/apps/v1/deployments", lines)
            await until(lambda: identity(caches.deployments.get("default", "web"))[2] == "2")
            after = await targets.selector(vpa())
            following.cancel()
    assert (str(before), str(after)) == ("app=web", "app=other")


async def test_a_controller_of_a_custom_kind_is_in_no_cache() -> None:
    """Q18."""
    async with FakeApi() as api:
        for kind, path in LISTS.items():
            api.on(f"GET {path}", listing(*([owned("r")] if kind == "Job" else [])))
            api.on(f"WATCH {path}", Reply(chunks=[], hold=True))
        async with api.client() as client, asyncio.TaskGroup() as group:
            caches = ControllerCaches.create(client)
            tasks = [group.create_task(cache.run()) for cache in caches.all()]
            for cache in caches.all():
                await cache.wait_synced()
            assert caches.find(Controller("default", "Job", "r", "batch/v1")) is not None
            assert caches.find(Controller("default", "Job", "r", "batch.example.com/v1")) is None
            assert caches.find(Controller("default", "Rocket", "r", "example.test/v1")) is None
            for task in tasks:
                task.cancel()


# References written by users


HOSTILE = {
    "control character": "x\u0001/v1",
    "query": "apps/v1/replicasets?x=N/y",
    "watch": "apps/v1/daemonsets?watch=1&x=N/y",
    "steps": "../../api/v1/secrets?/v1",
    "escaped": "apps%2fv1/v1",
}


@pytest.mark.parametrize("api_version", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_reference_that_names_no_api_never_becomes_a_request(api_version: str) -> None:
    async with FakeApi() as api, resolving(api) as t:
        with pytest.raises(TargetError, match=r"apiVersion .* no DNS") as failed:
            await t.selector(rocket(api_version=api_version))
        owner = Controller("default", "Rocket", "r", api_version)
        with pytest.raises(TargetError, match=r"apiVersion .* no DNS"):
            await t.topmost(owner)
        assert {request.path for request in api.requests} <= set(LISTS.values())
    assert not failed.value.transient


PARTS = {
    "apiVersion": ("{}", "Rocket", "r"),
    "group": ("{}/v1", "Rocket", "r"),
    "version": ("example.test/{}", "Rocket", "r"),
    "version and more": ("example.test/v1/{}", "Rocket", "r"),
    "kind": ("example.test/v1", "{}", "r"),
    "name": ("example.test/v1", "Rocket", "{}"),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
@pytest.mark.parametrize("text", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
async def test_a_reference_requests_only_its_own_object(
    text: str, parts: tuple[str, str, str]
) -> None:
    api_version, kind, name = (part.replace("{}", text) for part in parts)
    target = TargetReference(api_version=api_version, kind=kind, name=name)
    given = VerticalPodAutoscaler(
        metadata=ObjectMeta(name="r", namespace="default"), spec=VpaSpec(target_ref=target)
    )
    async with FakeApi() as api, resolving(api) as t:
        discover(api)
        with contextlib.suppress(TargetError):
            await t.selector(given)
        with contextlib.suppress(TargetError):
            await t.topmost(Controller("default", kind, name, api_version))
        requested = {each.target for each in api.requests if each.path not in LISTS.values()}
    allowed = {GROUP, f"{GROUP}/v1", f"{GROUP}/v2"}
    if text not in (".", ".."):
        allowed.add(f"{GROUP}/v1/namespaces/default/rockets/{quote(name, safe='')}/scale")
    # Two of the texts are valid names of an API.
    group, _, version = api_version.partition("/")
    if group in ("x", NEIGHBOURS["250 characters"]) and version in ("y", "v1"):
        allowed |= {f"/apis/{group}", f"/apis/{group}/{version}"}
    assert requested <= allowed


async def test_names_are_quoted_and_path_segments_refused() -> None:
    async with FakeApi() as api, resolving(api) as t:
        discover(api)
        api.on("GET /apis/example.test/v1/namespaces/default/rockets/a b?c/scale", scale("r"))
        assert str(await t.selector(rocket("a b?c"))) == "app=r"
        with pytest.raises(TargetError, match=r"name '\.\.'"):
            await t.selector(rocket(".."))


# Limits of look-ups


async def test_a_response_beyond_four_mebibytes_is_not_read() -> None:
    async with FakeApi() as api, resolving(api) as t:
        api.on(f"GET {GROUP}", Reply(body={"versions": [], "filler": "x" * (4 << 20)}))
        with pytest.raises(TargetError, match="more than 4194304 bytes") as failed:
            await t.selector(rocket())
        assert api.routes.count(f"GET {GROUP}") == 1  # a retry would be as long
    assert failed.value.transient
