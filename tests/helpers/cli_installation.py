"""A whole installation in a sandbox, for the checks of ``kubectl vpa doctor``.

The Deployments of the components, their Leases and a webhook that patches pods with the product's
code; the programs of recommender and updater don't run. Statuses are written as they write them.
"""

import asyncio
import contextlib
import enum
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from admission_hook import AdmissionHook
from cli_cluster import SCENARIO, SMALL, CliCluster, cli_cluster, recommended
from common.api.core import Pod
from common.kube.client import PatchType
from common.kube.endpoints import (
    CHECKPOINTS,
    DEPLOYMENTS,
    HPAS,
    LEASES,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    PODS,
    RESOURCE_QUOTAS,
    VPAS,
    Endpoint,
)
from common.runtime.clock import SystemClock
from fake_api import TIMEOUT
from kubectl_vpa.judge.findings import ADMISSION, COMPONENTS, RECOMMENDER, UPDATER
from sandbox.clocks import ShiftedClock
from sandbox.scenario import parse_scenario
from workloads import DEFINITIONS, NAMESPACE

SYSTEM = "kube-system"
CONFIGURATION = "vpa-webhook-config"
LEASE_NAMES = {
    RECOMMENDER: "vpa-recommender-lease",
    UPDATER: "vpa-updater",
    ADMISSION: "vpa-admission-controller",
}
_HPAS = {  # the sandbox doesn't serve them by itself
    "metadata": {"name": "horizontalpodautoscalers.autoscaling"},
    "spec": {
        "group": "autoscaling",
        "scope": "Namespaced",
        "names": {
            "plural": "horizontalpodautoscalers",
            "singular": "horizontalpodautoscaler",
            "kind": "HorizontalPodAutoscaler",
        },
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
_RESTORED = tuple(
    each.as_dicts()
    for each in (
        *(DEPLOYMENTS, PODS, MUTATING_WEBHOOKS, VPAS, HPAS),
        *(LIMIT_RANGES, RESOURCE_QUOTAS, CHECKPOINTS),
    )
)

_LATE_USAGE = parse_scenario("""
nodes: [{cpu: 32, memory: 64Gi}]
timing: {start-delay: 50ms, stop-delay: 50ms}
metrics: {window: 3600s}
""")

_Key = tuple[Endpoint[dict[str, Any]], str, str]
"""Endpoint, namespace and name of an object."""


class Metrics(enum.StrEnum):
    """The state of the metrics API."""

    FRESH = "fresh"
    STALE = "stale"  # an hour old, because the clock of the whole cluster is late
    EMPTY = "empty"  # it has no usage yet
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class CliInstallation:
    """A cluster with the objects of the components."""

    cluster: CliCluster

    async def deploy(
        self,
        component: str,
        *,
        namespace: str = SYSTEM,
        tag: str = "1.8.0",
        arguments: tuple[str, ...] = ("--leader-elect=true",),
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Create the Deployment of a component with one replica."""
        labels = {"app": component}
        container = {"name": "main", "image": f"registry.example/{component}:{tag}"}
        template = {
            "metadata": {"labels": labels, "annotations": annotations or {}},
            "spec": {
                "serviceAccountName": component,
                "containers": [{**container, "args": list(arguments)}],
            },
        }
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        deployment = {"metadata": {"name": component}, "spec": spec}
        await self.cluster.client.create(DEPLOYMENTS.as_dicts(), deployment, namespace=namespace)

    async def renew_lease(
        self, component: str, *, namespace: str = SYSTEM, ago: timedelta = timedelta()
    ) -> None:
        """Create the Lease of a component, as renewed some time ago."""
        renewed = datetime.now(UTC) - ago  # noqa: TID251 - Leases have the real time
        name = LEASE_NAMES[component]
        lease = {
            "metadata": {"name": name},
            "spec": {
                "holderIdentity": f"{name}-holder",
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "leaseDurationSeconds": 60,
            },
        }
        await self.cluster.client.create(LEASES.as_dicts(), lease, namespace=namespace)

    async def install(self) -> None:
        """Create the Deployments and Leases of all components."""
        for name in COMPONENTS:
            await self.deploy(name)
            await self.renew_lease(name)

    @contextlib.asynccontextmanager
    async def restored(self) -> AsyncIterator[None]:
        """Restore objects on exit: those that a test created, changed or deleted.

        Not definitions, and not the status of a VPA that a test deleted. Leases are renewed.
        """
        before, pods = await self._objects(), await self._pods()
        try:
            yield
        finally:
            await self._restore(before)
            async with asyncio.timeout(TIMEOUT):
                while await self._pods() != pods:  # noqa: ASYNC110 - controllers set no event here
                    await asyncio.sleep(0.02)

    async def _objects(self) -> dict[_Key, dict[str, Any]]:
        """Return what a test may change, without what the API server sets."""
        found: dict[_Key, dict[str, Any]] = {}
        for endpoint in _RESTORED:
            for each in (await self.cluster.client.list(endpoint)).items:
                meta = each["metadata"]
                if "ownerReferences" in meta:
                    continue  # restored by its controller
                kept = {name: meta[name] for name in ("name", "labels") if name in meta}
                content = {name: each[name] for name in each.keys() & {"spec", "webhooks"}}
                key = (endpoint, meta.get("namespace", ""), meta["name"])
                found[key] = {"metadata": kept, **content}
        return found

    async def _restore(self, before: dict[_Key, dict[str, Any]]) -> None:
        client, now = self.cluster.client, await self._objects()
        for endpoint, namespace, name in now.keys() - before.keys():
            await client.delete(endpoint, name, namespace=namespace)
        for key, made in before.items():
            endpoint, namespace, name = key
            if key not in now:
                await client.create(endpoint, made, namespace=namespace)
            elif now[key] != made:
                await client.replace(endpoint, name, made, namespace=namespace)
        for each in (await client.list(LEASES)).items:
            if each.metadata.namespace != "kube-node-lease":
                await self.delete(LEASES, each.metadata.name, each.metadata.namespace)
        for component in COMPONENTS:
            await self.renew_lease(component)

    async def _pods(self) -> Counter[tuple[str, bool]]:
        """Return the number of pods by their label and whether they are ready."""
        pods = (await self.cluster.client.list(PODS)).items
        return Counter(((pod.metadata.labels or {}).get("app", ""), _is_ready(pod)) for pod in pods)

    async def delete(self, endpoint: Endpoint[Any], name: str, namespace: str = SYSTEM) -> None:
        """Delete an object."""
        await self.cluster.client.delete(endpoint, name, namespace=namespace)

    async def remove(self, component: str) -> None:
        """Delete the Deployment of a component, and wait until its pods are gone."""
        await self.delete(DEPLOYMENTS, component)
        await self.until_pods(component, count=0)

    async def until_pods(self, component: str, *, count: int, ready: int = 0) -> None:
        """Wait until a component has so many pods that run, of which so many are ready."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                found = await self.cluster.client.list(PODS, label_selector=f"app={component}")
                pods = found.items
                good = sum(map(_is_ready, pods))
                running = sum(pod.status.phase == "Running" for pod in pods)
                if (len(pods), running, good) == (count, count, ready):
                    return
                await asyncio.sleep(0.02)  # other processes set no event here

    async def until_quota(self, name: str) -> None:
        """Wait until a quota has counted what is used."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                found = await self.cluster.client.get(RESOURCE_QUOTAS, name, namespace=NAMESPACE)
                if found.status.used:
                    return
                await asyncio.sleep(0.02)  # other processes set no event here

    async def patch_webhook(self, **client_config: str) -> None:
        """Change how the API server calls the webhook."""
        path = "/webhooks/0/clientConfig/"
        operations = [
            {"op": "replace", "path": f"{path}{name}", "value": value}
            for name, value in client_config.items()
        ]
        await self.cluster.client.patch(
            MUTATING_WEBHOOKS, CONFIGURATION, operations, patch_type=PatchType.JSON
        )


def _is_ready(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


@contextlib.asynccontextmanager
async def cli_installation(
    folder: Path,
    *,
    metrics: Metrics = Metrics.FRESH,
    certificates: timedelta = timedelta(days=100),
) -> AsyncIterator[CliInstallation]:
    """Run a cluster with a healthy installation, and a workload whose VPA changes its pods.

    ``certificates`` is how long those of the webhook are valid.
    """
    clock = ShiftedClock(SystemClock())
    if metrics is Metrics.STALE:
        clock.jump(-timedelta(hours=1))
    async with cli_cluster(
        folder,
        scenario=_LATE_USAGE if metrics is Metrics.EMPTY else SCENARIO,
        clock=clock,
        metrics=metrics is not Metrics.ABSENT,
    ) as cluster:
        client = cluster.client
        await client.create(DEFINITIONS, _HPAS)
        made = CliInstallation(cluster)
        await made.install()
        await cluster.deploy("web", 2, SMALL)
        await cluster.autoscale("web", status=recommended(SMALL))
        hook = AdmissionHook.of(client)
        async with hook.serving(folder, lifetime=certificates) as configuration:
            await client.create(MUTATING_WEBHOOKS, configuration)
            for name in COMPONENTS:
                await made.until_pods(name, count=1, ready=1)
            await made.until_pods("web", count=2, ready=2)
            if metrics in (Metrics.FRESH, Metrics.STALE):
                await cluster.until_measured()
            yield made
