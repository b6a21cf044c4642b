"""``python -P -m admission`` as its own process, against an API server that keeps still."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from certs import authority
from certs.store import Directory
from common.kube import endpoints
from common.runtime.clock import SystemClock
from common.runtime.web import listen
from fake_api import FakeApi, Reply, listing, named, status
from webhook_client import Connection
from webhook_harness import pod_request, vpa_request

LISTED = (
    *(endpoints.DEPLOYMENTS, endpoints.REPLICA_SETS, endpoints.STATEFUL_SETS),
    *(endpoints.DAEMON_SETS, endpoints.JOBS, endpoints.CRON_JOBS),
    *(endpoints.REPLICATION_CONTROLLERS, endpoints.LIMIT_RANGES, endpoints.VPAS),
)
WEBHOOKS = endpoints.MUTATING_WEBHOOKS.collection()
WEBHOOK = endpoints.MUTATING_WEBHOOKS.object("vpa-webhook-config")
LEASES = endpoints.LEASES.collection("kube-system")
LEASE = endpoints.LEASES.object("vpa-admission-controller", "kube-system")


def owned_by(kind: str, name: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def objects() -> dict[str, list[Any]]:
    """A Deployment with its ReplicaSet, and a VPA on it."""
    replica_set = named("web-1")
    replica_set["metadata"] |= owned_by("Deployment", "web")
    target = {"cpu": "250m"}
    return {
        endpoints.DEPLOYMENTS.resource: [
            named("web", spec={"selector": {"matchLabels": {"app": "web"}}})
        ],
        endpoints.REPLICA_SETS.resource: [replica_set],
        endpoints.VPAS.resource: [
            named(
                "web",
                spec={"targetRef": {"kind": "Deployment", "name": "web"}},
                status={
                    "recommendation": {
                        "containerRecommendations": [{"containerName": "app", "target": target}]
                    }
                },
            )
        ],
    }


def prepare(api: FakeApi) -> None:
    for endpoint in LISTED:
        items = objects().get(endpoint.resource, [])
        api.on(f"GET {endpoint.collection()}", listing(*items))
        api.on(f"WATCH {endpoint.collection()}", Reply(chunks=[], hold=True))
    api.on(f"GET {WEBHOOK}", status(404, "NotFound"))
    api.on(f"POST {WEBHOOKS}", Reply(status=201, body=named("vpa-webhook-config")))
    api.on(f"GET {LEASE}", status(404, "NotFound"))
    api.on(f"POST {LEASES}", Reply(status=201, body=named("vpa-admission-controller")))


POD = {
    "metadata": {"generateName": "web-1-", "labels": {"app": "web"}}
    | owned_by("ReplicaSet", "web-1"),
    "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
}


def new_bundle() -> authority.Bundle:
    return authority.create(
        ["127.0.0.1"],
        make_key=authority.rsa_key,
        now=SystemClock().now(),
        lifetime=timedelta(hours=1),
    )


def free_port() -> int:
    with listen("127.0.0.1:0") as found:
        return int(found.getsockname()[1])


class Admission:
    """The running process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, ops: int) -> None:
        self.process = process
        self.port = port
        self.ops = ops
        self.log: list[str] = []
        self._told = asyncio.Condition()

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._told:
                self.log.append(line.decode())
                self._told.notify_all()

    async def logged(self, sentence: str) -> None:
        async with asyncio.timeout(15), self._told:
            await self._told.wait_for(lambda: any(sentence in line for line in self.log))

    async def get(self, path: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ops)
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body.decode()


@asynccontextmanager
async def running(api: FakeApi, folder: Path, *arguments: str) -> AsyncIterator[Admission]:
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "fake", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}
    context = {"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "fake",
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "nobody", "user": {}}],
            }
        )
    )
    port, ops = free_port(), free_port()
    environ = {key: value for key, value in os.environ.items() if key != "NAMESPACE"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "admission", f"--kubeconfig={kubeconfig}"),
        *(f"--port={port}", f"--address=127.0.0.1:{ops}"),
        f"--tls-cert-file={folder / 'serverCert.pem'}",
        f"--tls-private-key={folder / 'serverKey.pem'}",
        f"--client-ca-file={folder / 'caCert.pem'}",
        *("--register-by-url", "--webhook-address=https://127.0.0.1", f"--webhook-port={port}"),
        "--status-lease-update-interval=100ms",
        *arguments,
        cwd=folder,
        env=environ,
        stderr=asyncio.subprocess.PIPE,
    )
    admission = Admission(process, port, ops)
    async with asyncio.TaskGroup() as group:
        group.create_task(admission.read_log())
        try:
            yield admission
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_a_life_from_the_first_list_to_sigterm(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    trusted = bundle.authority.certificate
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as admission:
            registered = (await api.asked(f"POST {WEBHOOKS}")).json()
            await api.asked(f"POST {LEASES}")
            assert await admission.get("/readyz") == (200, "OK")
            assert await admission.get("/health-check") == (200, "OK")
            (hook,) = registered["webhooks"]
            assert hook["clientConfig"] == {
                "url": f"https://127.0.0.1:{admission.port}",
                "caBundle": base64.b64encode(trusted).decode(),
            }
            async with Connection.to(admission.port, trusted) as connection:
                response = await connection.review(pod_request(POD, namespace="shop"))
                patch = json.loads(base64.b64decode(response["patch"]))
                assert {
                    "op": "add",
                    "path": "/spec/containers/0/resources/requests/cpu",
                    "value": "250m",
                } in patch
                assert not (await connection.review(vpa_request({"spec": {}})))["allowed"]
            _, metrics = await admission.get("/metrics")
            assert 'vpa_admission_controller_admission_pods_total{applied="true"} 1.0' in metrics
            admission.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(5):
                assert await admission.process.wait() == 0


async def test_before_the_first_list_pods_pass_unchanged(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    # This server knows nothing: every list is a 404.
    async with FakeApi() as api, running(api, tmp_path) as admission:
        await admission.logged("listening")
        async with Connection.to(admission.port, bundle.authority.certificate) as connection:
            response = await connection.review(pod_request(POD))
        assert response == {"uid": "u-1", "allowed": True}
        code, told = await admission.get("/readyz")
        assert (code, "caches" in told) == (503, True)
        assert await admission.get("/health-check") == (200, "OK")
        assert f"GET {WEBHOOK}" not in api.routes


async def test_new_certificates_are_taken_over_and_the_webhook_learns_the_authority(
    tmp_path: Path,
) -> None:
    old, new = new_bundle(), new_bundle()
    folder = Directory(tmp_path)
    await folder.save(old)
    async with FakeApi() as api:
        prepare(api)
        hooks = [{"name": "vpa.k8s.io", "clientConfig": {"caBundle": "b2xk"}}]
        api.on(
            f"GET {WEBHOOK}",
            status(404, "NotFound"),
            Reply(body=named("vpa-webhook-config", webhooks=hooks)),
        )
        api.on(f"PATCH {WEBHOOK}", Reply(body=named("vpa-webhook-config")))
        async with running(api, tmp_path, "--reload-cert") as admission:
            await admission.logged("webhook registered")
            await folder.save(new)
            patch = (await api.asked(f"PATCH {WEBHOOK}")).json()
            sent = base64.b64encode(new.authority.certificate).decode()
            assert patch["webhooks"][0]["clientConfig"] == {"caBundle": sent}
            await admission.logged("New certificate found, reloading")
            await admission.logged("New client CA found, reloading and patching webhook")
            await admission.logged("Successfully patched webhook with new client CA")
            async with Connection.to(admission.port, new.authority.certificate) as connection:
                assert (await connection.review(pod_request(POD)))["allowed"]


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("--tls-cert-file=/nowhere", "can't read /nowhere"),
        ("--min-tls-version=tls1_1", "is not tls1_2 or tls1_3"),
        ("--address=nonsense", "not an address of the form host:port"),
        ("--kubeconfig=/nowhere", "kubeconfig /nowhere: no such file"),
        ("--wrong", "unrecognized arguments: --wrong"),
    ],
)
async def test_a_mistake_is_one_clear_line(argument: str, told: str, tmp_path: Path) -> None:
    await Directory(tmp_path).save(new_bundle())
    async with FakeApi() as api, running(api, tmp_path, argument) as admission:
        assert await admission.process.wait() == 2
    (line,) = admission.log
    assert line.startswith("vpa-admission-controller: ")
    assert told in line
