"""The webhook's registration: its creation, changes by others, and concurrent replicas."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admission import registration
from admission.settings import AdmissionSettings
from certificates import new_bundle
from common.flags import read_flags
from common.kube import ca_bundle
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS
from fake_api import until
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario

OLD, NEW = new_bundle().authority.certificate, new_bundle().authority.certificate
BY_URL = ("--register-by-url", "--webhook-address=https://127.0.0.1", "--webhook-port=9")
FLAGS = {
    "defaults": (),
    "by URL": BY_URL,
    "all": (
        *BY_URL,
        "--webhook-labels=a:b",
        "--webhook-failure-policy-fail",
        "--webhook-timeout-seconds=7",
        "--ignored-vpa-object-namespaces=x,y",
    ),
    "one namespace": ("--vpa-object-namespace=shop", "--webhook-labels=c:d,e:f"),
}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster(parse_scenario("nodes: []")) as made:
        yield made


def wanted(name: str, bundle: bytes = NEW) -> dict[str, Any]:
    settings = read_flags(AdmissionSettings, FLAGS[name])
    return registration.configuration(registration.of_settings(settings, namespace="vpa"), bundle)


async def stored(client: KubeClient) -> dict[str, Any]:
    """Return the configuration without identities and versions."""
    found: dict[str, Any] = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    personal = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
    kept = {key: value for key, value in found["metadata"].items() if key not in personal}
    return {**found, "metadata": kept}


@pytest.mark.parametrize("before", FLAGS)
async def test_any_existing_configuration_becomes_the_created_one(
    cluster: Cluster, before: str
) -> None:
    """Except for labels that are not wanted: another client may have set them."""
    async with cluster.client("test") as client:
        for after in FLAGS:
            await registration.register(client, wanted(after))
            fresh = await stored(client)
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
            await registration.register(client, wanted(before, OLD))
            labels = (await stored(client))["metadata"].get("labels", {})
            await registration.register(client, wanted(after))
            found = await stored(client)
            labels |= fresh["metadata"].pop("labels", {})
            assert found["metadata"].pop("labels", {}) == labels
            assert found == fresh, (before, after)
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)


async def test_foreign_annotations_are_kept(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        await registration.register(client, wanted("defaults"))
        note = {"metadata": {"annotations": {"example.com/note": "kept"}}}
        await client.patch(MUTATING_WEBHOOKS, CONFIGURATION_NAME, note, patch_type=PatchType.MERGE)
        await registration.register(client, wanted("all"))
        assert (await stored(client))["metadata"]["annotations"] == {"example.com/note": "kept"}


async def test_replicas_that_start_together_agree_without_a_deletion(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "caCert.pem"
    file.write_bytes(NEW)
    chosen = registration.of_settings(read_flags(AdmissionSettings, FLAGS["all"]), namespace="vpa")
    async with cluster.client("test") as client:
        registrars = [registration.Registrar(client, chosen, file.read_bytes) for _ in range(4)]
        await asyncio.gather(*(each.register() for each in registrars))
        fresh = await stored(client)
        assert fresh["webhooks"][0]["clientConfig"] == wanted("all")["webhooks"][0]["clientConfig"]
    assert cluster.audit(resource=MUTATING_WEBHOOKS.resource, verb="delete") == ()


async def test_the_current_content_of_the_file_is_sent(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "caCert.pem"
    file.write_bytes(OLD)
    chosen = registration.of_settings(read_flags(AdmissionSettings, ()), namespace="vpa")
    async with cluster.client("test") as client, asyncio.TaskGroup() as group:
        registrar = registration.Registrar(client, chosen, file.read_bytes)
        await registrar.register()
        patches = Calls(verb="patch", resource=MUTATING_WEBHOOKS.resource)
        trouble = ApiFault(calls=patches, effect=Effect(refuse=Refusal.INTERNAL), count=1)
        cluster.api.faults.add(trouble)
        file.write_bytes(OLD + OLD)
        renewing = group.create_task(registrar.renew_bundle())
        await until(lambda: "not accepted yet" in caplog.text)
        file.write_bytes(NEW)
        await renewing
        assert await ca_bundle.read(client) == NEW


# Changes by others


def registrar(
    client: KubeClient, flags: str = "defaults", bundle: bytes = NEW
) -> registration.Registrar:
    chosen = registration.of_settings(read_flags(AdmissionSettings, FLAGS[flags]), namespace="vpa")
    return registration.Registrar(client, chosen, lambda: bundle)


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """Return warnings about the configuration, with the fields in them."""
    return [
        (one.getMessage(), vars(one).get("fields"))
        for one in caplog.records
        if one.name == "admission.registration" and one.levelname == "WARNING"
    ]


def write_count(cluster: Cluster) -> int:
    """Return the number of creations and patches of the configuration."""
    verbs = ("create", "patch")
    return sum(len(cluster.audit(resource=MUTATING_WEBHOOKS.resource, verb=v)) for v in verbs)


async def patch(client: KubeClient, **webhook_fields: object) -> None:
    """Change the configuration as an operator with kubectl."""
    hooks = [{"name": "vpa.k8s.io", **webhook_fields}]
    await client.patch(
        MUTATING_WEBHOOKS,
        CONFIGURATION_NAME,
        {"webhooks": hooks},
        patch_type=PatchType.STRATEGIC,
    )


async def test_nothing_is_restored_before_the_registration(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        ours = registrar(client)
        assert not await ours.in_place()
        assert not ours.right
    assert cluster.audit(resource=MUTATING_WEBHOOKS.resource) == ()


async def test_a_correct_configuration_is_only_read(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client("test") as client:
        for flags in FLAGS:
            ours = registrar(client, flags)
            await ours.register()
            before = write_count(cluster)
            assert [await ours.in_place() for _ in range(3)] == [True] * 3
            assert write_count(cluster) == before
    assert warnings(caplog) == []
    verbs = {entry.verb for entry in cluster.audit(resource=MUTATING_WEBHOOKS.resource)}
    assert verbs == {"get", "create", "patch"}


async def test_a_deleted_configuration_is_created_again_each_time(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client("test") as client:
        ours = registrar(client, "all")
        await ours.register()
        fresh = await stored(client)
        for _ in range(3):
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
            assert await ours.in_place()
            assert await stored(client) == fresh
    assert warnings(caplog) == [("webhook configuration was missing, created it again", None)] * 3


async def test_a_changed_configuration_is_restored_and_logged_in_one_line(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client("test") as client:
        ours = registrar(client)
        await ours.register()
        fresh = await stored(client)
        await patch(client, timeoutSeconds=1, failurePolicy="Fail", clientConfig={"caBundle": ""})
        assert [await ours.in_place() for _ in range(2)] == [False, True]
        assert await stored(client) == fresh
    fields = "failurePolicy, timeoutSeconds, caBundle"
    assert warnings(caplog) == [("webhook configuration was changed, restored it", fields)]


async def test_a_change_that_one_check_finds_is_left(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        ours, theirs = registrar(client), registrar(client, "all")
        await ours.register()
        await theirs.register()
        before = write_count(cluster)
        assert not await ours.in_place()
        assert write_count(cluster) == before
        await ours.register()
        assert await ours.in_place()
        await theirs.register()
        before = write_count(cluster)
        assert not await ours.in_place()
        assert write_count(cluster) == before


async def test_repeated_changes_are_accepted_for_a_while_and_fail_the_condition(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client("test") as client:
        ours, theirs = registrar(client), registrar(client, "all")
        await ours.register()
        await theirs.register()
        caplog.clear()
        for each in (ours, theirs):
            assert [await each.in_place() for _ in range(2)] == [False, True]
        before = write_count(cluster)
        assert [await ours.in_place() for _ in range(3)] == [False] * 3
        assert not ours.right
        assert await theirs.in_place()
        assert theirs.right
        assert write_count(cluster) == before
    assert [what for what, _ in warnings(caplog)] == [
        "webhook configuration was changed, restored it",
        "webhook configuration was changed, restored it",
        "webhook configuration left as another writer wants it",
    ]


async def test_foreign_exemptions_are_kept_and_logged_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client("test") as client:
        ours = registrar(client)
        await ours.register()
        exempted = {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]}
        await patch(client, namespaceSelector=exempted)
        assert [await ours.in_place() for _ in range(3)] == [True] * 3
        assert (await stored(client))["webhooks"][0]["namespaceSelector"] == exempted
    said = ("registered webhook rules are narrower than configured", "namespaceSelector")
    assert warnings(caplog) == [said]


async def test_a_foreign_bundle_is_kept_also_by_a_repair(
    cluster: Cluster,
) -> None:
    theirs = ca_bundle.field(OLD)
    async with cluster.client("test") as client:
        ours = registrar(client, bundle=b"")
        await ours.register()
        await patch(client, clientConfig=theirs)
        assert await ours.in_place()
        await patch(client, timeoutSeconds=1)
        assert [await ours.in_place() for _ in range(2)] == [False, True]
        (hook,) = (await stored(client))["webhooks"]
        assert (hook["clientConfig"]["caBundle"], hook["timeoutSeconds"]) == (
            theirs["caBundle"],
            30,
        )


@pytest.mark.parametrize(
    "effect",
    [
        pytest.param(Effect(refuse=Refusal.INTERNAL), id="an error"),
        pytest.param(Effect(drop=True), id="no response"),
    ],
)
async def test_a_failed_read_changes_nothing(
    cluster: Cluster, effect: Effect, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client("test") as client:
        ours = registrar(client)
        await ours.register()
        reads = Calls(verb="get", resource=MUTATING_WEBHOOKS.resource)
        cluster.api.faults.add(ApiFault(calls=reads, effect=effect))
        before = write_count(cluster)
        assert [await ours.in_place() for _ in range(3)] == [True] * 3
        assert write_count(cluster) == before
    assert [what for what, _ in warnings(caplog)] == [
        "webhook configuration not read or not restored"
    ]


@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_a_failed_repair_fails_the_condition(cluster: Cluster, verb: str) -> None:
    async with cluster.client("test") as client:
        ours = registrar(client)
        await ours.register()
        writes = Calls(verb=verb, resource=MUTATING_WEBHOOKS.resource)
        refused = ApiFault(calls=writes, effect=Effect(refuse=Refusal.INTERNAL), count=1)
        if verb == "create":
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
        else:
            await patch(client, timeoutSeconds=1)
            assert not await ours.in_place()
        cluster.api.faults.add(refused)
        assert not await ours.in_place()


async def test_replicas_that_repair_at_the_same_time_agree(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        siblings = [registrar(client) for _ in range(4)]
        await asyncio.gather(*(each.register() for each in siblings))
        fresh = await stored(client)
        await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
        await asyncio.gather(*(each.in_place() for each in siblings))
        assert [await each.in_place() for each in siblings] == [True] * 4
        await patch(client, timeoutSeconds=1)
        for _ in range(2):
            await asyncio.gather(*(each.in_place() for each in siblings))
        assert [await each.in_place() for each in siblings] == [True] * 4
        assert await stored(client) == fresh
