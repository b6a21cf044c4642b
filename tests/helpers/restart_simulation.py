"""A simulation that a test runs with and without a restart of its recommender."""

import asyncio
import enum
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import CHECKPOINTS, VPAS
from fault_simulation import Life
from recommender.settings import RecommenderSettings
from recommender_simulation import MEBI, RecommenderSimulation, running_simulation
from sandbox import virtual_time
from sandbox.kubelet.usage import Usage
from sandbox.virtual_time import VirtualClock
from workloads import NAMESPACE

MINUTE, HOUR = 60.0, 3600.0
CHECKPOINT = CHECKPOINTS.resource


class Restart(enum.StrEnum):
    """How the process ends at a restart."""

    NEVER = "no restart"
    STOPPED = "stopped"
    KILLED = "killed"


@dataclass
class Stage:
    """A simulation, its recommender, and the usage of its workloads."""

    simulation: RecommenderSimulation
    restarts: Restart
    settings: Mapping[str, Any]
    used: dict[str, Usage] = field(default_factory=dict)
    life: Life | None = None

    async def start(self) -> None:
        self.life = Life(self.simulation, RecommenderSettings(**self.settings))

    async def end(self) -> None:
        assert self.life is not None
        await self.life.kill()

    async def restart(self) -> None:
        """Replace the process, unless restarts are off."""
        assert self.life is not None
        if self.restarts is Restart.NEVER:
            return
        await (self.life.stop() if self.restarts is Restart.STOPPED else self.life.kill())
        await self.start()

    async def pass_by(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def uses(self, workload: str, *, cpu: float, memory: int = 600) -> None:
        """Set the usage of all containers in millicores and MiB."""
        self.used[workload] = Usage(cpu_millicores=cpu, memory_bytes=memory * MEBI)

    def hide(self, workload: str) -> Callable[[], None]:
        """Hide all pods of a workload from the metrics server; return a function that ends this."""
        one = self.simulation.workloads[workload]
        pods, one.pods = one.pods, []

        def show() -> None:
            one.pods = pods

        return show

    async def retarget(self, vpa: str, workload: str) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload}
        patch = {"spec": {"targetRef": target}}
        await self.simulation.admin.patch(
            VPAS, vpa, patch, patch_type=PatchType.MERGE, namespace=NAMESPACE
        )

    async def cpu(self, vpa: str) -> str:
        return str((await self.simulation.target(vpa)).get("cpu", ""))

    async def memory(self, vpa: str) -> str:
        return str((await self.simulation.target(vpa)).get("memory", ""))

    async def conditions(self, vpa: str) -> dict[str, str]:
        found = await self.simulation.admin.get(VPAS, vpa, namespace=NAMESPACE)
        return {one.type: one.message for one in found.status.conditions or ()}

    def stored(self, name: str) -> Any:
        """Return a stored checkpoint; None if there is none."""
        resource = self.simulation.api.registry.find(
            CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINT
        )
        assert resource is not None
        found = self.simulation.api.store.get(resource, NAMESPACE, name)
        return None if found is None else found.object(resource)


Story = Callable[[Stage], Awaitable[None]]


def play(
    story: Story,
    restarts: Restart = Restart.NEVER,
    **settings: Any,
) -> None:
    """Run a story; the recommender's interval is a minute, unless ``settings`` override it."""

    async def main(clock: VirtualClock) -> None:
        with tempfile.TemporaryDirectory() as folder:
            used: dict[str, Usage] = {}
            async with running_simulation(
                clock,
                Path(folder),
                usage=lambda workload, _: used[workload],
            ) as simulation:
                stage = Stage(simulation, restarts, settings, used)
                await story(stage)
                await stage.end()

    virtual_time.run(main)


ALL = pytest.mark.parametrize("restarts", Restart)
