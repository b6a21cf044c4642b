"""The VPAs and pods that a recommender handles, by names, namespaces and --memory-saver."""

from pathlib import Path
from typing import Any

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube import endpoints
from common.kube.watch import WatchProtocol
from common.read_model.explanation import RecommendationExplanation
from component import running_component
from fake_api import FakeApi, Reply, listing, named, watch_line
from recommender.publish.explanation import Unexplained
from recommender_harness import (
    FOLLOWED,
    METRICS,
    WEB,
    Running,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    usage,
    vpa,
)

AGGREGATES = "vpa_recommender_aggregate_container_states_count"


def change(process: Running, one: Any, version: int) -> None:
    """Send a VPA again by the watch."""
    one["metadata"]["resourceVersion"] = str(version)
    feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
    process.informers.vpas._apply(next(feed(watch_line("MODIFIED", one))))


@pytest.mark.parametrize(
    ("name", "recommenders", "ours"),
    [
        pytest.param("default", None, True, id="none is named"),
        pytest.param("default", ["default"], True, id="the default is named"),
        pytest.param("default", ["other"], False, id="another is named"),
        pytest.param("other", None, False, id="none is named, and we have a name"),
        pytest.param("other", ["other"], True, id="we are named"),
        pytest.param("other", ["default", "other"], True, id="we are one of several"),
    ],
)
async def test_the_recommender_of_a_vpa(
    name: str, recommenders: list[str] | None, *, ours: bool
) -> None:
    spec: Any = (
        {} if recommenders is None else {"recommenders": [{"name": one} for one in recommenders]}
    )
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(**spec)])
        async with running(api, recommender_name=name) as process:
            await process.cycle()
            found = process.recommender.explain("shop", "web")
    assert (WEB in api.routes) is ours
    assert isinstance(found, RecommendationExplanation) is ours
    if isinstance(found, Unexplained):
        wanted = ", ".join(recommenders or ["default"])
        assert found.error == (
            f"VPA shop/web asks for the recommender {wanted}, and this one is {name}"
        )


async def test_a_vpa_that_changes_to_another_recommender_is_ignored() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            count = api.routes.count(WEB)
            change(process, vpa(recommenders=[{"name": "other"}]), 11)
            await process.cycle()
            assert api.routes.count(WEB) == count
            assert isinstance(process.recommender.explain("shop", "web"), Unexplained)
            change(process, vpa(), 12)
            await process.cycle()
            assert api.routes.count(WEB) == count + 1


async def test_ignored_namespaces() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api, ignored_vpa_object_namespaces=("other", "shop")) as process:
            await process.cycle()
            found = process.recommender.explain("shop", "web")
    assert WEB not in api.routes
    assert isinstance(found, Unexplained)
    assert "--ignored-vpa-object-namespaces" in found.error


async def test_with_one_namespace_only_that_is_requested(tmp_path: Path) -> None:
    async with FakeApi() as api:
        known = {
            "deployments": [deployment()],
            "pods": [pod()],
            "verticalpodautoscalers": [vpa()],
        }
        for endpoint in (*FOLLOWED, endpoints.CHECKPOINTS, endpoints.POD_METRICS):
            path = endpoint.collection("shop")
            api.on(f"GET {path}", listing(*known.get(endpoint.resource, [])))
            api.on(f"WATCH {path}", Reply(chunks=[], hold=True))
        api.on(f"GET {endpoints.POD_METRICS.collection('shop')}", listing(usage()))
        api.on(WEB, Reply(body=named("web")))
        flags = ("--vpa-object-namespace=shop", "--recommender-interval=200ms")
        async with running_component("recommender", api, tmp_path, *flags):
            await api.asked(WEB, times=2)
        elsewhere = {each.path for each in api.requests if "/namespaces/shop/" not in each.path}
        assert elsewhere == {
            "/api/v1/nodes",
            "/apis/karpenter.sh",
            "/apis/karpenter.sh/v1/nodepools",
            "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
        }


async def test_the_memory_saver_tracks_only_pods_that_a_vpa_matches() -> None:
    pods = [pod(), pod("db-1", app="db")]
    everything = [deployment(), deployment("db")]
    async with FakeApi() as api:
        prepare(api, deployments=everything, pods=pods)
        api.on(METRICS, listing(usage(), usage("db-1")))
        async with running(api) as process:
            await process.cycle()
            assert process.sample(AGGREGATES) == 2
        async with running(api, memory_saver=True) as process:
            await process.cycle()
            assert process.sample(AGGREGATES) == 1
            retargeted = vpa()
            retargeted["spec"]["targetRef"]["name"] = "db"
            change(process, retargeted, 11)
            await process.cycle()  # tracked pods are tracked until their deletion
            assert process.sample(AGGREGATES) == 2
            found = process.recommender.explain("shop", "web")
    assert isinstance(found, RecommendationExplanation)
    assert (found.selector, found.pods) == ("app=db", 1)
    assert status_of("web") in api.routes
