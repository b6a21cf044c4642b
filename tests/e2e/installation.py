"""Our manifests in a cluster: installed with kubectl, changed for a case, and put back."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from e2e.kubectl import Kubectl, KubectlError, run

OVERLAY = Path(__file__).parent / "overlay"
DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEM = "kube-system"

RECOMMENDER = "vpa-recommender"
UPDATER = "vpa-updater"
ADMISSION = "vpa-admission-controller"
CERTIFICATES = "vpa-certs"  # a CronJob: no process to wait for, but an account of ours
COMPONENTS = (RECOMMENDER, UPDATER, ADMISSION)
ACCOUNTS = (*COMPONENTS, CERTIFICATES)
OPS_PORTS = {RECOMMENDER: 8942, UPDATER: 8943, ADMISSION: 8944}


class Installation:
    """The three components, as Deployments."""

    def __init__(self, kubectl: Kubectl, overlay: Path = OVERLAY) -> None:
        self._kubectl = kubectl
        self._overlay = overlay

    async def install(self) -> None:
        """Do what docs/operations.md says, and wait until everything is ready."""
        certs = ("certs", f"--kubeconfig={self._kubectl.kubeconfig}")
        code, printed = await run(sys.executable, "-P", "-m", *certs)
        if code:
            raise KubectlError(f"{' '.join(certs)} ended with {code}:\n{printed}")
        await self.apply()
        await self.ready()

    async def apply(self) -> list[str]:
        """Apply the overlay; kubectl's line for each object."""
        return (await self._kubectl("apply", "-k", str(self._overlay))).splitlines()

    async def ready(self, *names: str) -> None:
        """Wait until the Deployments, all of ours unless some are named, are rolled out."""
        for name in names or COMPONENTS:
            await self._kubectl(
                "rollout", "status", f"deployment/{name}", "--timeout=60s", namespace=SYSTEM
            )

    async def restore(self) -> None:
        """Undo whatever was scaled, and other changes of what the manifests say."""
        await self.apply()
        await self.ready()

    @asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        """No pod of this component."""
        await self.scale(name, 0)
        try:
            yield
        finally:
            await self.restore()

    @asynccontextmanager
    async def changed(self, name: str, *arguments: str, replicas: int = 1) -> AsyncIterator[None]:
        """A component with more arguments, and with so many replicas."""
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
        """A component whose Deployment is patched."""
        target = f"deployment/{name}"
        before = json.loads(await self._kubectl("get", target, "-o", "json", namespace=SYSTEM))
        back = json.dumps([{"op": "replace", "path": "/spec", "value": before["spec"]}])
        try:
            await self._patch(target, patch, kind)
            await self.ready(name)
            yield
        finally:
            # Applying the manifests would keep what they say nothing about.
            await self._patch(target, back, "json")
            await self.ready(name)

    async def _patch(self, target: str, patch: str, kind: str) -> None:
        words = ("patch", target, f"--type={kind}", f"--patch={patch}")
        await self._kubectl(*words, namespace=SYSTEM)

    async def scale(self, name: str, replicas: int) -> None:
        """Scale, and wait until so many pods are ready, or all are gone."""
        await self._kubectl(
            "scale", f"deployment/{name}", f"--replicas={replicas}", namespace=SYSTEM
        )
        await self.ready(name)
        if not replicas:
            await self._kubectl(
                "wait", "pod", f"--selector=app={name}", "--for=delete", "--timeout=60s",
                namespace=SYSTEM,
            )  # fmt: skip
