"""A webhook that requires client certificates responds only to the API server.

--admission-control-config-file configures the API server's certificate (docs/security.md).
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from common.errors import KubeError
from common.kube.endpoints import PODS, SECRETS, VPAS
from common.runtime.clock import SystemClock
from controlplane.cluster import ControlPlane
from controlplane.files import WEBHOOK_CLIENT, WEBHOOK_CLIENT_CA, Files
from e2e.cluster import OTHER_RECOMMENDER, Case, Cluster
from e2e.control_plane import WEBHOOK_HOST, WEBHOOK_PORT
from e2e.installation import ADMISSION, SYSTEM
from e2e.pods import LARGE, Object, requests
from sandbox.tls import Authority
from webhook_client import Connection
from workloads import autoscaler

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_REVIEWS = "vpa_admission_controller_reviews_total"
_FAIL_OPEN_COUNT = 'apiserver_admission_webhook_fail_open_count{name="vpa.k8s.io"'
_REFUSED = (403, b"no client certificate\n")


def _client_pair(files: Files) -> tuple[Path, Path]:
    """Return the certificate and the key file of the API server as a client of webhooks."""
    return files.certificate(WEBHOOK_CLIENT), files.key(WEBHOOK_CLIENT)


async def _secret_data(cluster: Cluster) -> dict[str, bytes]:
    """Return the content of the Secret with the webhook's own certificates."""
    found = await cluster.client.get(SECRETS, "vpa-tls-certs", namespace=SYSTEM)
    return {name: base64.b64decode(value) for name, value in found["data"].items()}


@asynccontextmanager
async def _requiring_certificates(case: Case) -> AsyncIterator[None]:
    """Let admission require certificates from the authority of the API server's certificate.

    The working directory of a simulated pod's process stands for the root of its file system.
    """
    cluster, name = case.cluster, f"{case.namespace[-6:]}-clients"
    authorities = cluster.control_plane.files.certificate(WEBHOOK_CLIENT_CA).read_bytes()
    data = {"authorities.pem": base64.b64encode(authorities).decode()}
    secret = {"metadata": {"name": name}, "type": "Opaque", "data": data}
    pod = "/spec/template/spec"
    operations = [
        (f"{pod}/volumes/-", {"name": "clients", "secret": {"secretName": name}}),
        (f"{pod}/containers/0/volumeMounts/-", {"name": "clients", "mountPath": "/etc/clients"}),
        (f"{pod}/containers/0/args/-", "--caller-ca-file=etc/clients/authorities.pem"),
        (f"{pod}/containers/0/args/-", "--require-client-certificate"),
    ]
    patch = [{"op": "add", "path": path, "value": value} for path, value in operations]
    await cluster.client.create(SECRETS, secret, namespace=SYSTEM)
    try:
        async with cluster.installation.patched(ADMISSION, json.dumps(patch), kind="json"):
            yield
    finally:
        await cluster.client.delete(SECRETS, name, namespace=SYSTEM)


async def _deployment_pod(case: Case) -> Object:
    """Create a Deployment without pods and a VPA with a small target; return a pod to create."""
    await case.deploy("web", replicas=0, requests=LARGE)
    await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    return await case.gated_pod("web")


async def _wait_until_patched(case: Case, pod: Object) -> None:
    """Wait until a new pod is stored with the target."""

    async def patched() -> bool:
        return requests(await case.create(PODS, pod)) == _SMALL

    await case.cluster.wait_for(patched, "new pods are patched")


async def _refusal(case: Case) -> str:
    """Create an invalid VPA in a dry run; return the error, empty if it is accepted."""
    vpa = autoscaler("invalid", updatePolicy={"updateMode": "Off", "minReplicas": 0})
    try:
        await case.cluster.client.create(
            VPAS.as_dicts(), vpa, namespace=case.namespace, dry_run=True
        )
    except KubeError as error:
        return str(error)
    return ""


async def _ignored_failures(cluster: Cluster) -> float:
    """Return the number of failed calls of the webhook that the API server ignored."""
    metrics = (await cluster.control_plane.metrics_text()).splitlines()
    return sum(
        float(line.rpartition(" ")[2]) for line in metrics if line.startswith(_FAIL_OPEN_COUNT)
    )


async def test_pods_are_patched_and_vpas_validated_for_an_api_server_that_shows_its_certificate(
    case: Case,
) -> None:
    cluster, pod = case.cluster, await _deployment_pod(case)
    async with _requiring_certificates(case):
        await _wait_until_patched(case, pod)
        assert "minReplicas has to be positive" in await _refusal(case)
        before = await _ignored_failures(cluster)
        for _ in range(10):
            assert requests(await case.create(PODS, pod)) == _SMALL
        assert await _ignored_failures(cluster) == before
        assert (
            await cluster.metric_total(ADMISSION, _REVIEWS, outcome="patched", resource="Pod") >= 10
        )
        assert await cluster.metric_total(ADMISSION, _REVIEWS, outcome="refused") == 0
        assert await cluster.ops_response(ADMISSION, "/readyz") == "OK", "the self-check passes"


async def test_a_caller_without_a_certificate_of_the_authority_is_refused(
    case: Case, tmp_path: Path
) -> None:
    cluster = case.cluster
    own = await _secret_data(cluster)
    for name, content in own.items():
        (tmp_path / name).write_bytes(content)
    stranger = Authority(SystemClock().now(), name=WEBHOOK_CLIENT_CA).client("kube-apiserver")
    for name, text in (("stranger.crt", stranger.certificate), ("stranger.key", stranger.key)):
        (tmp_path / name).write_text(text)

    async def answer(pair: tuple[Path, Path] | None) -> tuple[int, bytes]:
        async with Connection.to(
            WEBHOOK_PORT, own["caCert.pem"], host=WEBHOOK_HOST, pair=pair
        ) as connection:
            return await connection.send(b"{}")

    assert (await answer(None))[0] == 200, "no certificate is required by default"
    async with _requiring_certificates(case):
        assert (await answer(_client_pair(cluster.control_plane.files)))[0] == 200
        assert await answer(None) == _REFUSED
        assert await cluster.metric_total(ADMISSION, _REVIEWS, outcome="refused") == 1
        for which in (
            ("stranger.crt", "stranger.key"),  # of another authority with the same name
            ("serverCert.pem", "serverKey.pem"),  # of a trusted authority, but not for clients
        ):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await answer((tmp_path / which[0], tmp_path / which[1]))
        assert await cluster.ops_response(ADMISSION, "/readyz") == "OK"


@asynccontextmanager
async def _without_certificate(plane: ControlPlane) -> AsyncIterator[None]:
    """Restart the API server without its client certificate for webhooks."""
    path = plane.files.kubeconfig(WEBHOOK_CLIENT)
    configured = path.read_text()
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config"}))
    try:
        await plane.restart_api_server()
        yield
    finally:
        path.write_text(configured)
        await plane.restart_api_server()


async def test_pods_are_created_unchanged_while_the_api_server_shows_no_certificate(
    case: Case,
) -> None:
    cluster, pod = case.cluster, await _deployment_pod(case)
    async with _requiring_certificates(case):
        await _wait_until_patched(case, pod)
        async with _without_certificate(cluster.control_plane):

            async def refused() -> bool:
                assert requests(await case.create(PODS, pod)) == LARGE
                return await cluster.metric_total(ADMISSION, _REVIEWS, outcome="refused") >= 1

            await cluster.wait_for(refused, "the webhook refuses the API server, pods are created")
            assert await _refusal(case) == ""
            assert await _ignored_failures(cluster) >= 1
        await _wait_until_patched(case, pod)
