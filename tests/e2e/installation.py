"""Our manifests in a cluster: install them with kubectl, change them for a case, restore them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from e2e.kubectl import Kubectl

OVERLAY = Path(__file__).parent / "overlay"
DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEM = "kube-system"

RECOMMENDER = "vpa-recommender"
UPDATER = "vpa-updater"
ADMISSION = "vpa-admission-controller"
COMPONENTS = (RECOMMENDER, UPDATER, ADMISSION)
OPS_PORTS = {RECOMMENDER: 8942, UPDATER: 8943, ADMISSION: 8944}


class Installation:
    """The three components, as Deployments."""

    def __init__(self, kubectl: Kubectl, overlay: Path = OVERLAY) -> None:
        self._kubectl = kubectl
        self._overlay = overlay

    async def install(self) -> None:
        """Follow docs/install.md, and wait until everything is ready."""
        await self.apply()
        await self.wait_until_ready()

    async def apply(self) -> list[str]:
        """Apply the overlay, and return kubectl's line for each object."""
        return (await self._kubectl("apply", "-k", str(self._overlay))).splitlines()

    async def apply_again(self) -> list[str]:
        """Apply the overlay, and return kubectl's lines about changes.

        Disruption budgets are left out: kubectl replaces their selectors each time.
        """
        lines = await self.apply()
        return [
            line
            for line in lines
            if not line.endswith(" unchanged") and not line.startswith("poddisruptionbudget")
        ]

    async def wait_until_ready(self, *names: str) -> None:
        """Wait until the named Deployments, by default all of ours, are rolled out."""
        for name in names or COMPONENTS:
            await self._kubectl(
                *("rollout", "status", f"deployment/{name}", "--timeout=120s"),
                namespace=SYSTEM,
                seconds=130,
            )

    async def restore(self) -> None:
        """Reset the replicas, and all other fields that are in the manifests."""
        await self.apply()
        await self.wait_until_ready()

    @asynccontextmanager
    async def scaled_to_zero(self, name: str) -> AsyncIterator[None]:
        """Run a block without pods of a component."""
        await self.scale(name, 0)
        try:
            yield
        finally:
            await self.restore()

    @asynccontextmanager
    async def with_arguments(
        self, name: str, *arguments: str, replicas: int = 1
    ) -> AsyncIterator[None]:
        """Run a block with additional arguments of a component."""
        path = "/spec/template/spec/containers/0/args/-"
        operations: list[dict[str, str | int]] = [
            {"op": "add", "path": path, "value": argument} for argument in arguments
        ]
        operations.append({"op": "replace", "path": "/spec/replicas", "value": replicas})
        async with self.patched(name, json.dumps(operations), kind="json"):
            yield

    @asynccontextmanager
    async def patched(
        self, name: str, patch: str, *, kind: str = "strategic"
    ) -> AsyncIterator[None]:
        """Run a block with a patched Deployment of a component."""
        target = f"deployment/{name}"
        before = json.loads(await self._kubectl("get", target, "-o", "json", namespace=SYSTEM))
        back = json.dumps([{"op": "replace", "path": "/spec", "value": before["spec"]}])
        try:
            await self._patch(target, patch, kind)
            await self.wait_until_ready(name)
            yield
        finally:
            # Applying the manifests would keep fields that aren't in them.
            await self._patch(target, back, "json")
            await self.wait_until_ready(name)

    async def _patch(self, target: str, patch: str, kind: str) -> None:
        words = ("patch", target, f"--type={kind}", f"--patch={patch}")
        await self._kubectl(*words, namespace=SYSTEM)

    async def scale(self, name: str, replicas: int) -> None:
        """Scale a component, and wait until its pods are ready or, for 0, deleted."""
        await self._kubectl(
            "scale", f"deployment/{name}", f"--replicas={replicas}", namespace=SYSTEM
        )
        await self.wait_until_ready(name)
        if not replicas:
            await self._kubectl(
                "wait",
                "pod",
                f"--selector=app={name}",
                "--for=delete",
                "--timeout=60s",
                namespace=SYSTEM,
            )
