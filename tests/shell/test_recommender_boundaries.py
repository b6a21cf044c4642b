"""An unexpected error with one object in the recommender's cycle affects only that object."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.features import FeatureGates
from common.kube.cache import Cache, Change, with_boundary
from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from common.kube.targets import Targets
from common.labels import Selector
from common.runtime.object_errors import ObjectErrors
from fake_api import FakeApi, Reply, listing, named, until, watch_line
from recommender.sources.informers import Informers
from recommender_harness import deployment, prepare, running, status_of, target, vpa
from synced_caches import following

FAILING = "cursed"


class FailingTargets(Targets):
    """A look-up with a bug that occurs for one VPA."""

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        if vpa.metadata.name == FAILING:
            raise ZeroDivisionError(FAILING)
        return await super().selector(vpa)


class FailingCluster(Informers):
    """A cluster with a VPA that causes the error."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        features: FeatureGates,
        errors: ObjectErrors,
        with_quotas: bool,
    ) -> None:
        super().__init__(
            client, namespace=namespace, features=features, errors=errors, with_quotas=with_quotas
        )
        self.targets = FailingTargets(client, self._controllers)


async def test_an_error_with_one_vpa_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(FAILING), deployment()],
            verticalpodautoscalers=[vpa(FAILING), vpa()],
        )
        async with running(api, FailingCluster) as process:
            for _ in range(3):
                await process.cycle()
            name = "vpa_recommender_object_errors_total"
            assert process.sample(name, stage="resolve") == 4  # also at the start
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}
        assert status_of(FAILING) in api.routes  # its condition is that the target can't be used
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.__dict__["object"] for one in errors] == [f"VerticalPodAutoscaler shop/{FAILING}"]
    assert errors[0].exc_info


async def test_an_error_of_a_callback_ends_no_watch() -> None:
    seen = []

    def on_change(change: Change[Pod]) -> None:
        assert change.new is not None
        if change.new.metadata.name == FAILING:
            raise ZeroDivisionError(FAILING)
        seen.append(change.new.metadata.name)

    errors = ObjectErrors("recommender", CollectorRegistry())
    async with FakeApi() as api, api.client() as client:
        api.on("GET /api/v1/pods", listing(named(FAILING), named("web")))
        lines = [watch_line("MODIFIED", named(FAILING, 11)), watch_line("ADDED", named("db", 12))]
        api.on("WATCH /api/v1/pods", Reply(chunks=lines, hold=True))
        pods = Cache(client, PODS, on_change=with_boundary(on_change, PODS, errors))
        async with following([pods]), asyncio.timeout(30):
            await until(lambda: seen == ["web", "db"])
            assert pods.get("shop", FAILING) is not None
