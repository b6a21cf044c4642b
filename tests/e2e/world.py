"""What a case works with: the installed cluster, and a namespace of its own in it."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from common.errors import KubeError, NotFoundError
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
from e2e.clusters import running
from e2e.installation import (
    ACCOUNTS,
    COMPONENTS,
    OPS_PORTS,
    SYSTEM,
    Installation,
)
from e2e.kubectl import Kubectl
from e2e.pods import Object, is_ready, runs_with, template, within
from sandbox.apiserver.audit import Entry
from workloads import autoscaler

T = TypeVar("T")

BUDGETS: Endpoint[Object] = Endpoint(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any]
)
QUOTAS: Endpoint[Object] = Endpoint("", "v1", "resourcequotas", "ResourceQuota", dict[str, Any])
LIMIT_RANGES: Endpoint[Object] = Endpoint("", "v1", "limitranges", "LimitRange", dict[str, Any])
_ACCOUNTS: Endpoint[Object] = Endpoint(
    "", "v1", "serviceaccounts", "ServiceAccount", dict[str, Any]
)
_EVENTS: Endpoint[Object] = Endpoint("", "v1", "events", "Event", dict[str, Any])
BY_HAND = [{"name": "by-hand"}]  # as a VPA's recommenders: ours leaves it alone
_ACCOUNT = f"system:serviceaccount:{SYSTEM}:"
_LOOK_EVERY = 0.2  # seconds


@dataclass(frozen=True)
class World:
    """The cluster with our components in it."""

    cluster: ControlPlane
    client: KubeClient
    kubectl: Kubectl
    installation: Installation
    calls: set[Entry] = field(default_factory=set)  # one of each sort that our accounts made

    async def until(
        self, condition: Callable[[], Awaitable[T]], promise: str, *, seconds: float = 60
    ) -> T:
        """Wait until something is true, and return it. An API server that is away isn't.

        Raises:
            AssertionError: it has not become true in time; the message has the promise.
        """
        found: object = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        if answer := await condition():
                            return answer
                        found = answer
                    except (KubeError, ConnectionError) as error:
                        found = error
                    await asyncio.sleep(_LOOK_EVERY)  # what is waited for sets no event here
        raise AssertionError(f"after {seconds:.0f} s not yet: {promise}; last seen: {found!r}")

    # The components

    async def component_pods(self, name: str) -> list[Object]:
        """Pods of a component that are there to stay."""
        return await self.pods(SYSTEM, name)

    async def pods(self, namespace: str, app: str) -> list[Object]:
        """Pods with a label ``app`` that are there to stay."""
        found = await self.client.list(
            PODS.as_dicts(), namespace=namespace, label_selector=f"app={app}"
        )
        return [pod for pod in found.items if "deletionTimestamp" not in pod["metadata"]]

    async def runs(self) -> dict[str, int]:
        """How often each container of ours was restarted, by the uid of its pod."""
        return {
            pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"]
            for name in COMPONENTS
            for pod in await self.component_pods(name)
        }

    async def ops(self, name: str, path: str = "/metrics") -> str:
        """The body of an answer of a component's ops address; its first pod is asked."""
        (pod, *_) = await self.component_pods(name)
        reader, writer = await asyncio.open_connection(pod["status"]["podIP"], OPS_PORTS[name])
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        return body.decode()

    async def cycles(self, name: str) -> int:
        """How many cycles have ended, successful or not."""
        for line in (await self.ops(name)).splitlines():
            if "execution_latency_seconds_count" in line and 'step="total"' in line:
                return int(float(line.rpartition(" ")[2]))
        return 0

    async def total(self, name: str, metric: str, **labels: str) -> float:
        """What a component counted, over all series with these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in (await self.ops(name)).splitlines()
            if line.startswith((f"{metric}{{", f"{metric} ")) and all(one in line for one in wanted)
        )

    async def passes(self, name: str, times: int = 3) -> None:
        """Wait until a component has ended so many more cycles."""
        wanted = await self.cycles(name) + times

        async def ended() -> bool:
            return await self.cycles(name) >= wanted

        await self.until(ended, f"{times} more cycles of {name}")

    async def lease(self, name: str) -> Object:
        """The spec of a Lease in kube-system."""
        found = await self.client.get(LEASES.as_dicts(), name, namespace=SYSTEM)
        spec: Object = found["spec"]
        return spec

    # What they did

    def done(self, component: str, **wanted: str) -> list[Entry]:
        """The calls of a component's account, oldest first; keys as in the audit log."""
        return list(self.cluster.audit(user=f"{_ACCOUNT}{component}", **wanted))

    def note_calls(self) -> None:
        """Remember what our accounts called, because the audit log doesn't keep everything."""
        start = datetime.min.replace(tzinfo=UTC)
        for name in ACCOUNTS:
            self.calls.update(replace(entry, time=start) for entry in self.done(name))

    async def describe(self, namespace: str) -> str:
        """What one wants to see when a case has failed."""
        asked = [
            (namespace, ["get", "verticalpodautoscalers,pods", "-o", "yaml"]),
            (namespace, ["get", "events"]),
            (SYSTEM, ["get", "pods", "-o", "wide"]),
            (SYSTEM, ["get", "events"]),
            *(
                (SYSTEM, ["logs", f"--selector=app={name}", "--tail=60", "--prefix"])
                for name in ACCOUNTS
            ),
        ]
        told = []
        for where, words in asked:
            _, printed = await self.kubectl.try_(*words, namespace=where, within=20)
            told.append(f"--- kubectl -n {where} {' '.join(words)}\n{printed}")
        return "\n".join(told)


@dataclass(frozen=True)
class Case:
    """A namespace that one case has for itself."""

    world: World
    namespace: str

    # What an operator does

    async def deploy(
        self,
        name: str,
        *,
        replicas: int = 2,
        controller: Endpoint[Any] = DEPLOYMENTS,
        **pods: Any,
    ) -> None:
        """A Deployment of pods as :func:`template` makes them.

        Another ``controller`` is one with the same fields.
        """
        made = template(name, **pods)
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": made["metadata"]["labels"]},
            "template": made,
        }
        await self.create(controller, {"metadata": {"name": name}, "spec": spec})

    async def autoscale(self, name: str, mode: str = "Recreate", **spec: Any) -> None:
        """A VPA on the Deployment of the same name."""
        await self.create(VPAS, autoscaler(name, mode, **spec))

    async def advise(self, name: str, **containers: Object) -> None:
        """Write a VPA's recommendation by hand; of one that :data:`BY_HAND` keeps from ours.

        For each container its target, with everything else outside its range, or a whole
        recommendation as :func:`within` makes it.
        """
        told = [
            {"containerName": container} | (one if "target" in one else within(one, one, one))
            for container, one in containers.items()
        ]
        await self.world.client.patch(
            VPAS.as_dicts(),
            name,
            {"status": {"recommendation": {"containerRecommendations": told}}},
            patch_type=PatchType.MERGE,
            namespace=self.namespace,
            subresource="status",
        )

    async def limit(self, *, scopes: Sequence[str] = (), **hard: str) -> None:
        """A ResourceQuota ``quota`` for the namespace, e.g. ``requests.cpu``, which is in force."""
        spec = {"hard": hard, "scopes": list(scopes)}
        await self.create(QUOTAS, {"metadata": {"name": "quota"}, "spec": spec})

        async def counted() -> Object:
            found = await self.world.client.get(QUOTAS, "quota", namespace=self.namespace)
            status: Object = found.get("status") or {}
            return status.get("hard") or {}

        await self.world.until(counted, "the quota is in force")

    async def create(self, endpoint: Endpoint[Any], manifest: Object) -> Object:
        """Create any object; the API server's answer."""
        return await self.world.client.create(
            endpoint.as_dicts(), manifest, namespace=self.namespace
        )

    async def edit(self, endpoint: Endpoint[Any], name: str, **spec: Any) -> None:
        """Change fields of an object's spec."""
        await self.world.client.patch(
            endpoint.as_dicts(),
            name,
            {"spec": spec},
            patch_type=PatchType.MERGE,
            namespace=self.namespace,
        )

    # What the cluster shows

    async def pods(self, app: str) -> list[Object]:
        """Pods of a Deployment that are there to stay."""
        return await self.world.pods(self.namespace, app)

    async def uids(self, app: str) -> set[str]:
        """Which pods there are."""
        return {pod["metadata"]["uid"] for pod in await self.pods(app)}

    async def ready(self, app: str, replicas: int = 2) -> set[str]:
        """Wait until so many pods, and no others, are ready; their uids."""

        async def complete() -> set[str]:
            found = await self.pods(app)
            good = len(found) == replicas and all(map(is_ready, found))
            return {pod["metadata"]["uid"] for pod in found} if good else set()

        return await self.world.until(complete, f"{replicas} ready pods of {app}")

    async def running(self, app: str, replicas: int = 2) -> list[Object]:
        """Wait until so many pods, and no others, are ready, and their usage is known."""

        found: list[Object] = []

        async def complete() -> bool:
            found[:] = await self.pods(app)
            names = {pod["metadata"]["name"] for pod in found}
            ready = len(found) == replicas and all(map(is_ready, found))
            return ready and names <= await self._measured(app)

        await self.world.until(complete, f"{replicas} ready and measured pods of {app}")
        return found

    async def _measured(self, app: str) -> set[str]:
        """Names of the pods whose usage the metrics API knows."""
        found = await self.world.client.list(
            POD_METRICS, namespace=self.namespace, label_selector=f"app={app}"
        )
        return {pod.metadata.name for pod in found.items}

    async def target(self, name: str) -> dict[str, str]:
        """What a VPA recommends for its first container; empty if nothing."""
        vpa = await self.world.client.get(VPAS.as_dicts(), name, namespace=self.namespace)
        status = vpa.get("status") or {}
        for one in (status.get("recommendation") or {}).get("containerRecommendations") or ():
            target: dict[str, str] = one["target"]
            return target
        return {}

    async def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Status and message of each condition of a VPA."""
        vpa = await self.world.client.get(VPAS.as_dicts(), name, namespace=self.namespace)
        return {
            one["type"]: (one["status"], one.get("message", ""))
            for one in (vpa.get("status") or {}).get("conditions") or ()
        }

    async def tells(self, name: str, **wanted: str | None) -> dict[str, tuple[str, str]]:
        """Wait until conditions of a VPA have a status, or are not there at all; all of them."""
        found: dict[str, tuple[str, str]] = {}

        async def told() -> bool:
            found.clear()
            found.update(await self.conditions(name))
            return all(found.get(kind, (None, ""))[0] == want for kind, want in wanted.items())

        promise = ", ".join(f"{kind} {want or 'away'}" for kind, want in wanted.items())
        try:
            await self.world.until(told, f"{promise} on {name}", seconds=100)
        except AssertionError as error:
            error.add_note(f"its conditions: {found}")
            raise
        return found

    async def recommended(self, name: str) -> dict[str, str]:
        """Wait for a recommendation."""
        return await self.world.until(lambda: self.target(name), f"a recommendation for {name}")

    async def fits(self, app: str, replicas: int = 2, *, seconds: float = 60) -> list[Object]:
        """Wait until every pod requests, and has, what is recommended."""

        async def fitting() -> list[Object]:
            target, pods = await self.target(app), await self.pods(app)
            good = len(pods) == replicas and all(runs_with(pod, target) for pod in pods)
            return pods if target and good else []

        promise = f"{replicas} pods of {app} with their target"
        return await self.world.until(fitting, promise, seconds=seconds)

    async def checkpoint(self, vpa: str, container: str = "app") -> Object:
        """The status of a checkpoint; empty if there is none."""
        return (await self._checkpoint(vpa, container)).get("status") or {}

    async def checkpoint_annotations(self, vpa: str, container: str = "app") -> Object:
        """Its annotations; empty if there is none."""
        found = await self._checkpoint(vpa, container)
        return found.get("metadata", {}).get("annotations") or {}

    async def _checkpoint(self, vpa: str, container: str) -> Object:
        try:
            return await self.world.client.get(
                CHECKPOINTS.as_dicts(), f"{vpa}-{container}", namespace=self.namespace
            )
        except NotFoundError:
            return {}

    async def events(self, reason: str) -> list[Object]:
        """Events of one reason."""
        found = await self.world.client.list(_EVENTS, namespace=self.namespace)
        return [event for event in found.items if event["reason"] == reason]

    def evictions(self, *, code: int = 201) -> list[str]:
        """Names of the pods whose eviction by the updater was answered so."""
        return self._answered("create", "eviction", code)

    def resizes(self, *, code: int = 200) -> list[str]:
        """Names of the pods whose resize by the updater was answered so."""
        return self._answered("patch", "resize", code)

    def _answered(self, verb: str, subresource: str, code: int) -> list[str]:
        wanted = {"verb": verb, "subresource": subresource, "code": str(code)}
        found = self.world.done("vpa-updater", resource="pods", namespace=self.namespace, **wanted)
        return [entry.name for entry in found]


@contextlib.asynccontextmanager
async def own_namespace(world: World, name: str) -> AsyncIterator[Case]:
    """A namespace that is there for one case, and goes with it."""
    await world.client.create(NAMESPACES.as_dicts(), {"metadata": {"name": name}})
    try:
        # Before it has its account, a pod that is created by hand is refused.
        await world.until(
            lambda: world.client.get(_ACCOUNTS, "default", namespace=name), "a default account"
        )
        yield Case(world, name)
    finally:
        world.note_calls()
        # It takes a real cluster ten seconds, and nobody else knows the name: no need to wait.
        await world.client.delete(NAMESPACES, name)


@contextlib.asynccontextmanager
async def case_of(world: World, item: pytest.Item) -> AsyncIterator[Case]:
    """A namespace for an item."""
    name = re.sub("[^a-z0-9]+", "-", item.name.removeprefix("test_").lower())
    async with own_namespace(world, f"{name[:50].strip('-')}-{os.urandom(3).hex()}") as made:
        yield made


@contextlib.asynccontextmanager
async def installed(folder: Path) -> AsyncIterator[World]:
    """A cluster with our components in it, which are ready."""
    async with running(folder / "cluster") as cluster:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(cluster.kubeconfig)
        kubectl = Kubectl(kubeconfig)
        async with cluster.client("e2e") as client:
            made = World(cluster, client, kubectl, Installation(kubectl))
            try:
                await made.installation.install()
            except BaseException:
                print(await made.describe("default"))  # noqa: T201 - shown when a test fails
                raise
            yield made
