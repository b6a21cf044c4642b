"""What a pass remembers of the last picture: it sees what somebody sees who looks afresh."""

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


class Looker:
    """Takes pictures of a shop's caches as a pass does."""

    def __init__(self, shop: UpdaterSandbox) -> None:
        self.caches = shop.caches
        self.targets = Targets(shop.client, shop.caches.controllers)
        self.errors = ObjectErrors("updater", CollectorRegistry())
        self.matcher = Matcher(shop.caches.controllers, self.targets, self.errors)
        self.builder = SnapshotBuilder(shop.caches.controllers, self.errors)

    async def look(self) -> ClusterSnapshot:
        self.targets.begin_cycle(60.0)
        vpas = list(self.caches.vpas.snapshot.items())
        selected, _ = await select_vpas(vpas, self.targets, self.errors)
        pods = await divide_pods(self.caches.pods.snapshot)
        matched = await self.matcher.match(pods.live, selected)
        return await self.builder.build(selected, matched, pods, self.caches.limit_ranges.snapshot)


class Meddler:
    """Changes something about a shop, whatever that is."""

    def __init__(self, shop: UpdaterSandbox, seed: int) -> None:
        self.shop = shop
        self.random = Random(seed)
        self.made = 0

    async def meddle(self) -> None:
        changes: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self.scale, self.roll, self.orphan, self.delete_pod, self.relabel),
            *(self.recommend, self.rival, self.retire, self.retarget, self.limit, self.nothing),
        )
        with contextlib.suppress(KubeError):  # what it was about may be gone
            await self.random.choice(changes)()

    async def patch(self, endpoint: Any, name: str, body: Any, **more: Any) -> None:
        await self.shop.admin.patch(
            endpoint.as_dicts(), name, body, patch_type=PatchType.MERGE, namespace="shop", **more
        )

    async def pod(self) -> str:
        listing = await self.shop.admin.list(PODS, namespace="shop")
        return self.random.choice(sorted(pod.metadata.name for pod in listing.items))

    async def vpa(self) -> str:
        listing = await self.shop.admin.list(VPAS, namespace="shop")
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
        await self.shop.admin.delete(PODS, await self.pod(), namespace="shop")

    async def relabel(self) -> None:
        label = self.random.choice(("web", "other", None))
        await self.patch(PODS, await self.pod(), {"metadata": {"labels": {"app": label}}})

    async def recommend(self) -> None:
        target = {"containerName": "app", "target": {"cpu": f"{self.random.randint(1, 9)}00m"}}
        status = {"recommendation": {"containerRecommendations": [target]}}
        await self.patch(VPAS, await self.vpa(), {"status": status}, subresource="status")

    async def rival(self) -> None:
        self.made += 1
        mode = self.random.choice(("Recreate", "Recreate", "InPlaceOrRecreate", "Initial", "Off"))
        await self.shop.autoscale(mode, name=f"{self.random.choice('az')}-{self.made}")

    async def retire(self) -> None:
        await self.shop.admin.delete(VPAS, await self.vpa(), namespace="shop")
        await self.rival()

    async def retarget(self) -> None:
        name = self.random.choice(("web", "web", "web", "nobody"))
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        await self.patch(VPAS, await self.vpa(), {"spec": {"targetRef": target}})

    async def limit(self) -> None:
        cpu = f"{self.random.randint(2, 9)}"
        body = {
            "metadata": {"name": "limits"},
            "spec": {"limits": [{"type": "Container", "max": {"cpu": cpu}}]},
        }
        with contextlib.suppress(KubeError):
            await self.shop.admin.delete(LIMIT_RANGES, "limits", namespace="shop")
        await self.shop.admin.create(LIMIT_RANGES.as_dicts(), body, namespace="shop")

    async def nothing(self) -> None:
        """Nothing happens."""


@pytest.mark.parametrize("seed", range(8))
def test_who_remembers_sees_what_is_there(seed: int) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        remembering, meddler = Looker(shop), Meddler(shop, seed)
        seen = 0
        for _ in range(STEPS):
            await meddler.meddle()
            await shop.settle()
            found = await remembering.look()
            assert found == await Looker(shop).look()
            seen += sum(len(each.pods) for each in found.autoscaled)
        assert seen

    in_updater_sandbox(test)


def test_who_looks_again_gets_the_same_objects() -> None:
    """So it is seen at a glance that nothing has changed; a change makes one VPA another one."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.settle()
        looker, meddler = Looker(shop), Meddler(shop, 0)
        first, second = await looker.look(), await looker.look()
        assert [each.vpa.metadata.name for each in first.autoscaled] == ["web"]
        assert second.autoscaled[0] is first.autoscaled[0]
        for change in (meddler.recommend, meddler.delete_pod, meddler.limit, meddler.scale):
            before = await looker.look()
            await change()
            await shop.settle()
            after = await looker.look()
            assert after.autoscaled[0] is not before.autoscaled[0], change
        assert await looker.look() == await Looker(shop).look()

    in_updater_sandbox(test)


def test_a_deployment_that_says_the_same_is_no_change_and_a_rollout_is_one() -> None:
    """The status of Deployments is written all the time; VPAs rest as long as it says the same."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.settle()
        looker, meddler = Looker(shop), Meddler(shop, 0)
        before = (await looker.look()).autoscaled[0]
        assert not before.rollouts
        await meddler.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"team": "shop"}}})
        status = {"conditions": [{**PROGRESSING, "lastUpdateTime": "2026-01-02T00:00:00Z"}]}
        await meddler.patch(DEPLOYMENTS, "web", {"status": status}, subresource="status")
        await shop.settle()
        assert (await looker.look()).autoscaled[0] is before

        never = {"annotations": {"kubelet.sandbox/ready-delay": "never"}}
        await meddler.patch(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": never}}})
        await shop.settle()
        after = (await looker.look()).autoscaled[0]
        web = Controller("shop", "Deployment", "web", "apps/v1")
        assert after.rollouts == {web: Rollout(replicas=3, max_unavailable=0)}
        assert set(after.deployments.values()) == {web}
        assert after.sizes[web].wanted == 4, "with the surge"

    in_updater_sandbox(test)
