"""The webhook's registration on an API server: whatever was there, and whoever comes twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admission import webhook
from admission.settings import Settings
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
    settings = read_flags(Settings, FLAGS[name])
    return webhook.configuration(webhook.registration(settings, namespace="vpa"), bundle)


async def stored(client: KubeClient) -> dict[str, Any]:
    """The configuration without what differs between any two objects."""
    found: dict[str, Any] = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    personal = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
    kept = {key: value for key, value in found["metadata"].items() if key not in personal}
    return {**found, "metadata": kept}


@pytest.mark.parametrize("before", FLAGS)
async def test_whatever_was_there_becomes_what_would_have_been_created(
    cluster: Cluster, before: str
) -> None:
    async with cluster.client("test") as client:
        for after in FLAGS:
            await webhook.register(client, wanted(after))
            fresh = await stored(client)
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
            await webhook.register(client, wanted(before, OLD))
            await webhook.register(client, wanted(after))
            assert await stored(client) == fresh, (before, after)
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)


async def test_annotations_of_others_stay(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        await webhook.register(client, wanted("defaults"))
        note = {"metadata": {"annotations": {"example.com/note": "kept"}}}
        await client.patch(MUTATING_WEBHOOKS, CONFIGURATION_NAME, note, patch_type=PatchType.MERGE)
        await webhook.register(client, wanted("all"))
        assert (await stored(client))["metadata"]["annotations"] == {"example.com/note": "kept"}


async def test_replicas_that_start_together_agree_and_nobody_deletes(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "caCert.pem"
    file.write_bytes(NEW)
    chosen = webhook.registration(read_flags(Settings, FLAGS["all"]), namespace="vpa")
    async with cluster.client("test") as client:
        registrars = [webhook.Registrar(client, chosen, file.read_bytes) for _ in range(4)]
        await asyncio.gather(*(each.register() for each in registrars))
        fresh = await stored(client)
        assert fresh["webhooks"][0]["clientConfig"] == wanted("all")["webhooks"][0]["clientConfig"]
    assert cluster.audit(resource=MUTATING_WEBHOOKS.resource, verb="delete") == ()


async def test_what_is_sent_is_what_is_in_the_file_by_then(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "caCert.pem"
    file.write_bytes(OLD)
    chosen = webhook.registration(read_flags(Settings, ()), namespace="vpa")
    async with cluster.client("test") as client, asyncio.TaskGroup() as group:
        registrar = webhook.Registrar(client, chosen, file.read_bytes)
        await registrar.register()
        patches = Calls(verb="patch", resource=MUTATING_WEBHOOKS.resource)
        trouble = ApiFault(calls=patches, effect=Effect(refuse=Refusal.INTERNAL), count=1)
        cluster.api.faults.add(trouble)
        file.write_bytes(OLD + OLD)
        renewing = group.create_task(registrar.renew_bundle(OLD + OLD))
        await until(lambda: "not accepted yet" in caplog.text)
        file.write_bytes(NEW)
        await renewing
        assert await ca_bundle.read(client) == NEW
