"""Replicas of admission that keep the webhook's certificates themselves, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from admission.managed_certificates import CertificateFiles, ManagedCertificates
from admission.tls import KeyPair, follow, follow_authority
from certs import authority, certificate_stores
from certs.renewal import CertificatePolicy
from certs.trust import WebhookCaBundle
from common.certificates import PrivateKey
from common.kube import ca_bundle
from common.kube.ca_bundle import CONFIGURATION_NAME, WEBHOOK_NAME
from common.kube.client import KubeClient
from common.kube.endpoints import MUTATING_WEBHOOKS, SECRETS
from common.runtime.clock import Clock
from fake_api import FakeApi, Reply, named, status
from sandbox import virtual_time
from sandbox.cluster import Cluster
from sandbox.virtual_time import VirtualClock
from virtual_cluster import in_cluster

NAMESPACE, SECRET = "kube-system", "vpa-tls-certs"
POLICY = CertificatePolicy(hosts=("vpa-webhook.kube-system.svc",), overlap=timedelta(minutes=30))
MINUTE = 60.0
SCENARIO = "nodes: []"
FAILURE = "certificates not kept"
EMPTY_SECRET = {"metadata": {"name": SECRET, "namespace": NAMESPACE}, "type": "Opaque"}
CONFIGURATION = {
    "metadata": {"name": CONFIGURATION_NAME},
    "webhooks": [
        {
            "name": WEBHOOK_NAME,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:9"},
        }
    ],
}


def quick_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass
class Replica:
    """The certificates of one pod of admission."""

    managed: ManagedCertificates
    pair: KeyPair
    files: CertificateFiles
    registered: list[bytes] = field(default_factory=list)  # CA files that it has registered

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.managed.run())
            group.create_task(follow(self.pair))
            group.create_task(follow_authority(self.files.authority, self._register))

    async def _register(self) -> None:
        self.registered.append(self.files.authority.read_bytes())


def new_replica(client: KubeClient, clock: Clock, folder: Path) -> Replica:
    folder.mkdir()
    files = CertificateFiles(
        certificate=folder / "serverCert.pem",
        key=folder / "serverKey.pem",
        authority=folder / "caCert.pem",
    )
    managed = ManagedCertificates(
        certificate_stores.Secret(client, NAMESPACE, SECRET),
        WebhookCaBundle(client, CONFIGURATION_NAME),
        POLICY,
        files,
        clock,
        make_key=quick_key,
    )
    return Replica(managed, KeyPair(files.certificate, files.key, created_later=True), files)


@asynccontextmanager
async def running(
    cluster: Cluster, client: KubeClient, folder: Path, *, count: int
) -> AsyncIterator[list[Replica]]:
    """Run replicas, which start together."""
    replicas = [new_replica(client, cluster.clock, folder / str(number)) for number in range(count)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(replica.run()) for replica in replicas]
        yield replicas
        for task in tasks:
            task.cancel()


async def trusted(client: KubeClient) -> bytes:
    return await ca_bundle.read(client)


def test_replicas_that_start_with_an_empty_secret_agree(tmp_path: Path) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await client.create(SECRETS, EMPTY_SECRET, namespace=NAMESPACE)
        await client.create(MUTATING_WEBHOOKS, {"metadata": {"name": CONFIGURATION_NAME}})
        async with running(cluster, client, tmp_path, count=3) as replicas:
            async with asyncio.timeout(5):
                await asyncio.gather(*(replica.pair.loaded.wait() for replica in replicas))
            assert len({replica.files.certificate.read_bytes() for replica in replicas}) == 1
            assert len({replica.files.authority.read_bytes() for replica in replicas}) == 1
            assert all(replica.pair.valid_at(cluster.clock.now()) for replica in replicas)

    in_cluster(test, scenario=SCENARIO)


def test_only_the_owner_reads_the_key_and_no_file_has_that_of_the_authority(
    tmp_path: Path,
) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await client.create(SECRETS, EMPTY_SECRET, namespace=NAMESPACE)
        async with running(cluster, client, tmp_path, count=1) as (replica,):
            await replica.pair.loaded.wait()
            found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "0").iterdir()}
            assert found == {"caCert.pem": 0o644, "serverCert.pem": 0o644, "serverKey.pem": 0o600}

    in_cluster(test, scenario=SCENARIO)


def test_at_no_time_of_a_renewal_does_a_replica_serve_a_pair_that_is_not_trusted(
    tmp_path: Path,
) -> None:
    """The renewal is started by hand; the replicas take the next steps themselves."""

    async def test(cluster: Cluster, client: KubeClient) -> None:
        await client.create(SECRETS, EMPTY_SECRET, namespace=NAMESPACE)
        await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
        async with running(cluster, client, tmp_path, count=2) as replicas:
            await asyncio.sleep(MINUTE)
            first = await trusted(client)
            await certificate_stores.ensure(
                [certificate_stores.Secret(client, NAMESPACE, SECRET)],
                WebhookCaBundle(client, CONFIGURATION_NAME),
                replace(POLICY, forced=True),
                make_key=quick_key,
                now=cluster.clock.now(),
            )
            numbers = []
            for _ in range(2 * int(POLICY.settle / timedelta(minutes=1))):
                await asyncio.sleep(MINUTE / 2)
                numbers.append(await check_trust(client, replicas))
            await asyncio.sleep((POLICY.settle + POLICY.overlap).total_seconds())
            numbers.append(await check_trust(client, replicas))
            assert (numbers[0], numbers[-1]) == (2, 1)
            assert await trusted(client) != first
            for replica in replicas:
                assert replica.registered[-1] == await trusted(client)

    async def check_trust(client: KubeClient, replicas: list[Replica]) -> int:
        authorities = authority.read_certificates(await trusted(client))
        for replica in replicas:
            served = replica.pair.certificate
            assert served is not None
            assert any(authority.signed_by(served, each) for each in authorities)
        return len(authorities)

    in_cluster(test, scenario=SCENARIO)


def test_a_pair_that_is_due_is_renewed_without_being_asked(tmp_path: Path) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await client.create(SECRETS, EMPTY_SECRET, namespace=NAMESPACE)
        await client.create(MUTATING_WEBHOOKS, CONFIGURATION)
        almost_due = authority.create(
            POLICY.hosts,
            make_key=quick_key,
            now=cluster.clock.now() - timedelta(days=59, hours=23, minutes=50),
            lifetime=timedelta(days=100),
        )
        store = certificate_stores.Secret(client, NAMESPACE, SECRET)
        await store.load()
        await store.save(almost_due)
        async with running(cluster, client, tmp_path, count=2) as replicas:
            await asyncio.sleep(30 * MINUTE)
            for replica in replicas:
                served = replica.pair.certificate
                assert served is not None
                assert served.not_valid_after_utc - cluster.clock.now() > timedelta(days=3000)

    in_cluster(test, scenario=SCENARIO)


def test_a_missing_secret_is_logged_once_with_the_remedy_until_there_is_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The account of admission can't create Secrets."""
    secrets = SECRETS.collection(NAMESPACE)
    secret = f"GET {secrets}/{SECRET}"

    async def main(clock: VirtualClock) -> None:
        async with FakeApi() as api, api.client() as client:
            api.on(secret, status(404, "NotFound"))
            api.on(f"POST {secrets}", status(403, "Forbidden", "secrets is forbidden"))
            replica = new_replica(client, clock, tmp_path / "0")
            async with asyncio.TaskGroup() as group:
                task = group.create_task(replica.run())
                await api.asked(secret, times=5)
                assert [record.message for record in caplog.records].count(FAILURE) == 1
                assert "apply the manifests again" in str(caplog.records[-1].__dict__["error"])
                api.on(secret, Reply(body=named(SECRET, namespace=NAMESPACE)))
                api.on(f"PATCH {secrets}/{SECRET}", Reply(keep=f"{secrets}/{SECRET}"))
                await replica.pair.loaded.wait()
                task.cancel()

    virtual_time.run(main)
