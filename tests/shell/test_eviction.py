"""The eviction subresource over HTTP; tests/conformance checks its decisions."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fixed_clock import FixedClock
from recorded_cluster import call
from sandbox.apiserver.auth import ADMIN
from sandbox.apiserver.server import ApiServer
from sandbox.objects.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from sandbox.objects.store import Store
from sandbox.version import KubernetesVersion

TOKEN = "token"


@pytest.fixture
def api() -> ApiServer:
    """Return a server with one running pod in the namespace ``evict``."""
    store = Store()
    api = ApiServer(
        store, KubernetesVersion(36), FixedClock(datetime(2026, 11, 21, 8, 25, tzinfo=UTC))
    )
    api.authenticator.issue(ADMIN, token=TOKEN)
    store.create(NAMESPACES, {"metadata": {"name": "evict"}})
    store.create(
        PODS,
        {
            "metadata": {
                "name": "p",
                "namespace": "evict",
                "uid": "u",
                "labels": {"app": "p"},
                "generation": 1,
            },
            "spec": {"nodeName": "n", "containers": [{"name": "app", "image": "i"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    )
    return api


async def evict(
    api: ApiServer, *, name: str = "p", query: str = "", version: str = "v1", **options: Any
) -> tuple[int, dict[str, str], Any]:
    body: dict[str, Any] = {
        "apiVersion": f"policy/{version}",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "evict"},
    }
    if options:
        body["deleteOptions"] = options
    path = f"/api/v1/namespaces/evict/pods/{name}/eviction{query}"
    return await call(api, "POST", path, msgspec.json.encode(body), token=TOKEN)


def metadata(api: ApiServer) -> dict[str, Any]:
    stored = api.store.get(PODS, "evict", "p")
    assert stored is not None
    found: dict[str, Any] = stored.object(PODS)["metadata"]
    return found


def guard(api: ApiServer, *, observed: int) -> None:
    """Create a budget that allows no disruption."""
    status = {"observedGeneration": observed, "currentHealthy": 1, "desiredHealthy": 1}
    api.store.create(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": "b", "namespace": "evict", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "p"}}, "minAvailable": 1},
            "status": {"disruptionsAllowed": 0, **status},
        },
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_evicted_pod_has_its_grace_period(api: ApiServer, version: str) -> None:
    status, _, answer = await evict(api, version=version, gracePeriodSeconds=5)
    assert (status, answer["status"]) == (201, "Success")
    assert metadata(api)["deletionGracePeriodSeconds"] == 5


async def test_a_dry_run_by_query_or_by_body_changes_nothing(api: ApiServer) -> None:
    before = metadata(api)
    assert (await evict(api, query="?dryRun=All"))[0] == 201
    assert (await evict(api, dryRun=["All"]))[0] == 201
    assert metadata(api) == before


async def test_only_an_outdated_budget_has_a_retry_after(api: ApiServer) -> None:
    guard(api, observed=0)
    status, headers, answer = await evict(api)
    assert (status, headers.get("retry-after")) == (429, "10")
    assert answer["details"]["retryAfterSeconds"] == 10


async def test_an_exhausted_budget_has_no_retry_after(api: ApiServer) -> None:
    guard(api, observed=1)
    status, headers, answer = await evict(api)
    assert (status, "retry-after" in headers) == (429, False)
    assert [one["reason"] for one in answer["details"]["causes"]] == ["DisruptionBudget"]
    assert "deletionTimestamp" not in metadata(api)


async def test_a_pod_is_not_evicted_twice(api: ApiServer) -> None:
    assert (await evict(api))[0] == 201
    first = metadata(api)["deletionTimestamp"]
    assert (await evict(api))[0] == 201
    assert metadata(api)["deletionTimestamp"] == first
    assert (await evict(api, name="missing"))[0] == 404
