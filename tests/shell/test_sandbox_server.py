"""The API server as it is served: TLS, kubeconfig, tokens, subresources, aggregated APIs."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import ForbiddenError, KubeError, NotFoundError, UnauthorizedError
from common.kube.client import KubeClient
from common.kube.config import load
from common.kube.endpoints import DEPLOYMENTS, PODS
from common.runtime.clock import SystemClock
from sandbox.apiserver.server import ApiServer, Serving, serve
from sandbox.listener import Listener
from sandbox.objects.store import Store
from sandbox.tls import make_credentials
from sandbox.version import KubernetesVersion
from sandbox_client import Api, api_server, pod


@pytest.fixture
async def serving() -> AsyncIterator[Serving]:
    api = ApiServer(Store(), KubernetesVersion(), SystemClock())
    async with serve(api) as found:
        yield found


async def client_of(kubeconfig: str, folder: Path) -> KubeClient:
    path = folder / "kubeconfig"
    path.write_text(kubeconfig)
    connection = await load(str(path))
    return KubeClient(connection, user_agent="vpa-test/1", qps=1000, burst=1000)


async def test_the_kubeconfig_leads_to_the_server(serving: Serving, tmp_path: Path) -> None:
    async with await client_of(serving.kubeconfig, tmp_path) as client:
        made = await client.create(PODS.as_dicts(), pod(), namespace="default")
        assert made["metadata"]["managedFields"][0]["manager"] == "vpa-test"
        listing = await client.list(PODS, namespace="default")
        assert [one.metadata.name for one in listing.items] == ["web"]


async def test_a_token_makes_a_user_until_it_is_revoked(serving: Serving, tmp_path: Path) -> None:
    user = "system:node:sandbox"
    token = serving.authenticator.issue(user)
    async with await client_of(serving.kubeconfig_for(token), tmp_path) as client:
        await client.list(PODS)
        serving.authenticator.revoke(token)
        with pytest.raises(UnauthorizedError):
            await client.list(PODS)


async def test_watches_end_when_the_server_says_so(tmp_path: Path) -> None:
    api = ApiServer(Store(), KubernetesVersion(), SystemClock())
    async with (
        serve(api) as serving,
        await client_of(serving.kubeconfig, tmp_path) as client,
    ):
        version = (await client.list(PODS)).resource_version
        watch = client.watch(PODS, resource_version=version, on_open=api.stop_watches)
        assert [event async for event in watch] == []


def test_certificates_are_for_loopback_only() -> None:
    credentials = make_credentials(SystemClock().now())
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
        nowhere = {"metadata": {"name": "web"}, "target": {"kind": "Pod"}}
        assert (await api("POST", f"{DEFAULT_PODS}/web/binding", nowhere)).status == 500


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


async def test_scaling_by_put_and_by_patch() -> None:
    async with api_server() as api:
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        path = DEPLOYMENTS.collection("golden")
        await api.make(path, {"metadata": {"name": "web"}, "spec": spec})
        patched = await api.merge(f"{path}/web/scale", {"spec": {"replicas": 3}})
        assert (patched.json["kind"], patched.json["spec"]) == ("Scale", {"replicas": 3})
        scale = patched.json
        scale["spec"]["replicas"] = 0
        assert (await api("PUT", f"{path}/web/scale", scale)).json["spec"] == {}
        late = await api("PUT", f"{path}/web/scale", scale)
        assert (late.status, late.json["reason"]) == (409, "Conflict")
        bad = await api.merge(f"{path}/web/scale", {"spec": {"replicas": -1}})
        assert bad.status == 422
        found = await api.read(f"{path}/web")
        assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (0, 3)


async def test_logs_say_that_nothing_runs() -> None:
    async with api_server() as api:
        await api.make("/api/v1/nodes", {"metadata": {"name": "n1"}})
        await api.make(DEFAULT_PODS, pod(node="n1"))
        status = {"containerStatuses": [{"name": "app", "state": {"running": {}}}]}
        await api.merge(f"{DEFAULT_PODS}/web/status", {"status": status})
        text = (await api("GET", f"{DEFAULT_PODS}/web/log")).body.decode()
        assert text == 'app: simulated container, restarts 0, state {"running":{}}\n'
        assert (await api("GET", f"{DEFAULT_PODS}/web/log?container=no")).status == 400


async def test_a_pod_without_a_node_has_no_logs() -> None:
    async with api_server() as api:
        await api.make(DEFAULT_PODS, pod())
        assert (await api("GET", f"{DEFAULT_PODS}/web/log")).status == 204


async def test_definitions_that_can_not_be_served_are_refused() -> None:
    async with api_server() as api:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        version = {"name": "v1", "served": True, "storage": True}
        good: dict[str, Any] = {
            "group": "example.test",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**version, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }
        pattern = {"type": "object", "properties": {"a": {"pattern": "("}}}
        columns = [{"name": "A", "type": "string", "jsonPath": "..a"}]
        schema = good["versions"][0]["schema"]
        for wrong in (
            {"scope": ""},
            {"names": {"plural": "others", "kind": "Thing"}},
            {"versions": [version]},
            {"versions": [{**version, "schema": {"openAPIV3Schema": {"type": "string"}}}]},
            {"versions": [{**version, "schema": {"openAPIV3Schema": pattern}}]},
            {"versions": [{**good["versions"][0], "storage": False}]},
            {"versions": [{**version, "schema": schema, "additionalPrinterColumns": columns}]},
            {"conversion": {"strategy": "Webhook"}},
        ):
            body = {"metadata": {"name": "things.example.test"}, "spec": {**good, **wrong}}
            assert (await api("POST", path, body)).status == 422, wrong
        made = await api.make(path, {"metadata": {"name": "things.example.test"}, "spec": good})
        assert made["status"]["conditions"] is None  # nobody has looked at it yet
        found = await api.read(f"{path}/things.example.test")
        conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert (await api.read("/apis/example.test/v1/things"))["items"] == []


class Metrics:
    """An aggregated server that answers with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, str]] = []

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append({**headers, "path": scope["path"], "query": str(scope["query_string"])})
        body = msgspec.json.encode({"kind": "APIResourceList", "path": scope["path"]})
        start = {"type": "http.response.start", "status": 200}
        await send({**start, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


async def register(api: Api, port: int, **trust: Any) -> None:
    await api.make(
        "/api/v1/namespaces/golden/services",
        {"metadata": {"name": "m"}, "spec": {"type": "ExternalName", "externalName": "localhost"}},
    )
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "service": {"namespace": "golden", "name": "m", "port": port},
        **trust,
    }
    body = {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec}
    await api.make("/apis/apiregistration.k8s.io/v1/apiservices", body)


async def available(api: Api) -> str:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
    condition = (await api.read(path))["status"]["conditions"][0]
    return str(condition["status"])


async def test_an_aggregated_api_is_passed_on() -> None:
    metrics = Metrics()
    tls = make_credentials(SystemClock().now(), names=("m.golden.svc",)).server_context()
    async with api_server() as api, Listener(metrics, tls=tls) as listener:
        await register(api, listener.port, insecureSkipTLSVerify=True)
        groups = [one["name"] for one in (await api.read("/apis"))["groups"]]
        assert "metrics.k8s.io" in groups
        path = "/apis/metrics.k8s.io/v1beta1"
        assert (await api.read(path))["path"] == path
        pods = await api.read(f"{path}/namespaces/golden/pods?labelSelector=a%3Db")
        assert pods["path"] == f"{path}/namespaces/golden/pods"
        assert metrics.asked[-1]["x-remote-user"] == "kubernetes-admin"
        assert metrics.asked[-1]["query"] == str(b"labelSelector=a%3Db")
        assert await available(api) == "True"


async def test_an_aggregated_api_that_is_not_trusted_or_away_is_unavailable() -> None:
    tls = make_credentials(SystemClock().now()).server_context()
    async with api_server() as api, Listener(Metrics(), tls=tls) as listener:
        await register(api, listener.port)  # no authority that knows the certificate
        answer = await api("GET", "/apis/metrics.k8s.io/v1beta1/pods")
        assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")
        assert await available(api) == "False"


async def test_errors_keep_their_class_over_the_wire(serving: Serving, tmp_path: Path) -> None:
    async with await client_of(serving.kubeconfig, tmp_path) as client:
        with pytest.raises(NotFoundError, match='pods "nobody" not found'):
            await client.get(PODS, "nobody", namespace="default")
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "gone"}})
        await client.create(
            PODS.as_dicts(), {**pod(node="n"), "apiVersion": "v1", "kind": "Pod"}, namespace="gone"
        )
        await client.request("DELETE", "/api/v1/namespaces/gone")
        with pytest.raises(ForbiddenError) as caught:
            await client.create(PODS.as_dicts(), pod("late"), namespace="gone")
        assert caught.value.has_cause("NamespaceTerminating")
        with pytest.raises(KubeError, match="the server could not find"):
            await client.request("GET", "/apis/apps/v1/nothings")
