"""Incremental snapshots of passes: they equal snapshots that are built from scratch."""

import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from common.errors import KubeError
from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, LIMIT_RANGES, PODS, VPAS
from common.kube.targets import Targets
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.pod_matching import Matcher
from updater.snapshot.rollout import Rollout
from updater.snapshot.selection import divide_pods, select_vpas
from updater.snapshot.snapshot_builder import SnapshotBuilder
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

STEPS = 25
PROGRESSING = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}


class SnapshotTaker:
    """Takes snapshots of the caches as a pass does."""

    def __init__(self, sandbox: UpdaterSandbox) -> None:
        self.caches = sandbox.caches
        self.targets = Targets(sandbox.client, sandbox.caches.controllers)
        self.errors = ObjectErrors("updater", CollectorRegistry())
        self.matcher = Matcher(sandbox.caches.controllers, self.targets, self.errors)
        self.builder = SnapshotBuilder(sandbox.caches.controllers, self.errors)

    async def take(self) -> ClusterSnapshot:
        self.targets.begin_cycle(60.0)
        vpas = list(self.caches.vpas.snapshot.items())
        selected, _ = await select_vpas(vpas, self.targets, self.errors)
        pods, _ = await divide_pods(self.caches.pods.snapshot)
        matched = await self.matcher.match(pods, selected)
        limit_ranges = self.caches.limit_ranges.snapshot
        autoscaled = await self.builder.build(selected, matched, limit_ranges)
        living = frozenset(pod.metadata.uid for pod in pods)
        return ClusterSnapshot(autoscaled=autoscaled, living=living)


class RandomChanges:
    """Random changes of the cluster's objects."""

    def __init__(self, sandbox: UpdaterSandbox, seed: int) -> None:
        self.sandbox = sandbox
        self.random = Random(seed)
        self.counter = 0

    async def change(self) -> None:
        changes: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self.scale, self.roll, self.orphan, self.delete_pod, self.relabel),
            *(
                self.recommend,
                self.add_conflicting_vpa,
                self.delete_vpa,
                self.retarget,
                self.limit,
                self.change_nothing,
            ),
        )
        with contextlib.suppress(KubeError):  # the object may be deleted
            await self.random.choice(changes)()

    async def patch(self, endpoint: Any, name: str, body: Any, **more: Any) -> None:
        await self.sandbox.admin.patch(
            endpoint.as_dicts(), name, body, patch_type=PatchType.MERGE, namespace="shop", **more
        )

    async def pod(self) -> str:
        listing = await self.sandbox.admin.list(PODS, namespace="shop")
        return self.random.choice(sorted(pod.metadata.name for pod in listing.items))

    async def vpa(self) -> str:
        listing = await self.sandbox.admin.list(VPAS, namespace="shop")
        return self.random.choice(sorted(vpa.metadata.name for vpa in listing.items))

    async def scale(self) -> None:
        await self.patch(DEPLOYMENTS, "web", {"spec": {"replicas": self.random.randint(1, 5)}})

    async def roll(self) -> None:
        image = f"shop:{self.random.randint(1, 3)}"
        containers = [{"name": "app", "image": image}]
        await self.patch(
            DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": containers}}}}
        )

    async def orphan(self) -> None:
        await self.patch(PODS, await self.pod(), {"metadata": {"ownerReferences": None}})

    async def delete_pod(self) -> None:
        await self.sandbox.admin.delete(PODS, await self.pod(), namespace="shop")

    async def relabel(self) -> None:
        label = self.random.choice(("web", "other", None))
        await self.patch(PODS, await self.pod(), {"metadata": {"labels": {"app": label}}})

    async def recommend(self) -> None:
        target = {"containerName": "app", "target": {"cpu": f"{self.random.randint(1, 9)}00m"}}
        status = {"recommendation": {"containerRecommendations": [target]}}
        await self.patch(VPAS, await self.vpa(), {"status": status}, subresource="status")

    async def add_conflicting_vpa(self) -> None:
        self.counter += 1
        mode = self.random.choice(("Recreate", "Recreate", "InPlaceOrRecreate", "Initial", "Off"))
        await self.sandbox.autoscale(mode, name=f"{self.random.choice('az')}-{self.counter}")

    async def delete_vpa(self) -> None:
        await self.sandbox.admin.delete(VPAS, await self.vpa(), namespace="shop")
        await self.add_conflicting_vpa()

    async def retarget(self) -> None:
        name = self.random.choice(("web", "web", "web", "missing"))
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        await self.patch(VPAS, await self.vpa(), {"spec": {"targetRef": target}})

    async def limit(self) -> None:
        cpu = f"{self.random.randint(2, 9)}"
        body = {
            "metadata": {"name": "limits"},
            "spec": {"limits": [{"type": "Container", "max": {"cpu": cpu}}]},
        }
        with contextlib.suppress(KubeError):
            await self.sandbox.admin.delete(LIMIT_RANGES, "limits", namespace="shop")
        await self.sandbox.admin.create(LIMIT_RANGES.as_dicts(), body, namespace="shop")

    async def change_nothing(self) -> None:
        """Leave all objects unchanged."""


@pytest.mark.parametrize("seed", range(8))
def test_an_incremental_snapshot_equals_a_new_one(seed: int) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        remembering, meddler = SnapshotTaker(sandbox), RandomChanges(sandbox, seed)
        seen = 0
        for _ in range(STEPS):
            await meddler.change()
            await sandbox.settle()
            found = await remembering.take()
            assert found == await SnapshotTaker(sandbox).take()
            seen += sum(len(each.pods) for each in found.autoscaled)
        assert seen

    in_updater_sandbox(test)


def test_an_unchanged_snapshot_has_the_same_objects() -> None:
    """So an unchanged VPA is detected by identity; a change replaces one VPA."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.settle()
        looker, meddler = SnapshotTaker(sandbox), RandomChanges(sandbox, 0)
        first, second = await looker.take(), await looker.take()
        assert [each.vpa.metadata.name for each in first.autoscaled] == ["web"]
        assert second.autoscaled[0] is first.autoscaled[0]
        for change in (meddler.recommend, meddler.delete_pod, meddler.limit, meddler.scale):
            before = await looker.take()
            await change()
            await sandbox.settle()
            after = await looker.take()
            assert after.autoscaled[0] is not before.autoscaled[0], change
        assert await looker.take() == await SnapshotTaker(sandbox).take()

    in_updater_sandbox(test)


def test_an_unchanged_deployment_keeps_the_snapshot_and_a_rollout_changes_it() -> None:
    """The status of Deployments is written often; VPAs are skipped while it is equal."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.settle()
        looker, meddler = SnapshotTaker(sandbox), RandomChanges(sandbox, 0)
        before = (await looker.take()).autoscaled[0]
        assert not before.rollouts
        await meddler.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"team": "shop"}}})
        status = {"conditions": [{**PROGRESSING, "lastUpdateTime": "2026-01-02T00:00:00Z"}]}
        await meddler.patch(DEPLOYMENTS, "web", {"status": status}, subresource="status")
        await sandbox.settle()
        assert (await looker.take()).autoscaled[0] is before

        never = {"annotations": {"kubelet.sandbox/ready-delay": "never"}}
        await meddler.patch(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": never}}})
        await sandbox.settle()
        after = (await looker.take()).autoscaled[0]
        web = Controller("shop", "Deployment", "web", "apps/v1")
        assert after.rollouts == {web: Rollout(replicas=3, max_unavailable=0)}
        assert set(after.deployments.values()) == {web}
        assert after.sizes[web].wanted == 4, "with the surge"

    in_updater_sandbox(test)
