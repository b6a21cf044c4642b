"""The updater against a whole cluster in virtual time: every mode, and what it must not do."""

import asyncio
from typing import Any

import pytest

from common.errors import NotFoundError
from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, LIMIT_RANGES, PODS, VPAS, Endpoint
from common.kube.lease import AdmissionStatus
from updater_sandbox import UpdaterSandbox, in_updater_sandbox


def test_recreate_evicts_within_the_budget_and_says_so() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.recommend("100m")
        await shop.updater().run_once()
        await shop.settle()
        assert shop.calls("eviction") == [201]
        assert shop.calls("resize") == []
        (message,) = await shop.told("EvictedByVPA")
        assert "[outside_range] (VPA web" in message
        assert len(await shop.told("EvictedPod")) == 1
        assert len(await shop.cpu()) == 3

    in_updater_sandbox(test)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_pods_grow_in_place_pass_by_pass(mode: str, version: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale(mode)
        await shop.recommend("600m")
        updater = shop.updater()
        seen = []
        for _ in range(4):
            await updater.run_once()
            await shop.settle()
            seen.append((await shop.cpu()).count("600m"))
        assert seen == [1, 2, 3, 3]
        assert shop.calls("resize") == [200, 200, 200]
        assert shop.calls("eviction") == []
        listing = await shop.admin.list(PODS, namespace="shop")
        for pod in listing.items:
            assert (pod.metadata.annotations or {}).get("vpaInPlaceUpdated") == "true"
            assert (pod.status.container_statuses or ())[0].restart_count == 0

    in_updater_sandbox(test, version=version)


@pytest.mark.parametrize("mode", ["Off", "Initial"])
def test_modes_that_leave_running_pods_alone(mode: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale(mode)
        await shop.recommend("100m")
        await shop.updater().run_once()
        assert shop.calls("eviction") == shop.calls("resize") == []

    in_updater_sandbox(test)


def test_without_its_gate_mode_in_place_does_nothing() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlace")
        await shop.recommend("100m")
        await shop.updater().run_once()
        assert shop.calls("eviction") == shop.calls("resize") == []

    in_updater_sandbox(test, gate=False)


@pytest.mark.parametrize(("version", "answers"), [("1.36", [403]), ("1.35", [200])])
def test_in_place_remembers_what_does_not_fit_until_less_is_wanted(
    version: str, answers: list[int]
) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlace")
        await shop.recommend("9")
        updater = shop.updater()
        await updater.run_once()
        await shop.settle()
        assert shop.calls("resize") == answers * len(shop.calls("resize"))
        tried = len(shop.calls("resize"))
        for _ in range(3):
            await updater.run_once()
            await shop.settle()
        assert len(shop.calls("resize")) <= 3
        assert tried <= 3
        settled = len(shop.calls("resize"))
        await shop.recommend("10")
        await updater.run_once()
        await shop.settle()
        assert len(shop.calls("resize")) == settled
        await shop.recommend("600m")
        for _ in range(4):
            await updater.run_once()
            await shop.settle()
        assert await shop.cpu() == ["600m"] * 3
        assert shop.calls("eviction") == []

    in_updater_sandbox(test, version=version)


@pytest.mark.parametrize("version", ["1.35", "1.36"])
def test_what_never_fits_is_evicted_where_that_is_allowed(version: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("9")
        updater = shop.updater()
        for _ in range(4):  # resizes go first, and they use up the budget of a pass
            await updater.run_once()
            await shop.settle()
        assert 201 in shop.calls("eviction")
        assert any(
            "[resize_infeasible] (VPA web" in message for message in await shop.told("EvictedByVPA")
        )

    in_updater_sandbox(test, version=version)


def test_a_deferred_resize_waits_five_minutes_before_the_pod_is_evicted() -> None:
    """Two nodes of two cores, and three pods that would like 1.9 each: the third must wait."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("1900m")
        updater = shop.updater()
        elapsed = 0.0
        while not shop.calls("eviction"):
            await updater.run_once()
            await asyncio.sleep(60)
            elapsed += 60
            assert elapsed < 1200
        assert elapsed > 300
        messages = await shop.told("EvictedByVPA")
        assert all("[resize_deferred_too_long] (VPA web" in message for message in messages)

    in_updater_sandbox(test)


def test_without_admission_nothing_is_evicted_and_resizes_go_on() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("600m")
        shop.admission = AdmissionStatus.STALE
        await shop.updater().run_once()
        assert shop.calls("resize") == [200]
        await shop.recommend("9")
        updater = shop.updater()
        for _ in range(3):
            await updater.run_once()
            await shop.settle()
        assert shop.calls("eviction") == []
        shop.admission = AdmissionStatus.ALIVE
        await updater.run_once()
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_restarted_updater_repeats_nothing() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("600m")
        for _ in range(5):
            await shop.updater().run_once()
            await shop.settle()
        assert shop.calls("resize") == [200, 200, 200]

    in_updater_sandbox(test)


def test_caches_that_lag_make_nothing_happen_twice() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(replicas=4)
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("600m")
        updater = shop.updater()
        await updater.run_once()
        await updater.run_once()
        await updater.run_once()
        assert len(shop.calls("resize")) == 4
        assert await shop.cpu() == ["600m"] * 4

    in_updater_sandbox(test)


def test_a_pod_disruption_budget_is_the_api_servers_word() -> None:
    budgets = Endpoint(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any]
    )

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await shop.admin.create(budgets, body, namespace="shop")
        await shop.autoscale("Recreate")
        await shop.recommend("100m")
        await shop.updater().run_once()
        assert set(shop.calls("eviction")) == {429}
        assert len(await shop.cpu()) == 3

    in_updater_sandbox(test)


def test_a_pod_stays_whose_replacement_a_limit_range_would_refuse() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        # Without a limit a container gets max: four times the request, before and after.
        bound = {"type": "Container", "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}
        body = {"metadata": {"name": "narrow"}, "spec": {"limits": [bound]}}
        await shop.admin.create(LIMIT_RANGES.as_dicts(), body, namespace="shop")
        await shop.recommend("100m")
        updater = shop.updater()
        for _ in range(3):
            await updater.run_once()
            await shop.settle()
        assert shop.calls("eviction") == []
        told = await shop.told("EvictionSkipped")
        assert told == 3 * [
            (
                "Pod is not evicted, the API server would refuse its replacement: the cpu request "
                "of container app would be 100m, its limit 400m, and the LimitRange's "
                "maxLimitRequestRatio for a Container is 2. [replacement_would_be_refused] "
                "(VPA web; app cpu 500m -> 100m)"
            )
        ]

        await shop.admin.delete(LIMIT_RANGES, "narrow", namespace="shop")
        await shop.settle()
        await updater.run_once()
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_vpa_without_a_target_harms_nobody() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.autoscale("Recreate")
        await shop.recommend("100m")
        await shop.updater().run_once()
        with pytest.raises(NotFoundError):
            await shop.admin.get(DEPLOYMENTS, "web", namespace="shop")
        assert shop.calls("eviction") == []

    in_updater_sandbox(test)


def test_pods_whose_replacements_an_older_vpa_would_patch_are_left_alone() -> None:
    """Admission goes by the oldest VPA: by the younger one's word they would go for ever."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Initial", name="first")
        await asyncio.sleep(2)
        await shop.autoscale("Recreate")
        await shop.recommend("100m")
        await shop.updater().run_once()
        assert shop.calls("eviction") == []

    in_updater_sandbox(test)


def test_an_older_vpa_that_only_advises_stands_in_nobodys_way() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Off", name="first")
        await asyncio.sleep(2)
        await shop.autoscale("Recreate")
        await shop.recommend("100m")
        await shop.updater().run_once()
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_what_a_pass_looks_at_once_more_before_it_acts() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.settle()
        vpa = shop.caches.vpas.get("shop", "web")
        pods = sorted(shop.caches.pods.snapshot.items(), key=lambda pod: pod.metadata.name)
        assert vpa is not None
        deleted, released, kept = pods
        await shop.recommend("100m")
        assert shop.caches.has_vpa(vpa)
        assert all(shop.caches.has_pod(pod) for pod in pods)

        await shop.admin.delete(PODS, deleted.metadata.name, namespace="shop")
        for endpoint, name, patch in (
            (PODS.as_dicts(), released.metadata.name, {"metadata": {"ownerReferences": None}}),
            (VPAS.as_dicts(), "web", {"spec": {"updatePolicy": {"updateMode": "Off"}}}),
        ):
            await shop.admin.patch(
                endpoint, name, patch, patch_type=PatchType.MERGE, namespace="shop"
            )
        await asyncio.sleep(1)
        assert not shop.caches.has_pod(deleted)
        assert not shop.caches.has_pod(released)
        assert shop.caches.has_pod(kept)
        assert not shop.caches.has_vpa(vpa)

    in_updater_sandbox(test)


def test_a_vpa_that_is_skipped_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.autoscale("Recreate")
        await shop.autoscale("InPlace", name="gated")
        await shop.settle()
        updater = shop.updater()
        for _ in range(3):
            await updater.run_once()
        told = [vars(line) for line in caplog.records if line.getMessage() == "vpa skipped"]
        assert {line["vpa"]: line["cause"] for line in told} == {
            "shop/gated": "Deployment shop/web does not exist",
            "shop/web": "Deployment shop/web does not exist",
        }
        assert len(told) == 2
        await shop.deploy()
        await updater.run_once()
        last = vars(caplog.records[-1])
        assert (last["vpa"], last["cause"]) == (
            "shop/gated",
            "mode InPlace needs --feature-gates=InPlace=true",
        )

    in_updater_sandbox(test, gate=False)
