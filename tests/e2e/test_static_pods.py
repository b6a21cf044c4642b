"""The components as processes beside the API server, with the flags of the static pods.

The commands are those of docs/control-plane.md.
"""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from common.kube.endpoints import MUTATING_WEBHOOKS, PODS
from controlplane.processes import Server, free_ports
from e2e.cluster import OTHER_RECOMMENDER, Case, Cluster
from e2e.control_plane import IMAGES
from e2e.installation import ADMISSION, COMPONENTS
from e2e.kubectl import run_command
from e2e.pods import LARGE, Object, requests
from page_commands import find_block
from static_pods import CONTROL_PLANE, PAGE, STATIC_PODS, StaticPod, static_pod

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_ELECTIONS = ("vpa-recommender-lease", "vpa-updater")


async def _shell(commands: str) -> str:
    code, printed = await run_command("bash", "-euo", "pipefail", "-c", commands)
    assert code == 0, printed
    return printed


async def _write_kubeconfigs(cluster: Cluster, folder: Path) -> None:
    """Run the commands of the page with the authority and the address of this cluster."""
    certificate = cluster.control_plane.files.certificate("ca")
    commands = find_block(PAGE, "SERVER=")
    for documented, actual in (
        ("https://10.0.0.10:6443", cluster.control_plane.url),
        ("/etc/kubernetes/pki", str(certificate.parent)),
    ):
        assert documented in commands
        commands = commands.replace(documented, actual)
    await _shell(f"cd {folder}\n{commands}")
    left = await _shell(f"ls {folder}")
    assert set(left.split()) == {f"{name}.conf" for name in COMPONENTS}


async def _delete_deployments(cluster: Cluster) -> None:
    """Prepare the cluster as the page describes it, and wait until the pods are gone."""
    printed = await cluster.kubectl("apply", "-k", str(CONTROL_PLANE))
    assert [line for line in printed.splitlines() if not line.endswith(" unchanged")] == []
    command = find_block(PAGE, "kubectl -n kube-system delete deployment").split()
    await cluster.kubectl(*command[1:])

    async def gone() -> bool:
        return not [pod for name in COMPONENTS for pod in await cluster.component_pods(name)]

    await cluster.wait_for(gone, "the pods of the Deployments are gone")


def _command(pod: StaticPod, ports: Mapping[int, int], folder: Path) -> list[str]:
    """Return the command of a static pod, with the folders and ports of this machine."""
    image = str(pod.container["image"]).rpartition(":")[0]
    module = IMAGES[image][3]
    args = [
        arg.replace("/etc/kubernetes/", f"{folder}/").replace("/etc/tls-certs/", f"{folder}/")
        for arg in pod.args
    ]
    if any(mount["mountPath"] == "/etc/tls-certs" for mount in pod.container["volumeMounts"]):
        args += [
            f"--tls-cert-file={folder}/serverCert.pem",
            f"--tls-private-key={folder}/serverKey.pem",
            f"--client-ca-file={folder}/caCert.pem",
        ]
    for documented, actual in ports.items():
        args = [arg.replace(str(documented), str(actual)) for arg in args]
    return [sys.executable, "-P", "-m", module, *args]


async def _is_ready(pod: StaticPod, ports: Mapping[int, int]) -> bool:
    """Probe a component as the kubelet does."""
    probe = pod.container["readinessProbe"]["httpGet"]
    port = ports[pod.ports[probe["port"]]]
    url = f"http://{probe['host']}:{port}{probe['path']}"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientConnectorError:
        return False


@asynccontextmanager
async def _beside_the_api_server(cluster: Cluster, folder: Path) -> AsyncIterator[int]:
    """Run the static pods as processes instead of the Deployments; yield the webhook's port."""
    await _write_kubeconfigs(cluster, folder)
    pods = [static_pod(name) for name in COMPONENTS]
    documented = [port for pod in pods for port in pod.ports.values()]
    ports = dict(zip(documented, free_ports(len(documented)), strict=True))
    servers = {
        pod.name: Server(pod.name, _command(pod, ports, folder), folder / f"{pod.name}.log")
        for pod in pods
    }
    try:
        await _delete_deployments(cluster)
        for server in servers.values():
            await server.start()
        for pod in pods:

            async def ready(pod: StaticPod = pod) -> bool:
                servers[pod.name].check()
                return await _is_ready(pod, ports)

            await cluster.wait_for(ready, f"{pod.name} is ready")
        yield ports[static_pod(ADMISSION).ports["webhook"]]
    except BaseException:
        print(await _shell(f"tail --lines=60 {folder}/*.log || true"))  # noqa: T201 - shown when a test fails
        raise
    finally:
        for server in servers.values():
            await server.kill()
        await cluster.installation.install()


async def _client_config(cluster: Cluster) -> Object:
    """Return the target of the registered webhook."""
    found = await cluster.client.get(MUTATING_WEBHOOKS, "vpa-webhook-config")
    config: Object = found["webhooks"][0]["clientConfig"] if found.get("webhooks") else {}
    return config


async def _holder(cluster: Cluster, lease: str) -> str:
    return str((await cluster.lease_spec(lease)).get("holderIdentity") or "")


async def test_the_api_server_accepts_the_static_pods(cluster: Cluster) -> None:
    """The kubelet creates an object for each, so that they are visible."""
    printed = await cluster.kubectl("create", "-f", str(STATIC_PODS), "--dry-run=server")
    assert printed.splitlines() == [
        f"pod/{name} created (server dry run)" for name in sorted(COMPONENTS)
    ]


async def test_the_components_work_beside_the_api_server(case: Case, tmp_path: Path) -> None:
    cluster = case.cluster
    await case.deploy("web", requests=LARGE)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
    holders = {lease: await _holder(cluster, lease) for lease in _ELECTIONS}
    async with _beside_the_api_server(cluster, tmp_path) as port:
        await case.create_vpa("advice", "Off", targetRef=_TARGET)

        async def registered() -> bool:
            return (await _client_config(cluster)).get("url") == f"https://127.0.0.1:{port}"

        await cluster.wait_for(registered, "the webhook is registered by URL")
        assert "service" not in await _client_config(cluster)
        await case.set_recommendation("web", app=_SMALL)
        pod = await case.gated_pod("web")

        async def patched() -> bool:
            return requests(await case.create(PODS, pod)) == _SMALL

        await cluster.wait_for(patched, "new pods are patched")
        gated = "--field-selector=spec.nodeName="
        await cluster.kubectl("delete", "pod", gated, namespace=case.namespace)

        async def replaced() -> bool:
            running = [requests(one) for one in await case.pods("web") if "nodeName" in one["spec"]]
            return bool(case.evictions()) and _SMALL in running

        await cluster.wait_for(replaced, "an evicted pod is replaced", seconds=130)
        await cluster.wait_for(lambda: case.target("advice"), "a recommendation", seconds=130)
        for lease, before in holders.items():
            assert await _holder(cluster, lease) not in ("", before), lease

    assert (await _client_config(cluster))["service"]["name"] == "vpa-webhook"
    await case.wait_until_applied("web", seconds=120)
