"""The updater's preflight with the sandbox's API server, without and with dry runs."""

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


async def set_quota(sandbox: UpdaterSandbox, *, scopes: tuple[str, ...] = (), **hard: str) -> None:
    """Create a ResourceQuota, or change its amounts."""
    spec: dict[str, Any] = {"hard": {name.replace("_", "."): hard[name] for name in hard}}
    if scopes:
        spec["scopes"] = list(scopes)
    body = {"metadata": {"name": "team"}, "spec": spec}
    await sandbox.admin.create(QUOTAS, body, namespace="shop")
    await sandbox.settle()


async def run_passes(sandbox: UpdaterSandbox, updater: Any, times: int = 3) -> None:
    for _ in range(times):
        await updater.run_once()
        await sandbox.settle()


def dry_runs(sandbox: UpdaterSandbox) -> int:
    """Return the number of pods that the updater tried to create in dry runs."""
    entries = sandbox.cluster.audit(userAgent="vpa-updater", verb="create", resource="pods")
    return sum(not entry.subresource for entry in entries)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_quota_without_room_prevents_updates(mode: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await set_quota(sandbox, requests_cpu="1599m")
        await sandbox.autoscale(mode)
        await sandbox.recommend("600m")
        updater = sandbox.updater()
        await run_passes(sandbox, updater)
        assert sandbox.calls("eviction") == []
        assert sandbox.calls("resize") == []
        numbers = "allows 1599m of requests.cpu, other pods use 1, and the pod would use 600m"
        skipped, blocked = (
            await sandbox.messages("EvictionSkipped"),
            await sandbox.messages(BLOCKED),
        )
        assert all(numbers in message for message in skipped + blocked)
        assert len(skipped) == (0 if mode == "InPlace" else 3), "once for each pod"
        assert len(blocked) == (0 if mode == "Recreate" else 6), "and on the VPA"
        await sandbox.admin.patch(
            QUOTAS,
            "team",
            {"spec": {"hard": {"requests.cpu": "1700m"}}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await sandbox.settle()
        await updater.run_once()
        sent = sandbox.calls("eviction") + sandbox.calls("resize")
        assert sent in ([201], [200]), "there is room for one"
        await sandbox.settle()
        over = await sandbox.messages("InPlaceResizeUnblocked")
        assert len(over) == (0 if mode == "Recreate" else 2)
        assert all(message.endswith("(VPA web; app cpu 500m -> 600m)") for message in over)

    in_updater_sandbox(test)


def test_without_the_permission_to_read_quotas_the_updater_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        calls = Calls(resource="resourcequotas", user_agent="vpa-updater")
        sandbox.cluster.api.faults.add(
            ApiFault(calls=calls, effect=Effect(refuse=Refusal.FORBIDDEN))
        )
        sandbox.caches = Caches.following(sandbox.client)
        async with following(sandbox.caches.all(), sandbox.caches.quotas.run):
            await sandbox.deploy()
            await set_quota(sandbox, requests_cpu="1599m")
            await sandbox.autoscale("Recreate")
            await sandbox.recommend("600m")
            await sandbox.updater().run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)
    # Two caches watch them in this test, and each logs it once.
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [getattr(each, "resource", "") for each in warnings].count("resourcequotas") == 2


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_pod_level_resources_are_never_exceeded(mode: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(stanza={"requests": {"cpu": "500m"}})
        await sandbox.autoscale(mode)
        await sandbox.recommend("1")
        await run_passes(sandbox, sandbox.updater())
        assert sandbox.calls("eviction") == []
        assert sandbox.calls("resize") == []
        assert await sandbox.cpu() == 3 * ["500m"]

    in_updater_sandbox(test)


def test_a_dry_run_detects_a_replacement_without_the_recommendation() -> None:
    """This cluster doesn't have our webhook."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("600m")
        updater = sandbox.updater(dry_run=True)
        await run_passes(sandbox, updater)
        assert sandbox.calls("eviction") == []
        sentence = (
            "Pod is not evicted, its replacement would be no better: the VPA webhook would not "
            "patch it; app would request cpu 500m and memory 256Mi. "
            "[replacement_lacks_recommendation]"
        )
        messages = await sandbox.messages("EvictionSkipped")
        assert len(messages) == 3
        assert all(each.startswith(sentence) for each in messages)
        assert dry_runs(sandbox) == 1, "the pause is an interval, and less has passed"
        assert len(await sandbox.cpu()) == 3

    in_updater_sandbox(test)


def test_a_dry_run_detects_refusals_that_the_preflight_does_not() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await set_quota(sandbox, pods="2")
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("600m")
        await run_passes(sandbox, sandbox.updater(dry_run=True))
        assert sandbox.calls("eviction") == []
        (messages, *_) = await sandbox.messages("EvictionSkipped")
        assert "exceeded quota: team, requested: pods=1" in messages
        assert "[replacement_would_be_refused] (VPA web; " in messages

    in_updater_sandbox(test)


def test_a_quota_that_is_full_with_the_old_pod_allows_the_update() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await set_quota(sandbox, scopes=("NotTerminating",), requests_cpu="1500m", pods="3")
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("400m")
        await sandbox.updater(dry_run=True).run_once()
        assert dry_runs(sandbox) == 1
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_dry_run_without_a_response_prevents_the_eviction_for_one_pass() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await set_quota(sandbox, scopes=("NotTerminating",), requests_cpu="1500m")
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("400m")
        calls = Calls(verb="create", resource="pods", user_agent="vpa-updater")
        sandbox.cluster.api.faults.add(
            ApiFault(calls=calls, effect=Effect(refuse=Refusal.UNAVAILABLE), count=1)
        )
        updater = sandbox.updater(dry_run=True)
        await updater.run_once()
        assert sandbox.calls("eviction") == []
        await sandbox.settle()
        await updater.run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_stateful_set_is_tried_with_its_template_and_claims() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
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
        await sandbox.admin.create(STATEFUL_SETS.as_dicts(), body, namespace="shop")
        await sandbox.settle()
        await sandbox.settle()
        await sandbox.autoscale("Recreate")
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
        await sandbox.admin.patch(
            VPAS.as_dicts(),
            "web",
            {"spec": {"targetRef": target}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await sandbox.recommend("600m")
        await sandbox.updater(dry_run=True).run_once()
        assert dry_runs(sandbox) == 1
        (messages, *_) = await sandbox.messages("EvictionSkipped")
        assert "replacement_lacks_recommendation" in messages

    in_updater_sandbox(test)
