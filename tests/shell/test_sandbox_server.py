"""The API server as it is served: TLS, kubeconfig, tokens, subresources, aggregated APIs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from common.errors import KubeError, NotFoundError, ServerError, UnauthorizedError
from common.kube.client import KubeClient, PatchType
from common.kube.config import load
from common.kube.endpoints import PODS
from common.runtime.clock import SystemClock
from fake_api import FakeApi, Reply
from sandbox.apiserver.server import ApiServer, ServedApi, serve
from sandbox.objects.store import Store
from sandbox.tls import make_credentials
from sandbox.version import KubernetesVersion
from sandbox_client import api_server, pod


@pytest.fixture
async def serving() -> AsyncIterator[ServedApi]:
    api = ApiServer(Store(), KubernetesVersion(), SystemClock())
    async with serve(api) as found:
        yield found


async def client_of(kubeconfig: str, folder: Path) -> KubeClient:
    path = folder / "kubeconfig"
    path.write_text(kubeconfig)
    connection = await load(str(path))
    return KubeClient(connection, user_agent="vpa-test/1", qps=1000, burst=1000)


async def test_the_kubeconfig_connects_to_the_server(serving: ServedApi, tmp_path: Path) -> None:
    async with await client_of(serving.kubeconfig, tmp_path) as client:
        made = await client.create(PODS.as_dicts(), pod(), namespace="default")
        assert made["metadata"]["managedFields"][0]["manager"] == "vpa-test"
        listing = await client.list(PODS, namespace="default")
        assert [one.metadata.name for one in listing.items] == ["web"]


async def test_a_token_makes_a_user_until_it_is_revoked(serving: ServedApi, tmp_path: Path) -> None:
    user = "system:node:sandbox"
    token = serving.api.authenticator.issue(user)
    async with await client_of(serving.kubeconfig_for(token), tmp_path) as client:
        await client.list(PODS)
        serving.api.authenticator.revoke(token)
        with pytest.raises(UnauthorizedError):
            await client.list(PODS)


async def test_watches_end_at_their_timeout(tmp_path: Path) -> None:
    api = ApiServer(Store(), KubernetesVersion(), SystemClock())
    async with (
        serve(api) as serving,
        await client_of(serving.kubeconfig, tmp_path) as client,
    ):
        version = (await client.list(PODS)).resource_version
        watch = client.watch(PODS, resource_version=version, on_open=api.stop_watches)
        assert [event async for event in watch] == []


def test_certificates_are_for_loopback_only() -> None:
    credentials = make_credentials()
    assert "BEGIN CERTIFICATE" in credentials.authority
    assert credentials.server_context().check_hostname is False
    assert "PRIVATE KEY" not in repr(credentials.authority)


DEFAULT_PODS = "/api/v1/namespaces/golden/pods"


async def test_a_binding_gives_a_pod_its_node_once() -> None:
    async with api_server() as api:
        await api.make(DEFAULT_PODS, pod())
        body = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
        bound = await api("POST", f"{DEFAULT_PODS}/web/binding", body)
        assert (bound.status, bound.json["status"]) == (201, "Success")
        found = await api.read(f"{DEFAULT_PODS}/web")
        assert found["spec"]["nodeName"] == "n1"
        assert found["status"]["conditions"][0]["type"] == "PodScheduled"
        again = await api("POST", f"{DEFAULT_PODS}/web/binding", body)
        assert (again.status, again.json["reason"]) == (409, "Conflict")
        other = {**body, "metadata": {"name": "no"}}
        assert (await api("POST", f"{DEFAULT_PODS}/no/binding", other)).status == 404
        assert (await api("POST", f"{DEFAULT_PODS}/no/binding", body)).status == 400


async def test_an_eviction_deletes_the_pod() -> None:
    async with api_server() as api:
        await api.make(DEFAULT_PODS, pod(node="n1"))
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
        evicted = await api("POST", f"{DEFAULT_PODS}/web/eviction", body)
        assert evicted.status == 201
        found = await api.read(f"{DEFAULT_PODS}/web")
        assert found["metadata"]["deletionGracePeriodSeconds"] == 30
        assert found["status"]["conditions"][0]["type"] == "DisruptionTarget"
        assert (await api("GET", f"{DEFAULT_PODS}/web/eviction")).status == 405


async def test_logs_state_that_no_container_runs() -> None:
    async with api_server() as api:
        await api.make("/api/v1/nodes", {"metadata": {"name": "n1"}})
        await api.make(DEFAULT_PODS, pod(node="n1"))
        status = {"containerStatuses": [{"name": "app", "state": {"running": {}}}]}
        await api.merge(f"{DEFAULT_PODS}/web/status", {"status": status})
        text = (await api("GET", f"{DEFAULT_PODS}/web/log")).body.decode()
        assert text == 'app: simulated container, restarts 0, state {"running":{}}\n'


async def test_the_proxy_passes_a_path_to_the_pod_without_credentials(
    serving: ServedApi, tmp_path: Path
) -> None:
    async with FakeApi() as behind, await client_of(serving.kubeconfig, tmp_path) as client:
        behind.on("GET /api/v1/plan", Reply(status=418, body={"error": "no coffee"}))
        await client.create(PODS.as_dicts(), pod(), namespace="default")
        proxy = f"/api/v1/namespaces/default/pods/web:{behind.port}/proxy"
        with pytest.raises(KubeError, match="address not allowed"):
            await client.request("GET", f"{proxy}/api/v1/plan")
        await set_address(client, "web", "127.0.0.1")
        with pytest.raises(KubeError, match="no coffee"):
            await client.request("GET", f"{proxy}/api/v1/plan", query={"limit": 2})
        (seen,) = behind.requests
        assert seen.target == "/api/v1/plan?limit=2"
        assert "Authorization" not in seen.headers
    with pytest.raises(ServerError, match="error trying to reach service"):
        async with await client_of(serving.kubeconfig, tmp_path) as client:
            await client.request("GET", f"{proxy}/api/v1/plan", retry=False)


async def set_address(client: KubeClient, name: str, address: str) -> None:
    await client.patch(
        PODS.as_dicts(),
        name,
        {"status": {"podIP": address}},
        patch_type=PatchType.MERGE,
        namespace="default",
        subresource="status",
    )


async def test_errors_have_their_class_over_https(serving: ServedApi, tmp_path: Path) -> None:
    async with await client_of(serving.kubeconfig, tmp_path) as client:
        with pytest.raises(NotFoundError, match='pods "missing" not found'):
            await client.get(PODS, "missing", namespace="default")
        with pytest.raises(KubeError, match="the server could not find"):
            await client.request("GET", "/apis/apps/v1/nothings")
