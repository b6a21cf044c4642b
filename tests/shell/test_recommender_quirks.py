"""Quirks of recommender.md 18 that only a whole cycle shows."""

from fake_api import FakeApi, Reply, listing, named
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    checkpoint,
    checkpoint_of,
    conditions,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    target,
    usage,
    vpa,
)


async def test_a_deployment_of_any_group_is_the_one_of_apps_q18() -> None:
    other = vpa()
    other["spec"]["targetRef"]["apiVersion"] = "example.com/v7"
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[other])
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}
        assert "ConfigUnsupported" not in conditions(api)


async def test_all_checkpoints_come_in_one_list_q29() -> None:
    """The reference lists all of them once for each namespace that has VPAs."""
    kinds = {"verticalpodautoscalers": vpa, "deployments": deployment}
    places = ("shop", "mill", "farm")
    objects = {
        resource: [_placed(make(), namespace) for namespace in places]
        for resource, make in kinds.items()
    }
    async with FakeApi() as api:
        prepare(api, pods=[_placed(pod(), namespace) for namespace in places], **objects)
        api.on(METRICS, listing(*(_placed(usage(), namespace) for namespace in places)))
        api.on(CHECKPOINTS, listing(*(_placed(checkpoint(), namespace) for namespace in places)))
        for namespace in places:
            for route in (status_of("web"), checkpoint_of("web-app")):
                api.on(route.replace("/shop/", f"/{namespace}/"), Reply(body=named("web")))
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "813m", "memory": "813749082"}, "what the checkpoint knows"
        assert sum("verticalpodautoscalercheckpoints" in route for route in _reads(api)) == 1


def _placed(found: dict[str, object], namespace: str) -> dict[str, object]:
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    return {**found, "metadata": metadata | {"namespace": namespace}}


def _reads(api: FakeApi) -> list[str]:
    return [route for route in api.routes if route.startswith("GET ")]
