"""The updater with a whole cluster in virtual time: every mode and its limits."""

import asyncio

import pytest

from common.errors import NotFoundError
from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, LIMIT_RANGES, PODS, VPAS
from common.kube.lease import AdmissionStatus
from updater_sandbox import UpdaterSandbox, in_updater_sandbox


def test_recreate_evicts_within_the_budget_and_sends_events() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("100m")
        await sandbox.updater().run_once()
        await sandbox.settle()
        assert sandbox.calls("eviction") == [201]
        assert sandbox.calls("resize") == []
        (message,) = await sandbox.messages("EvictedByVPA")
        assert "[outside_range] (VPA web" in message
        assert len(await sandbox.messages("EvictedPod")) == 1
        assert len(await sandbox.cpu()) == 3

    in_updater_sandbox(test)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_pods_grow_in_place_pass_by_pass(mode: str, version: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale(mode)
        await sandbox.recommend("600m")
        updater = sandbox.updater()
        seen = []
        for _ in range(4):
            await updater.run_once()
            await sandbox.settle()
            seen.append((await sandbox.cpu()).count("600m"))
        assert seen == [1, 2, 3, 3]
        assert sandbox.calls("resize") == [200, 200, 200]
        assert sandbox.calls("eviction") == []
        listing = await sandbox.admin.list(PODS, namespace="shop")
        for pod in listing.items:
            assert (pod.metadata.annotations or {}).get("vpaInPlaceUpdated") == "true"
            assert (pod.status.container_statuses or ())[0].restart_count == 0

    in_updater_sandbox(test, version=version)


@pytest.mark.parametrize(("mode", "gate"), [("Off", True), ("Initial", True), ("InPlace", False)])
def test_modes_that_leave_running_pods_alone(mode: str, *, gate: bool) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale(mode)
        await sandbox.recommend("100m")
        await sandbox.updater().run_once()
        assert sandbox.calls("eviction") == sandbox.calls("resize") == []

    in_updater_sandbox(test, gate=gate)


@pytest.mark.parametrize(("version", "answers"), [("1.36", [403]), ("1.35", [200])])
def test_in_place_caches_an_infeasible_resize_until_a_lower_target(
    version: str, answers: list[int]
) -> None:
    """The room of the nodes is too small for a step."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("InPlace")
        await sandbox.recommend("99")
        updater = sandbox.updater()
        await updater.run_once()
        await sandbox.settle()
        assert sandbox.calls("resize") == answers * len(sandbox.calls("resize"))
        tried = len(sandbox.calls("resize"))
        for _ in range(3):
            await updater.run_once()
            await sandbox.settle()
        assert len(sandbox.calls("resize")) <= 3
        assert tried <= 3
        settled = len(sandbox.calls("resize"))
        await sandbox.recommend("100")
        await updater.run_once()
        await sandbox.settle()
        assert len(sandbox.calls("resize")) == settled
        await sandbox.recommend("600m")
        for _ in range(4):
            await updater.run_once()
            await sandbox.settle()
        assert await sandbox.cpu() == ["600m"] * 3
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_without_admission_nothing_is_evicted_and_resizes_continue() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("600m")
        sandbox.admission = AdmissionStatus.STALE
        await sandbox.updater().run_once()
        assert sandbox.calls("resize") == [200]
        await sandbox.recommend("9")
        updater = sandbox.updater()
        for _ in range(3):
            await updater.run_once()
            await sandbox.settle()
        assert sandbox.calls("eviction") == []
        sandbox.admission = AdmissionStatus.ALIVE
        await updater.run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_restarted_updater_repeats_nothing() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("600m")
        for _ in range(5):
            await sandbox.updater().run_once()
            await sandbox.settle()
        assert sandbox.calls("resize") == [200, 200, 200]

    in_updater_sandbox(test)


def test_outdated_caches_cause_no_repetition() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=4)
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("600m")
        updater = sandbox.updater()
        await updater.run_once()
        await updater.run_once()
        await updater.run_once()
        assert len(sandbox.calls("resize")) == 4
        assert await sandbox.cpu() == ["600m"] * 4

    in_updater_sandbox(test)


def test_a_pod_whose_replacement_a_limit_range_would_refuse_is_kept() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        # Without a limit a container gets max: four times the request, before and after.
        bound = {"type": "Container", "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}
        body = {"metadata": {"name": "narrow"}, "spec": {"limits": [bound]}}
        await sandbox.admin.create(LIMIT_RANGES.as_dicts(), body, namespace="shop")
        await sandbox.recommend("100m")
        updater = sandbox.updater()
        for _ in range(3):
            await updater.run_once()
            await sandbox.settle()
        assert sandbox.calls("eviction") == []
        lines = await sandbox.messages("EvictionSkipped")
        assert lines == 3 * [
            (
                "Pod is not evicted, the API server would refuse its replacement: the cpu request "
                "of container app would be 100m, its limit 400m, and the LimitRange's "
                "maxLimitRequestRatio for a Container is 2. [replacement_would_be_refused] "
                "(VPA web; app cpu 500m -> 100m)"
            )
        ]

        await sandbox.admin.delete(LIMIT_RANGES, "narrow", namespace="shop")
        await sandbox.settle()
        await updater.run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_vpa_without_a_target_affects_no_other() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("100m")
        await sandbox.updater().run_once()
        with pytest.raises(NotFoundError):
            await sandbox.admin.get(DEPLOYMENTS, "web", namespace="shop")
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test)


def test_pods_controlled_by_an_older_vpa_are_not_updated() -> None:
    """Admission uses the oldest VPA; by the younger one, pods would be evicted again and again."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Initial", name="first")
        await asyncio.sleep(2)
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("100m")
        await sandbox.updater().run_once()
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test)


def test_an_older_vpa_in_mode_off_does_not_prevent_updates() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Off", name="first")
        await asyncio.sleep(2)
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("100m")
        await sandbox.updater().run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_pass_checks_again_before_each_action() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.settle()
        vpa = sandbox.caches.vpas.get("shop", "web")
        pods = sorted(sandbox.caches.pods.snapshot.items(), key=lambda pod: pod.metadata.name)
        assert vpa is not None
        deleted, released, kept = pods
        await sandbox.recommend("100m")
        assert sandbox.caches.has_vpa(vpa)
        assert all(sandbox.caches.has_pod(pod) for pod in pods)

        await sandbox.admin.delete(PODS, deleted.metadata.name, namespace="shop")
        for endpoint, name, patch in (
            (PODS.as_dicts(), released.metadata.name, {"metadata": {"ownerReferences": None}}),
            (VPAS.as_dicts(), "web", {"spec": {"updatePolicy": {"updateMode": "Off"}}}),
        ):
            await sandbox.admin.patch(
                endpoint, name, patch, patch_type=PatchType.MERGE, namespace="shop"
            )
        await asyncio.sleep(1)
        assert not sandbox.caches.has_pod(deleted)
        assert not sandbox.caches.has_pod(released)
        assert sandbox.caches.has_pod(kept)
        assert not sandbox.caches.has_vpa(vpa)

    in_updater_sandbox(test)


def test_a_skipped_vpa_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.autoscale("Recreate")
        await sandbox.autoscale("InPlace", name="gated")
        await sandbox.settle()
        updater = sandbox.updater()
        for _ in range(3):
            await updater.run_once()
        lines = [vars(line) for line in caplog.records if line.getMessage() == "vpa skipped"]
        assert {line["vpa"]: line["cause"] for line in lines} == {
            "shop/gated": "Deployment shop/web does not exist",
            "shop/web": "Deployment shop/web does not exist",
        }
        assert len(lines) == 2
        await sandbox.deploy()
        await updater.run_once()
        last = vars(caplog.records[-1])
        assert (last["vpa"], last["cause"]) == (
            "shop/gated",
            "mode InPlace needs --feature-gates=InPlace=true",
        )

    in_updater_sandbox(test, gate=False)
