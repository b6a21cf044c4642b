"""``certs`` with an API server: one Secret, one CA bundle and concurrent processes."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority, certificate_stores
from certs.authority import Bundle
from certs.renewal import CertificatePolicy, usable
from certs.trust import WebhookCaBundle
from common.errors import ConfigError, ConflictError
from common.kube import ca_bundle
from common.kube.ca_bundle import CONFIGURATION_NAME, WEBHOOK_NAME
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS, SECRETS
from common.runtime.clock import SystemClock
from fake_api import FakeApi, status
from sandbox.cluster import running_cluster
from sandbox.scenario import parse_scenario

NOW = SystemClock().now()
POLICY = CertificatePolicy(hosts=["vpa-webhook.kube-system.svc"], lifetime=timedelta(days=100))
OTHER = authority.create_authority(
    POLICY.hosts, make_key=authority.rsa_key, now=NOW, lifetime=timedelta(days=1)
).certificate
FORCED = replace(POLICY, forced=True)
CONFIGURATION = {
    "metadata": {"name": CONFIGURATION_NAME},
    "webhooks": [
        {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:9"},
        }
        for name in ("first.example.com", WEBHOOK_NAME)
    ],
}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with running_cluster(parse_scenario("nodes: []")) as made, made.client("test") as found:
        yield found


async def ensure(
    client: KubeClient, policy: CertificatePolicy = POLICY, *, after: timedelta = timedelta()
) -> Bundle:
    """Run certs once, as a separate process would."""
    bundle, _ = await certificate_stores.ensure(
        [certificate_stores.Secret(client, "kube-system", "vpa-tls-certs")],
        WebhookCaBundle(client, CONFIGURATION_NAME),
        policy,
        make_key=lambda: ec.generate_private_key(ec.SECP256R1()),
        now=NOW + after,
    )
    return bundle


async def stored_bundle(client: KubeClient) -> Bundle:
    found = await certificate_stores.Secret(client, "kube-system", "vpa-tls-certs").load()
    assert found is not None
    return found


async def bundles(client: KubeClient) -> list[bytes]:
    """Return the CA bundle of each webhook."""
    found: dict[str, Any] = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    return [
        base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in found["webhooks"]
    ]


async def test_concurrent_runs_agree(client: KubeClient) -> None:
    await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
    made = await asyncio.gather(*(ensure(client) for _ in range(5)))
    assert made == [await stored_bundle(client)] * 5
    assert usable(made[0], POLICY.hosts, NOW)
    assert await bundles(client) == [b"", made[0].authority.certificate]


async def test_concurrent_renewals_agree(client: KubeClient) -> None:
    await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
    old = await ensure(client)
    await asyncio.gather(*(ensure(client, FORCED) for _ in range(3)))
    made = await ensure(client)
    assert made == await stored_bundle(client)
    assert made.server == old.server
    assert made.authority.certificate.endswith(old.authority.certificate)
    assert (await bundles(client))[1] == made.authority.certificate

    later = await asyncio.gather(*(ensure(client, after=POLICY.settle) for _ in range(3)))
    assert later == [await stored_bundle(client)] * 3
    assert later[0].server != old.server
    await asyncio.gather(*(ensure(client, after=POLICY.settle + POLICY.overlap) for _ in range(3)))
    last = await stored_bundle(client)
    assert len(authority.read_certificates(last.authority.certificate)) == 1
    assert (await bundles(client))[1] == last.authority.certificate


async def test_the_next_run_sets_the_bundle_of_a_new_webhook(client: KubeClient) -> None:
    made = await ensure(client)
    await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
    assert await ensure(client) == made
    assert (await bundles(client))[1] == made.authority.certificate


async def test_after_a_deleted_secret_the_former_authority_stays_trusted(
    client: KubeClient,
) -> None:
    await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
    old = await ensure(client)
    await client.delete(SECRETS, "vpa-tls-certs", namespace="kube-system")
    made = await ensure(client)
    assert made.server != old.server
    assert made.authority.certificate.endswith(old.authority.certificate)
    assert (await bundles(client))[1] == made.authority.certificate


async def test_a_bundle_is_not_written_over_an_unseen_change(client: KubeClient) -> None:
    await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
    seen = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    assert await ca_bundle.write(client, OTHER)
    hooks = [{"name": WEBHOOK_NAME, "clientConfig": ca_bundle.field(OTHER + OTHER)}]
    patch = {"metadata": ca_bundle.unchanged(seen), "webhooks": hooks}
    with pytest.raises(ConflictError):
        await client.patch(
            MUTATING_WEBHOOKS, CONFIGURATION_NAME, patch, patch_type=PatchType.STRATEGIC
        )
    assert await bundles(client) == [b"", OTHER]


async def test_an_empty_secret_is_filled(client: KubeClient) -> None:
    """The manifests contain an empty one, because no account of ours may create it."""
    empty = {"metadata": {"name": "vpa-tls-certs"}, "type": "Opaque"}
    await client.create(SECRETS, empty, namespace="kube-system")
    assert await certificate_stores.Secret(client, "kube-system", "vpa-tls-certs").load() is None
    assert await ensure(client) == await stored_bundle(client)


async def test_the_error_about_a_missing_secret_names_the_remedy() -> None:
    async with FakeApi() as api, api.client() as client:
        secrets = SECRETS.collection("kube-system")
        api.on(f"GET {secrets}/vpa-tls-certs", status(404, "NotFound"))
        api.on(f"POST {secrets}", status(403, "Forbidden", "secrets is forbidden"))
        with pytest.raises(ConfigError, match="apply the manifests again"):
            await ensure(client)
