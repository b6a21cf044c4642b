"""The preflight against the sandbox's API server: what it foresees, and what a dry run finds."""

from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import RESOURCE_QUOTAS, STATEFUL_SETS, VPAS
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from synced_caches import following
from updater.snapshot.caches import Caches
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

QUOTAS = RESOURCE_QUOTAS.as_dicts()
BLOCKED = "InPlaceResizeBlocked"


async def limit(shop: UpdaterSandbox, *, scopes: tuple[str, ...] = (), **hard: str) -> None:
    """Create a ResourceQuota, or change its amounts."""
    spec: dict[str, Any] = {"hard": {name.replace("_", "."): hard[name] for name in hard}}
    if scopes:
        spec["scopes"] = list(scopes)
    body = {"metadata": {"name": "team"}, "spec": spec}
    await shop.admin.create(QUOTAS, body, namespace="shop")
    await shop.settle()


async def passes(shop: UpdaterSandbox, updater: Any, times: int = 3) -> None:
    for _ in range(times):
        await updater.run_once()
        await shop.settle()


def tried(shop: UpdaterSandbox) -> int:
    """How many pods the updater tried to create; nothing of a dry run is stored."""
    entries = shop.cluster.audit(userAgent="vpa-updater", verb="create", resource="pods")
    return sum(not entry.subresource for entry in entries)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_quota_without_room_is_foreseen(mode: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await limit(shop, requests_cpu="1599m")
        await shop.autoscale(mode)
        await shop.recommend("600m")
        updater = shop.updater()
        await passes(shop, updater)
        assert shop.calls("eviction") == []
        assert shop.calls("resize") == []
        numbers = "allows 1599m of requests.cpu, other pods use 1, and the pod would use 600m"
        skipped, blocked = await shop.told("EvictionSkipped"), await shop.told(BLOCKED)
        assert all(numbers in message for message in skipped + blocked)
        assert len(skipped) == (0 if mode == "InPlace" else 3), "once for each pod"
        assert len(blocked) == (0 if mode == "Recreate" else 6), "and on the VPA"
        await shop.admin.patch(
            QUOTAS,
            "team",
            {"spec": {"hard": {"requests.cpu": "1700m"}}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await shop.settle()
        await updater.run_once()
        sent = shop.calls("eviction") + shop.calls("resize")
        assert sent in ([201], [200]), "there is room for one"
        await shop.settle()
        over = await shop.told("InPlaceResizeUnblocked")
        assert len(over) == (0 if mode == "Recreate" else 2)
        assert all(message.endswith("(VPA web; app cpu 500m -> 600m)") for message in over)

    in_updater_sandbox(test)


def test_without_the_right_to_read_quotas_the_updater_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        calls = Calls(resource="resourcequotas", user_agent="vpa-updater")
        shop.cluster.api.faults.add(ApiFault(calls=calls, effect=Effect(refuse=Refusal.FORBIDDEN)))
        shop.caches = Caches.following(shop.client)
        async with following(shop.caches.all(), shop.caches.quotas.run):
            await shop.deploy()
            await limit(shop, requests_cpu="1599m")
            await shop.autoscale("Recreate")
            await shop.recommend("600m")
            await shop.updater().run_once()
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)
    # Two caches follow them in this test, and each logs it once.
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [getattr(each, "resource", "") for each in warnings].count("resourcequotas") == 2


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_pod_level_resources_are_never_exceeded(mode: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(stanza={"requests": {"cpu": "500m"}})
        await shop.autoscale(mode)
        await shop.recommend("1")
        await passes(shop, shop.updater())
        assert shop.calls("eviction") == []
        assert shop.calls("resize") == []
        assert await shop.cpu() == 3 * ["500m"]

    in_updater_sandbox(test)


def test_a_replacement_without_the_recommendation_is_found_in_a_dry_run() -> None:
    """This cluster has no webhook of ours."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.recommend("600m")
        updater = shop.updater(dry_run=True)
        await passes(shop, updater)
        assert shop.calls("eviction") == []
        sentence = (
            "Pod is not evicted, its replacement would be no better: the VPA webhook would not "
            "patch it; app would request cpu 500m and memory 256Mi. "
            "[replacement_lacks_recommendation]"
        )
        told = await shop.told("EvictionSkipped")
        assert len(told) == 3
        assert all(each.startswith(sentence) for each in told)
        assert tried(shop) == 1, "the pause is an interval, and less has passed"
        assert len(await shop.cpu()) == 3

    in_updater_sandbox(test)


def test_what_the_updater_does_not_foresee_a_dry_run_finds() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await limit(shop, scopes=("NotTerminating",), requests_cpu="1499m")
        await shop.autoscale("Recreate")
        await shop.recommend("600m")
        await passes(shop, shop.updater(dry_run=True))
        assert shop.calls("eviction") == []
        (told, *_) = await shop.told("EvictionSkipped")
        assert "exceeded quota: team, requested: requests.cpu=500m" in told
        assert "[replacement_would_be_refused] (VPA web; " in told

    in_updater_sandbox(test)


def test_a_quota_that_is_full_with_the_old_pod_refuses_nothing() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await limit(shop, scopes=("NotTerminating",), requests_cpu="1500m", pods="3")
        await shop.autoscale("Recreate")
        await shop.recommend("400m")
        await shop.updater(dry_run=True).run_once()
        assert tried(shop) == 1
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_an_api_server_without_an_answer_holds_for_one_pass() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await limit(shop, scopes=("NotTerminating",), requests_cpu="1500m")
        await shop.autoscale("Recreate")
        await shop.recommend("400m")
        calls = Calls(verb="create", resource="pods", user_agent="vpa-updater")
        shop.cluster.api.faults.add(
            ApiFault(calls=calls, effect=Effect(refuse=Refusal.UNAVAILABLE), count=1)
        )
        updater = shop.updater(dry_run=True)
        await updater.run_once()
        assert shop.calls("eviction") == []
        await shop.settle()
        await updater.run_once()
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_stateful_set_has_a_template_and_claims_too() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        container = {
            "name": "app",
            "image": "shop:1",
            "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        spec = {
            "replicas": 3,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            "volumeClaimTemplates": [claim],
        }
        body = {"metadata": {"name": "web"}, "spec": spec}
        await shop.admin.create(STATEFUL_SETS.as_dicts(), body, namespace="shop")
        await shop.settle()
        await shop.settle()
        await shop.autoscale("Recreate")
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
        await shop.admin.patch(
            VPAS.as_dicts(),
            "web",
            {"spec": {"targetRef": target}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await shop.recommend("600m")
        await shop.updater(dry_run=True).run_once()
        assert tried(shop) == 1
        (told, *_) = await shop.told("EvictionSkipped")
        assert "replacement_lacks_recommendation" in told

    in_updater_sandbox(test)
