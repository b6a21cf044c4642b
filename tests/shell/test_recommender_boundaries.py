"""One object that breaks a step of the recommender's cycle costs that object alone."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.features import FeatureGates
from common.kube.cache import Cache, Change, apart
from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from common.kube.targets import Targets
from common.labels import Selector
from common.runtime.object_errors import ObjectErrors
from fake_api import FakeApi, Reply, listing, named, until, watch_line
from recommender.sources.informers import Informers
from recommender_harness import deployment, prepare, running, status_of, target, vpa
from synced_caches import following

CURSED = "cursed"


class CursedTargets(Targets):
    """Breaks for one VPA, as a bug of ours would."""

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        if vpa.metadata.name == CURSED:
            raise ZeroDivisionError(CURSED)
        return await super().selector(vpa)


class Cursed(Informers):
    """A cluster with a VPA that breaks us."""

    def __init__(
        self, client: KubeClient, *, namespace: str, features: FeatureGates, errors: ObjectErrors
    ) -> None:
        super().__init__(client, namespace=namespace, features=features, errors=errors)
        self.targets = CursedTargets(client, self._controllers)


async def test_a_vpa_that_breaks_us_leaves_the_others_their_recommendations(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(CURSED), deployment()],
            verticalpodautoscalers=[vpa(CURSED), vpa()],
        )
        async with running(api, Cursed) as process:
            for _ in range(3):
                await process.cycle()
            name = "vpa_recommender_object_errors_total"
            assert process.sample(name, stage="resolve") == 4  # the start resolves as well
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}
        assert status_of(CURSED) in api.routes  # it says that its target can't be used
    told = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.__dict__["object"] for one in told] == [f"VerticalPodAutoscaler shop/{CURSED}"]
    assert told[0].exc_info


async def test_an_object_that_breaks_a_callback_ends_no_watch() -> None:
    seen = []

    def on_change(change: Change[Pod]) -> None:
        assert change.new is not None
        if change.new.metadata.name == CURSED:
            raise ZeroDivisionError(CURSED)
        seen.append(change.new.metadata.name)

    errors = ObjectErrors("recommender", CollectorRegistry())
    async with FakeApi() as api, api.client() as client:
        api.on("GET /api/v1/pods", listing(named(CURSED), named("web")))
        lines = [watch_line("MODIFIED", named(CURSED, 11)), watch_line("ADDED", named("db", 12))]
        api.on("WATCH /api/v1/pods", Reply(chunks=lines, hold=True))
        pods = Cache(client, PODS, on_change=apart(on_change, PODS, errors))
        async with following([pods]), asyncio.timeout(30):
            await until(lambda: seen == ["web", "db"])
            assert pods.get("shop", CURSED) is not None
