"""When the conditions of a VPA change whose workload uses the same all the time."""

import asyncio
from datetime import timedelta
from pathlib import Path

from common.api.autoscaling import VerticalPodAutoscaler, VpaCondition
from common.kube.client import KubeClient
from common.kube.endpoints import VPAS
from recommender_simulation import running_simulation
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from workloads import NAMESPACE

INTERVAL = timedelta(hours=1)  # of confidence
CYCLE = 60.0  # seconds


def test_x1_the_message_of_low_confidence_changes_three_times_and_ends(tmp_path: Path) -> None:
    virtual_time.run(lambda clock: confidence_grows(clock, tmp_path))


async def confidence_grows(clock: VirtualClock, folder: Path) -> None:
    async with running_simulation(clock, folder) as simulation:
        await simulation.deploy("web")
        replica = simulation.replica(
            confidence_interval_cpu=INTERVAL, confidence_interval_memory=INTERVAL
        )
        replica.start()
        messages: list[str] = []
        for _ in range(90):
            await asyncio.sleep(CYCLE)
            found = await simulation.admin.get(VPAS, "web", namespace=NAMESPACE)
            if (message := low_confidence(found)) not in messages[-1:]:
                messages.append(message)
        known = [message.partition(" of usage")[0].partition(": ")[2] for message in messages]
        while not known[0]:
            del known[0]  # there is no recommendation yet
        assert known == ["less than 15m", "15m to 30m", "30m to 45m", "45m to 1h", ""]


def low_confidence(vpa: VerticalPodAutoscaler) -> str:
    known = vpa.status.conditions or ()
    return next((one.message for one in known if one.type == "LowConfidence"), "")


def test_x80_conditions_cause_no_write_in_steady_state(tmp_path: Path) -> None:
    virtual_time.run(lambda clock: nothing_changes(clock, tmp_path))


async def nothing_changes(clock: VirtualClock, folder: Path) -> None:
    """One VPA shadows another, and confidence stays within a quarter of its interval.

    Bounds change by less than a percent, which is written every ten minutes.
    """
    async with running_simulation(clock, folder) as simulation:
        await simulation.deploy("web")
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        vpa = {"metadata": {"name": "second"}, "spec": {"targetRef": target}}
        await simulation.admin.create(VPAS.as_dicts(), vpa, namespace=NAMESPACE)
        weeks = timedelta(weeks=3)
        replica = simulation.replica(
            confidence_interval_cpu=weeks, confidence_interval_memory=weeks
        )
        replica.start()
        await asyncio.sleep(10 * CYCLE)
        before = await conditions(simulation.admin)
        both = {"LowConfidence", "RecommendationProvided"}
        conflict = {frozenset(each.keys() - both) for each in before.values()}
        assert conflict == {frozenset({"TargetShared"}), frozenset({"ControlledByAnotherVPA"})}
        await asyncio.sleep(60 * CYCLE)
        assert await conditions(simulation.admin) == before


async def conditions(client: KubeClient) -> dict[str, dict[str, VpaCondition]]:
    found = (await client.list(VPAS)).items
    return {
        vpa.metadata.name: {one.type: one for one in vpa.status.conditions or ()} for vpa in found
    }
