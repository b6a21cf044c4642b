"""A webhook that requires client certificates answers only the API server.

The API server has its certificate by --admission-control-config-file, as docs/operations.md says.
"""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from common.errors import KubeError
from common.kube import ca_bundle
from common.kube.endpoints import DEPLOYMENTS, PODS, SECRETS, VPAS
from common.runtime.clock import SystemClock
from controlplane.cluster import ControlPlane
from controlplane.files import WEBHOOK_CLIENT, WEBHOOK_CLIENT_CA, Files
from e2e.clusters import WEBHOOK_HOST, WEBHOOK_PORT
from e2e.installation import ADMISSION, SYSTEM
from e2e.pods import LARGE, Object, requests
from e2e.world import BY_HAND, Case, World
from sandbox.tls import Authority
from webhook_client import Connection
from workloads import autoscaler

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_REVIEWS = "vpa_admission_controller_reviews_total"
_FAILED_OPEN = 'apiserver_admission_webhook_fail_open_count{name="vpa.k8s.io"'
_REFUSED = (403, b"no client certificate\n")


def _pair(files: Files) -> tuple[Path, Path]:
    """The files of what the API server shows to webhooks."""
    return files.certificate(WEBHOOK_CLIENT), files.key(WEBHOOK_CLIENT)


async def _members(world: World) -> dict[str, bytes]:
    """What the Secret of the webhook's own certificates holds."""
    found = await world.client.get(SECRETS, "vpa-tls-certs", namespace=SYSTEM)
    return {name: base64.b64decode(value) for name, value in found["data"].items()}


@asynccontextmanager
async def _required(case: Case) -> AsyncIterator[None]:
    """admission requires certificates, and accepts those of the API server's authority.

    The file also holds the webhook's own authority, which API servers trust.
    Processes of the cluster start in the folder that stands for the root of their files.
    """
    world, name = case.world, f"{case.namespace[-6:]}-clients"
    own = (await _members(world))["caCert.pem"]
    authorities = own + world.cluster.files.certificate(WEBHOOK_CLIENT_CA).read_bytes()
    data = {"authorities.pem": base64.b64encode(authorities).decode()}
    secret = {"metadata": {"name": name}, "type": "Opaque", "data": data}
    pod = "/spec/template/spec"
    operations = [
        (f"{pod}/volumes/-", {"name": "clients", "secret": {"secretName": name}}),
        (f"{pod}/containers/0/volumeMounts/-", {"name": "clients", "mountPath": "/etc/clients"}),
        (f"{pod}/containers/0/args/-", "--client-ca-file=etc/clients/authorities.pem"),
        (f"{pod}/containers/0/args/-", "--require-client-certificate"),
    ]
    patch = [{"op": "add", "path": path, "value": value} for path, value in operations]
    await world.client.create(SECRETS, secret, namespace=SYSTEM)
    try:
        async with world.installation.patched(ADMISSION, json.dumps(patch), kind="json"):
            yield
    finally:
        await world.client.delete(SECRETS, name, namespace=SYSTEM)
        # admission leaves other authorities in the caBundle; certs puts it right.
        await world.installation.install()
        assert await ca_bundle.read(world.client) == own


async def _advised(case: Case) -> Object:
    """A Deployment without pods, and a VPA that wants them small; a pod of it, to be created.

    It is held back, so that no kubelet has work with it.
    """
    await case.deploy("web", replicas=0, requests=LARGE)
    await case.autoscale("web", "Initial", recommenders=BY_HAND)
    await case.advise("web", app=_SMALL)
    owner = await case.world.client.get(DEPLOYMENTS.as_dicts(), "web", namespace=case.namespace)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    template: Object = owner["spec"]["template"]
    return {
        "metadata": {
            "generateName": "web-",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [reference],
        },
        "spec": {**template["spec"], "schedulingGates": [{"name": "example.com/held"}]},
    }


async def _becomes_patched(case: Case, pod: Object) -> None:
    """Wait until a new pod is stored with what is recommended."""

    async def patched() -> bool:
        return requests(await case.create(PODS, pod)) == _SMALL

    await case.world.until(patched, "new pods are patched")


async def _why_refused(case: Case) -> str:
    """Create a VPA that says nonsense, in a dry run; why it is refused, empty if it isn't."""
    vpa = autoscaler("nonsense", updatePolicy={"updateMode": "Off", "minReplicas": 0})
    try:
        await case.world.client.create(VPAS.as_dicts(), vpa, namespace=case.namespace, dry_run=True)
    except KubeError as error:
        return str(error)
    return ""


async def _failed_open(world: World) -> float:
    """How many calls of the webhook failed, and were ignored."""
    metrics = (await world.cluster.metrics_text()).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in metrics if line.startswith(_FAILED_OPEN))


async def test_pods_are_patched_and_vpas_validated_for_an_api_server_that_shows_its_certificate(
    case: Case,
) -> None:
    world, pod = case.world, await _advised(case)
    async with _required(case):
        await _becomes_patched(case, pod)
        assert "minReplicas has to be positive" in await _why_refused(case)
        before = await _failed_open(world)
        for _ in range(10):
            assert requests(await case.create(PODS, pod)) == _SMALL
        assert await _failed_open(world) == before
        assert await world.total(ADMISSION, _REVIEWS, outcome="patched", resource="Pod") >= 10
        assert await world.total(ADMISSION, _REVIEWS, outcome="refused") == 0
        assert await world.ops(ADMISSION, "/readyz") == "OK", "its self-check passes, too"


async def test_a_caller_without_a_certificate_of_the_authority_is_refused(
    case: Case, tmp_path: Path
) -> None:
    world = case.world
    own = await _members(world)
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
    async with _required(case):
        assert (await answer(_pair(world.cluster.files)))[0] == 200
        assert await answer(None) == _REFUSED
        assert await world.total(ADMISSION, _REVIEWS, outcome="refused") == 1
        for which in (
            ("stranger.crt", "stranger.key"),  # of another authority, whatever that calls itself
            ("serverCert.pem", "serverKey.pem"),  # of a known one, but not for clients
        ):
            with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):  # or an empty answer
                await answer((tmp_path / which[0], tmp_path / which[1]))
        assert await world.ops(ADMISSION, "/readyz") == "OK"


@asynccontextmanager
async def _showing_nothing(plane: ControlPlane) -> AsyncIterator[None]:
    """An API server that shows webhooks no certificate; its configuration is read at its start."""
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
    world, pod = case.world, await _advised(case)
    async with _required(case):
        await _becomes_patched(case, pod)
        async with _showing_nothing(world.cluster):

            async def unchanged() -> bool:
                return requests(await case.create(PODS, pod)) == LARGE

            await world.until(unchanged, "new pods are created as they were sent")
            assert await _why_refused(case) == ""
            assert await world.total(ADMISSION, _REVIEWS, outcome="refused") >= 1
            assert await _failed_open(world) >= 1
        await _becomes_patched(case, pod)
