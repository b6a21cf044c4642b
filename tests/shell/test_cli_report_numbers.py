"""``kubectl vpa report`` recommends what the recommender publishes, from the same history."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from aiohttp import web

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.kube import endpoints
from common.target.owners import Controller
from fake_api import FakeApi, Reply, listing, until
from fake_prometheus import FakePrometheus, Steady, refusal
from fixed_clock import FixedClock
from kubectl_vpa.cluster.checkpoint_estimates import recommended_by_checkpoints
from kubectl_vpa.cluster.prometheus_history import recommended_by_history
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.recommendation_sources import default_vpa
from recommender.sources.usage_source_settings import UsageSourceSettings
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    START,
    checkpoint,
    deployment,
    pod,
    prepare,
    running,
    vpa,
    written,
)

WEB = Controller("shop", "Deployment", "web", "apps/v1")
POLICY = {
    "containerName": "*",
    "minAllowed": {"memory": "3Gi"},
    "maxAllowed": {"cpu": "200m"},
}
HISTORIES = {
    "one pod": [Steady(pod="web-1")],
    "several pods and containers": [
        Steady(pod="web-1", cores="0.3", bytes=str(700 << 20)),
        Steady(pod="web-1", container="proxy", cores="0.01", bytes=str(20 << 20)),
        Steady(pod="web-2", cores="1.7", bytes=str(900 << 20)),
    ],
    "pods that are gone": [Steady(pod="web-1"), Steady(pod="web-gone", cores="4")],
    "a deleted pod of another workload": [
        Steady(pod="web-1"),
        Steady(pod="other-gone", cores="4", labels={"app": "other"}),
    ],
    "an hour of history": [Steady(pod="web-1", since=START.timestamp() - 3600)],
}


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as api:
        prepare(api, pods=[pod(), pod("web-2")])
        api.on(METRICS, listing())
        api.on(f"GET {endpoints.DEPLOYMENTS.collection('shop')}", listing(deployment()))
        pods = listing(pod(), pod("web-2"))
        api.on(f"GET {endpoints.PODS.collection('shop')}", pods)
        yield api


async def published(api: FakeApi, prometheus: FakePrometheus) -> Any:
    """Return the recommendation that the recommender writes after it read Prometheus."""
    async with running(api, storage="prometheus", prometheus_address=prometheus.address) as process:
        await process.cycle()
        loaded = "vpa_recommender_history_namespaces"
        await until(lambda: process.sample(loaded, state="loaded") == 1)
        await process.cycle()
    return written(api)["recommendation"]["containerRecommendations"]


async def estimated(
    api: FakeApi,
    prometheus: FakePrometheus,
    controller: Controller = WEB,
    environ: Mapping[str, str] | None = None,
    stored: VerticalPodAutoscaler | None = None,
    **flags: Any,
) -> tuple[Any, list[str]]:
    """Return the recommendation of the report, and its notes."""
    settings = UsageSourceSettings(prometheus_address=prometheus.address, **flags)
    async with api.client() as client:
        reader = Reader(client=client, namespace="")
        vpas = {controller: stored or default_vpa(controller)}
        found = await recommended_by_history(
            reader, vpas, settings, environ=environ or {}, clock=FixedClock(START)
        )
    status = found[controller].status if controller in found else None
    return status and status.recommendation, reader.notes


def containers(recommendation: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(recommendation))["containerRecommendations"]


@pytest.mark.parametrize("usage", HISTORIES.values(), ids=HISTORIES)
async def test_the_numbers_from_prometheus_are_those_of_the_recommender(
    api: FakeApi, usage: Sequence[Steady]
) -> None:
    async with FakePrometheus(*usage) as prometheus:
        want = await published(api, prometheus)
        found, notes = await estimated(api, prometheus)
    assert want
    assert containers(found) == want
    assert notes == []


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resourcePolicy": {"containerPolicies": [POLICY]}},
        {"resourcePolicy": {"containerPolicies": [{**POLICY, "controlledResources": ["memory"]}]}},
    ],
    ids=["no policy", "bounds", "one resource"],
)
@pytest.mark.parametrize("source", ["prometheus", "checkpoints"])
async def test_the_policy_of_a_vpa_applies(api: FakeApi, source: str, spec: Any) -> None:
    stored = vpa(**spec)
    api.on(f"GET {endpoints.VPAS.collection()}", listing(stored))
    decoded = msgspec.convert(stored, VerticalPodAutoscaler)
    if source == "prometheus":
        async with FakePrometheus(Steady(pod="web-1")) as prometheus:
            want = await published(api, prometheus)
            found, _ = await estimated(api, prometheus, stored=decoded)
    else:
        api.on(CHECKPOINTS, listing(checkpoint(), checkpoint("other")))
        async with running(api) as process:
            await process.cycle()
        want = written(api)["recommendation"]["containerRecommendations"]
        async with api.client() as client:
            reader = Reader(client=client, namespace="")
            pods = {WEB: [msgspec.convert(pod(), Pod)]}
            vpas = await recommended_by_checkpoints(reader, {WEB: decoded}, pods, START)
        found = vpas[WEB].status.recommendation
    assert want
    assert containers(found) == want


async def test_without_checkpoints_nothing_is_recommended(api: FakeApi) -> None:
    async with api.client() as client:
        reader = Reader(client=client, namespace="")
        vpas = {WEB: msgspec.convert(vpa(), VerticalPodAutoscaler)}
        assert await recommended_by_checkpoints(reader, vpas, {}, START) == {}


async def test_the_flags_of_the_recommender_change_the_queries(api: FakeApi) -> None:
    async with FakePrometheus(Steady(pod="web-1")) as prometheus:
        await estimated(
            api,
            prometheus,
            history_length="2d",
            history_resolution="10m",
            prometheus_cadvisor_job_name="kubelet",
            prometheus_bearer_token="abc",
        )
    usage = [each for each in prometheus.asked if each.form["query"].startswith("rate(")]
    assert sum(len(each.steps) for each in usage) == 2 * 24 * 6 + 1
    assert {each.authorization for each in prometheus.asked} == {"Bearer abc"}
    assert 'job="kubelet"' in usage[0].form["query"]
    assert usage[0].form["query"].endswith("[10m])")


async def test_user_and_password_may_come_from_the_environment(api: FakeApi) -> None:
    environ = {"PROMETHEUS_USERNAME": "me", "PROMETHEUS_PASSWORD": "secret"}
    async with FakePrometheus(Steady(pod="web-1")) as prometheus:
        await estimated(api, prometheus, environ=environ)
    assert {each.authorization for each in prometheus.asked} == {"Basic bWU6c2VjcmV0"}


async def test_a_custom_workload_is_found_by_its_scale(api: FakeApi) -> None:
    rollout = Controller("shop", "Rollout", "web", "argoproj.io/v1")
    group = "/apis/argoproj.io"
    api.on(f"GET {group}", Reply(body={"versions": [{"version": "v1"}]}))
    resources = [{"name": name, "kind": kind, "namespaced": True} for name, kind in ROLLOUTS]
    api.on(f"GET {group}/v1", Reply(body={"resources": resources}))
    scale = {"metadata": {"name": "web"}, "spec": {}, "status": {"selector": "app=web"}}
    api.on(f"GET {group}/v1/namespaces/shop/rollouts/web/scale", Reply(body=scale))
    async with FakePrometheus(Steady(pod="web-1")) as prometheus:
        found, notes = await estimated(api, prometheus, rollout)
    assert (containers(found)[0]["target"]["cpu"], notes) == ("587m", [])


ROLLOUTS = (("rollouts", "Rollout"), ("rollouts/scale", "Scale"))


async def test_a_query_that_was_too_large_is_split(api: FakeApi) -> None:
    async with FakePrometheus(Steady(pod="web-1")) as prometheus:
        prometheus.replies.append(refusal(422, "execution", "too many samples"))
        found, notes = await estimated(api, prometheus)
    assert found is not None
    assert notes == []


async def test_a_namespace_that_fails_again_and_again_is_a_note(api: FakeApi) -> None:
    async with FakePrometheus(Steady(pod="web-1")) as prometheus:
        prometheus.refused["shop"] = lambda: refusal(422, "execution", "too many samples")
        found, (note,) = await estimated(api, prometheus)
    assert (found, len(prometheus.asked)) == (None, 3)
    assert note.startswith("history of shop in Prometheus: http://127.0.0.1")
    assert note.endswith("answered 422: too many samples")


async def test_a_server_that_is_away_is_not_asked_about_every_namespace(api: FakeApi) -> None:
    names = [f"shop-{number}" for number in range(20)]
    for name in names:
        api.on(f"GET {endpoints.DEPLOYMENTS.collection(name)}", listing())
        api.on(f"GET {endpoints.PODS.collection(name)}", listing())
    async with FakePrometheus() as prometheus, api.client() as client:
        prometheus.refused |= dict.fromkeys(names, lambda: web.Response(status=401, text="who?"))
        settings = UsageSourceSettings(prometheus_address=prometheus.address)
        reader = Reader(client=client, namespace="")
        controllers = [Controller(name, "Deployment", "web", "apps/v1") for name in names]
        vpas = {each: default_vpa(each) for each in controllers}
        clock = FixedClock(START)
        found = await recommended_by_history(reader, vpas, settings, environ={}, clock=clock)
    assert (found, len(prometheus.asked)) == ({}, 4)
    (note,) = reader.notes
    assert note.startswith("history in Prometheus: http://127.0.0.1")
    assert "answered 401" in note


async def test_no_usage_at_all_is_a_note_with_the_flags_to_set(api: FakeApi) -> None:
    async with FakePrometheus() as prometheus:
        found, (note,) = await estimated(api, prometheus)
    assert found is None
    assert "--prometheus-cadvisor-job-name=kubelet" in note
