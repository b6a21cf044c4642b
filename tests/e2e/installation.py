"""Our manifests in a cluster: installed with kubectl, changed for a case, and put back."""

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
METRICS_SERVER = "metrics-server"
COMPONENTS = (RECOMMENDER, UPDATER, ADMISSION)
OPS_PORTS = {RECOMMENDER: 8942, UPDATER: 8943, ADMISSION: 8944}


class Installation:
    """The three components and the metrics server, as Deployments."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

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
        return (await self._kubectl("apply", "-k", str(OVERLAY))).splitlines()

    async def ready(self, *names: str) -> None:
        """Wait until the Deployments, all of ours unless some are named, are rolled out."""
        for name in names or (METRICS_SERVER, *COMPONENTS):
            await self._kubectl(
                "rollout", "status", f"deployment/{name}", "--timeout=60s", namespace=SYSTEM
            )

    async def restore(self) -> None:
        """Undo whatever was patched or scaled."""
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
        operations = [
            f'{{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"{one}"}}'
            for one in arguments
        ]
        operations.append(f'{{"op":"replace","path":"/spec/replicas","value":{replicas}}}')
        patch = f"--patch=[{','.join(operations)}]"
        try:
            await self._kubectl(
                "patch", f"deployment/{name}", "--type=json", patch, namespace=SYSTEM
            )
            await self.ready(name)
            yield
        finally:
            await self.restore()

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
