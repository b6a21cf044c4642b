"""The cluster with the installed components, and the namespace of a case in it."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import (
    CHECKPOINTS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_METRICS,
    PODS,
    VPAS,
    Endpoint,
)
from controlplane.cluster import ControlPlane
from e2e.control_plane import run_control_plane
from e2e.installation import COMPONENTS, OPS_PORTS, SYSTEM, Installation
from e2e.kubectl import Kubectl
from e2e.pods import (
    Object,
    deployment,
    has_requests,
    is_ready,
    new_pod,
    recommendation,
    template,
)
from e2e.waiting import wait_for
from sandbox.apiserver.audit import Entry
from workloads import autoscaler

BUDGETS: Endpoint[Object] = Endpoint(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any]
)
QUOTAS: Endpoint[Object] = Endpoint("", "v1", "resourcequotas", "ResourceQuota", dict[str, Any])
LIMIT_RANGES: Endpoint[Object] = Endpoint("", "v1", "limitranges", "LimitRange", dict[str, Any])
_ACCOUNTS: Endpoint[Object] = Endpoint(
    "", "v1", "serviceaccounts", "ServiceAccount", dict[str, Any]
)
_EVENTS: Endpoint[Object] = Endpoint("", "v1", "events", "Event", dict[str, Any])
OTHER_RECOMMENDER = [{"name": "by-hand"}]  # ``recommenders`` of a VPA that ours ignores
_ACCOUNT = f"system:serviceaccount:{SYSTEM}:"


@dataclass(frozen=True)
class Cluster:
    """A control plane with the installed components."""

    control_plane: ControlPlane
    client: KubeClient
    kubectl: Kubectl
    installation: Installation
    calls: set[Entry] = field(default_factory=set)  # of our accounts, without their times

    wait_for = staticmethod(wait_for)

    # The components

    async def component_pods(self, name: str) -> list[Object]:
        """Return the pods of a component that aren't being deleted."""
        return await self.pods(SYSTEM, name)

    async def pods(self, namespace: str, app: str) -> list[Object]:
        """Return the pods with a label ``app`` that aren't being deleted."""
        found = await self.client.list(
            PODS.as_dicts(), namespace=namespace, label_selector=f"app={app}"
        )
        return [pod for pod in found.items if "deletionTimestamp" not in pod["metadata"]]

    async def restart_counts(self) -> dict[str, int]:
        """Return the restart count of each component's container, by the uid of its pod."""
        return {
            pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"]
            for name in COMPONENTS
            for pod in await self.component_pods(name)
        }

    async def ops_response(self, name: str, path: str = "/metrics") -> str:
        """Return the body of a response of a component's ops address, from its first pod."""
        (pod, *_) = await self.component_pods(name)
        reader, writer = await asyncio.open_connection(pod["status"]["podIP"], OPS_PORTS[name])
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        return body.decode()

    async def finished_cycles(self, name: str) -> int:
        """Return the number of a component's finished cycles, successful or not."""
        for line in (await self.ops_response(name)).splitlines():
            if "execution_latency_seconds_count" in line and 'step="total"' in line:
                return int(float(line.rpartition(" ")[2]))
        return 0

    async def metric_total(self, name: str, metric: str, **labels: str) -> float:
        """Return the sum of a component's metric over all series with these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in (await self.ops_response(name)).splitlines()
            if line.startswith((f"{metric}{{", f"{metric} ")) and all(one in line for one in wanted)
        )

    async def wait_for_cycles(self, name: str, count: int = 3) -> None:
        """Wait until a component has finished ``count`` more cycles."""
        wanted = await self.finished_cycles(name) + count

        async def ended() -> bool:
            return await self.finished_cycles(name) >= wanted

        await self.wait_for(ended, f"{count} more cycles of {name}")

    async def lease_spec(self, name: str) -> Object:
        """Return the spec of a Lease in kube-system."""
        found = await self.client.get(LEASES.as_dicts(), name, namespace=SYSTEM)
        spec: Object = found["spec"]
        return spec

    # Their calls

    def audited_calls(self, component: str, **wanted: str) -> list[Entry]:
        """Return the calls of a component's account, oldest first; keys as in the audit log."""
        return list(self.control_plane.audit(user=f"{_ACCOUNT}{component}", **wanted))

    def record_calls(self) -> None:
        """Add the calls of our accounts to ``calls``; the audit log drops old entries."""
        start = datetime.min.replace(tzinfo=UTC)
        for name in COMPONENTS:
            self.calls.update(replace(entry, time=start) for entry in self.audited_calls(name))

    async def describe(self, namespace: str) -> str:
        """Return objects, Events and logs, to be printed for a failed case."""
        commands = [
            (namespace, ["get", "verticalpodautoscalers,pods", "-o", "yaml"]),
            (namespace, ["get", "events"]),
            (SYSTEM, ["get", "pods", "-o", "wide"]),
            (SYSTEM, ["get", "events"]),
            *(
                (SYSTEM, ["logs", f"--selector=app={name}", "--tail=60", "--prefix"])
                for name in COMPONENTS
            ),
        ]
        sections = []
        for where, words in commands:
            _, printed = await self.kubectl.run(*words, namespace=where, seconds=20)
            sections.append(f"--- kubectl -n {where} {' '.join(words)}\n{printed}")
        return "\n".join(sections)


@dataclass(frozen=True)
class Case:
    """A test case with its own namespace."""

    cluster: Cluster
    namespace: str

    # Actions of an operator

    async def deploy(
        self,
        name: str,
        *,
        replicas: int = 2,
        controller: Endpoint[Any] = DEPLOYMENTS,
        **pods: Any,
    ) -> None:
        """Create a Deployment whose pods have the fields ``pods`` of :func:`template`.

        ``controller`` may be another kind with the same fields.
        """
        made = deployment(name, template(name, **pods), replicas=replicas)
        await self.create(controller, made)

    async def create_vpa(self, name: str, mode: str = "Recreate", **spec: Any) -> None:
        """Create a VPA for the Deployment of the same name."""
        await self.create(VPAS, autoscaler(name, mode, **spec))

    def write_vpa(self, vpa: Object) -> str:
        """Write the manifest of a VPA, and return its path, for kubectl."""
        path = self.cluster.kubectl.kubeconfig.with_name(f"{self.namespace}.json")
        kind = {"apiVersion": VPAS.api_version, "kind": VPAS.kind}
        path.write_bytes(msgspec.json.encode(kind | vpa))
        return str(path)

    async def set_recommendation(self, name: str, **containers: Object) -> None:
        """Write the recommendation of a VPA with :data:`OTHER_RECOMMENDER`.

        A container has its target, which is then also both bounds, or a recommendation from
        :func:`recommendation`.
        """
        recommendations = [
            {"containerName": container}
            | (one if "target" in one else recommendation(one, one, one))
            for container, one in containers.items()
        ]
        await self.cluster.client.patch(
            VPAS.as_dicts(),
            name,
            {"status": {"recommendation": {"containerRecommendations": recommendations}}},
            patch_type=PatchType.MERGE,
            namespace=self.namespace,
            subresource="status",
        )

    async def gated_pod(self, app: str) -> Object:
        """Return a new pod of a Deployment; a scheduling gate keeps it from being started."""
        owner = await self.cluster.client.get(DEPLOYMENTS.as_dicts(), app, namespace=self.namespace)
        made = new_pod(owner)
        made["spec"]["schedulingGates"] = [{"name": "example.com/held"}]
        return made

    async def create_quota(self, *, scopes: Sequence[str] = (), **hard: str) -> None:
        """Create the ResourceQuota ``quota``, and wait until it is in force."""
        spec = {"hard": hard, "scopes": list(scopes)}
        await self.create(QUOTAS, {"metadata": {"name": "quota"}, "spec": spec})

        async def counted() -> Object:
            found = await self.cluster.client.get(QUOTAS, "quota", namespace=self.namespace)
            status: Object = found.get("status") or {}
            return status.get("hard") or {}

        await self.cluster.wait_for(counted, "the quota is in force")

    async def create(self, endpoint: Endpoint[Any], manifest: Object) -> Object:
        """Create an object, and return it as the API server stored it."""
        return await self.cluster.client.create(
            endpoint.as_dicts(), manifest, namespace=self.namespace
        )

    async def edit(self, endpoint: Endpoint[Any], name: str, **spec: Any) -> None:
        """Change fields of an object's spec."""
        await self.cluster.client.patch(
            endpoint.as_dicts(),
            name,
            {"spec": spec},
            patch_type=PatchType.MERGE,
            namespace=self.namespace,
        )

    # The state of the namespace

    async def pods(self, app: str) -> list[Object]:
        """Return the pods of a Deployment that aren't being deleted."""
        return await self.cluster.pods(self.namespace, app)

    async def uids(self, app: str) -> set[str]:
        """Return the uids of these pods."""
        return {pod["metadata"]["uid"] for pod in await self.pods(app)}

    async def wait_until_ready(self, app: str, replicas: int = 2) -> set[str]:
        """Wait until there are ``replicas`` pods and all are ready; return their uids."""

        async def complete() -> set[str]:
            found = await self.pods(app)
            good = len(found) == replicas and all(map(is_ready, found))
            return {pod["metadata"]["uid"] for pod in found} if good else set()

        return await self.cluster.wait_for(complete, f"{replicas} ready pods of {app}")

    async def wait_until_measured(self, app: str, replicas: int = 2) -> list[Object]:
        """Wait until there are ``replicas`` pods and all are ready and have metrics."""
        found: list[Object] = []

        async def complete() -> bool:
            found[:] = await self.pods(app)
            names = {pod["metadata"]["name"] for pod in found}
            ready = len(found) == replicas and all(map(is_ready, found))
            return ready and names <= await self._measured(app)

        await self.cluster.wait_for(complete, f"{replicas} ready and measured pods of {app}")
        return found

    async def _measured(self, app: str) -> set[str]:
        """Return the names of the pods with metrics."""
        found = await self.cluster.client.list(
            POD_METRICS, namespace=self.namespace, label_selector=f"app={app}"
        )
        return {pod.metadata.name for pod in found.items}

    async def target(self, name: str) -> dict[str, str]:
        """Return the target of a VPA's first container; empty without a recommendation."""
        vpa = await self.cluster.client.get(VPAS.as_dicts(), name, namespace=self.namespace)
        status = vpa.get("status") or {}
        for one in (status.get("recommendation") or {}).get("containerRecommendations") or ():
            target: dict[str, str] = one["target"]
            return target
        return {}

    async def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Return status and message of each condition of a VPA."""
        vpa = await self.cluster.client.get(VPAS.as_dicts(), name, namespace=self.namespace)
        return {
            one["type"]: (one["status"], one.get("message", ""))
            for one in (vpa.get("status") or {}).get("conditions") or ()
        }

    async def wait_for_conditions(
        self, name: str, **wanted: str | None
    ) -> dict[str, tuple[str, str]]:
        """Wait until conditions of a VPA have a status, None for absent; return all conditions."""
        found: dict[str, tuple[str, str]] = {}

        async def matching() -> bool:
            found.clear()
            found.update(await self.conditions(name))
            return all(found.get(kind, (None, ""))[0] == want for kind, want in wanted.items())

        description = ", ".join(f"{kind} {want or 'absent'}" for kind, want in wanted.items())
        try:
            await self.cluster.wait_for(matching, f"{description} on {name}", seconds=100)
        except AssertionError as error:
            error.add_note(f"its conditions: {found}")
            raise
        return found

    async def wait_for_recommendation(self, name: str) -> dict[str, str]:
        """Wait for a recommendation; return its target."""
        return await self.cluster.wait_for(
            lambda: self.target(name), f"a recommendation for {name}"
        )

    async def wait_until_applied(
        self, app: str, replicas: int = 2, *, seconds: float = 60
    ) -> list[Object]:
        """Wait until every pod's requests, in its spec and from its kubelet, are the target."""

        async def applied() -> list[Object]:
            target, pods = await self.target(app), await self.pods(app)
            good = len(pods) == replicas and all(has_requests(pod, target) for pod in pods)
            return pods if target and good else []

        description = f"{replicas} pods of {app} with their target"
        return await self.cluster.wait_for(applied, description, seconds=seconds)

    async def checkpoint(self, vpa: str, container: str = "app") -> Object:
        """Return the status of a checkpoint; empty if there is none."""
        return (await self._checkpoint(vpa, container)).get("status") or {}

    async def checkpoint_annotations(self, vpa: str, container: str = "app") -> Object:
        """Return the annotations of a checkpoint; empty if there is none."""
        found = await self._checkpoint(vpa, container)
        return found.get("metadata", {}).get("annotations") or {}

    async def _checkpoint(self, vpa: str, container: str) -> Object:
        try:
            return await self.cluster.client.get(
                CHECKPOINTS.as_dicts(), f"{vpa}-{container}", namespace=self.namespace
            )
        except NotFoundError:
            return {}

    async def events(self, reason: str) -> list[Object]:
        """Return the Events with a reason."""
        found = await self.cluster.client.list(_EVENTS, namespace=self.namespace)
        return [event for event in found.items if event["reason"] == reason]

    def evictions(self, *, code: int = 201) -> list[str]:
        """Return the names of the pods for which an eviction by the updater got this code."""
        return self._pods_called("create", "eviction", code)

    def resizes(self, *, code: int = 200) -> list[str]:
        """Return the names of the pods for which a resize by the updater got this code."""
        return self._pods_called("patch", "resize", code)

    def _pods_called(self, verb: str, subresource: str, code: int) -> list[str]:
        wanted = {"verb": verb, "subresource": subresource, "code": str(code)}
        found = self.cluster.audited_calls(
            "vpa-updater", resource="pods", namespace=self.namespace, **wanted
        )
        return [entry.name for entry in found]


@contextlib.asynccontextmanager
async def case_in_namespace(cluster: Cluster, name: str) -> AsyncIterator[Case]:
    """Create a namespace for a case, and delete it afterwards."""
    await cluster.client.create(NAMESPACES.as_dicts(), {"metadata": {"name": name}})
    try:
        # The API server refuses pods in a namespace without this account.
        await cluster.wait_for(
            lambda: cluster.client.get(_ACCOUNTS, "default", namespace=name), "a default account"
        )
        yield Case(cluster, name)
    finally:
        cluster.record_calls()
        # The deletion takes ten seconds. No other case uses the name, so don't wait.
        await cluster.client.delete(NAMESPACES, name)


@contextlib.asynccontextmanager
async def new_case(cluster: Cluster, item: pytest.Item) -> AsyncIterator[Case]:
    """Create a namespace for a pytest item, named after it."""
    name = re.sub("[^a-z0-9]+", "-", item.name.removeprefix("test_").lower())
    async with case_in_namespace(cluster, f"{name[:50].strip('-')}-{os.urandom(3).hex()}") as case:
        yield case


@contextlib.asynccontextmanager
async def installed_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster, and install our components in it."""
    async with run_control_plane(folder / "cluster") as control_plane:
        kubectl = Kubectl(control_plane.files.kubeconfig("admin"))
        async with control_plane.client("e2e") as client:
            cluster = Cluster(control_plane, client, kubectl, Installation(kubectl))
            try:
                await cluster.installation.install()
            except BaseException:
                print(await cluster.describe("default"))  # noqa: T201 - shown when a test fails
                raise
            yield cluster
