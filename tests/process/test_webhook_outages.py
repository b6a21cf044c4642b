"""Outages of the API server and of webhook replicas: pods are created all the same."""

import asyncio
import contextlib
import itertools
import re
from pathlib import Path
from typing import Any

from certificates import new_bundle
from common.api.core import Pod
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.client import PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS, REPLICA_SETS, VPAS
from component import LOOPBACK, Process
from custom_kind import ROBOTS, define_robots, robot
from demo.processes import free_port
from fake_api import TIMEOUT
from process_harness import World, world
from relay import Relay, Streams
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from workloads import NAMESPACE, autoscaler, deploy

REQUESTS = {"cpu": "800m", "memory": "1Gi"}  # requests of a new pod
TARGET = {"cpu": "150m", "memory": "300Mi"}  # of its VPA
WORKERS = 8


def pod(name: str, owner: dict[str, Any], app: str) -> dict[str, Any]:
    """Return a pod as a controller creates it."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    labels = dict((owner["spec"].get("selector") or {}).get("matchLabels") or {"app": app})
    container = {
        "name": "app",
        "image": "registry.example/app",
        "resources": {"requests": REQUESTS},
    }
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [reference]},
        "spec": {"containers": [container]},
    }


async def recommend(it: World, name: str) -> None:
    """Write a recommendation."""
    found = {"containerRecommendations": [{"containerName": "app", "target": TARGET}]}
    await it.client.patch(
        VPAS,
        name,
        {"status": {"recommendation": found}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


async def create_pod(it: World, name: str, owner: dict[str, Any], app: str) -> dict[str, Any]:
    """Create a pod, and return its requests."""
    answer = await it.client.create(PODS.as_dicts(), pod(name, owner, app), namespace=NAMESPACE)
    found: dict[str, Any] = answer["spec"]["containers"][0]["resources"]["requests"]
    return found


async def replace_pods(it: World, app: str) -> None:
    """Delete the pods of a Deployment, and wait for their replacements."""
    before = {each.metadata.name for each in it.pods_of(app)}
    for name in before:
        await it.client.delete(PODS, name, namespace=NAMESPACE)
    await it.until(
        lambda: len({each.metadata.name for each in it.pods_of(app)} - before) == len(before)
    )


def requested(found: Pod) -> object:
    """Return the requests of a pod's only container."""
    resources = found.spec.containers[0].resources
    return resources and resources.requests


async def review_count(process: Process, outcome: str) -> float:
    """Return the number of pod reviews with an outcome."""
    _, metrics = await process.get("/metrics")
    sample = rf'reviews_total{{outcome="{outcome}",resource="Pod"}} (\S+)'
    found = re.search(sample, metrics)
    return float(found[1]) if found else 0.0


async def test_a_slow_api_server_does_not_delay_pods(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        await define_robots(it.client)
        marvin = await it.client.create(ROBOTS, robot("marvin"), namespace=NAMESPACE)
        target = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "marvin"}
        manifest = autoscaler("marvin", targetRef=target)
        await it.client.create(VPAS.as_dicts(), manifest, namespace=NAMESPACE)
        await recommend(it, "marvin")
        slow = ApiFault(calls=Calls(resource="robots/scale"), effect=Effect(delay=30.0))
        undo = it.cluster.api.faults.add(slow)
        admission = await it.start("admission")
        await it.ready(admission)
        await admission.logged("webhook registered")
        names = [f"marvin-{number}" for number in range(5)]
        async with asyncio.timeout(5.0):  # the webhook's timeout is two seconds, the delay thirty
            pods = await asyncio.gather(*(create_pod(it, name, marvin, "marvin") for name in names))
        assert pods == [REQUESTS] * len(names)
        assert await review_count(admission, "timed_out") == len(names)
        assert admission.said("no VPA found in time")
        assert await admission.get("/readyz") == (200, "OK")
        undo()
        assert admission.said("Traceback") == []


async def test_a_deleted_or_changed_registration_is_restored(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await deploy(it.client, "web", replicas=1, mode="Initial", requests=REQUESTS)
        await recommend(it, "web")
        admission = await it.start("admission")
        await it.ready(admission)
        await admission.logged("webhook registered")
        before = await it.client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)

        await it.client.delete(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
        await admission.logged("webhook configuration was missing, created it again")
        await replace_pods(it, "web")
        assert [requested(each) for each in it.pods_of("web")] == [TARGET]

        hooks = [{"name": "vpa.k8s.io", "rules": [], "timeoutSeconds": 1}]
        await it.client.patch(
            MUTATING_WEBHOOKS,
            CONFIGURATION_NAME,
            {"webhooks": hooks},
            patch_type=PatchType.STRATEGIC,
        )
        await admission.logged("webhook configuration was changed, restored it")
        after = await it.client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
        assert after["webhooks"] == before["webhooks"]
        (line,) = admission.said("webhook configuration was changed, restored it")
        assert 'fields="timeoutSeconds, rules"' in line
        assert it.undeclared("admission") == set()
        assert it.calls(MUTATING_WEBHOOKS.resource, "delete") == []


class Balancer(Relay):
    """A load balancer: each connection goes to the next replica that accepts it."""

    def __init__(self, *ports: int) -> None:
        super().__init__(self._connect_to_next)
        self._ports = itertools.cycle(ports)
        self._replicas = len(ports)

    async def _connect_to_next(self, _address: str) -> Streams:
        for _ in range(self._replicas):
            with contextlib.suppress(ConnectionRefusedError):
                return await asyncio.open_connection(LOOPBACK, next(self._ports))
        raise ConnectionRefusedError


class Load:
    """Continuous creation of pods by concurrent workers."""

    def __init__(self, it: World, owner: dict[str, Any]) -> None:
        self._it = it
        self._owner = owner
        self._numbers = itertools.count()
        self.requests: list[dict[str, Any]] = []  # of the pods, in the order of their creation

    async def create(self) -> None:
        """Create pods until cancelled; a failure ends the test."""
        while True:
            name = f"web-{next(self._numbers)}"
            self.requests.append(await create_pod(self._it, name, self._owner, "web"))

    async def wait_for_more(self, count: int) -> list[dict[str, Any]]:
        """Wait for ``count`` more pods, and return their requests."""
        begin = len(self.requests)
        await self._it.until(lambda: len(self.requests) >= begin + count)
        return self.requests[begin:]


async def owner_of(it: World, name: str) -> dict[str, Any]:
    """Return the ReplicaSet of a Deployment."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            found = await it.client.list(REPLICA_SETS.as_dicts(), namespace=NAMESPACE)
            for one in found.items:
                if one["metadata"]["name"].startswith(name):
                    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", **one}
            await asyncio.sleep(0.05)


async def test_killed_replicas_prevent_no_pod_creation(tmp_path: Path) -> None:
    ports = (free_port(), free_port())
    balancer = Balancer(*ports)
    async with world(tmp_path) as it, balancer:
        await deploy(it.client, "web", replicas=0, mode="Initial")
        await recommend(it, "web")
        load = Load(it, await owner_of(it, "web"))

        async def start(port: int) -> Process:
            flags = (f"--port={port}", f"--webhook-port={balancer.port}")
            process = await it.start("admission", *flags)
            await it.ready(process)
            await process.logged("webhook registered")
            return process

        replicas = [await start(port) for port in ports]
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(load.create()) for _ in range(WORKERS)]
            await load.wait_for_more(50)
            for number, port in enumerate(ports):
                await replicas[number].kill()
                await load.wait_for_more(50)
                replicas[number] = await start(port)
                await load.wait_for_more(50)
            for worker in workers:
                worker.cancel()
        assert await asyncio.gather(*(review_count(one, "patched") for one in replicas)) > [
            0.0,
            0.0,
        ]
        # Each of two kills may lose the patches of the reviews in progress.
        unpatched = [found for found in load.requests if found != TARGET]
        assert all(found == REQUESTS for found in unpatched)
        assert len(unpatched) <= 2 * 2 * WORKERS, len(load.requests)
        assert it.calls("mutatingwebhookconfigurations", "delete") == []


async def test_no_pod_is_evicted_while_api_servers_do_not_trust_the_webhook(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        admission = await it.start("admission", "--reload-cert")
        await admission.logged("webhook registered")
        recommender, updater = await it.start("recommender"), await it.start("updater")
        authority = tmp_path / "caCert.pem"
        authority.write_bytes(new_bundle().authority.certificate)
        await admission.logged("self-check failed")
        await updater.logged("no evictions, a replacement might not be patched")
        await deploy(it.client, "web", replicas=2)
        await it.until(lambda: bool(it.target("web")))
        await it.passes(recommender, updater, times=5)
        assert it.evicted() == []
        assert admission.process.returncode is None

        authority.write_bytes(it.authority)
        await admission.logged("self-check passes again")
        await it.until(lambda: it.fits("web", 2))
        assert len(it.evicted("web")) == 2
