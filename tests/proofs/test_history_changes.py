"""The workload whose history a recommendation uses, with and without restarts."""

import json
from datetime import datetime

from common.kube.endpoints import VPAS
from fault_simulation import kill_by_memory
from restart_simulation import ALL, CHECKPOINT, HOUR, MINUTE, Restart, Stage, play
from workloads import NAMESPACE, autoscaler


async def two_workloads(stage: Stage) -> None:
    stage.uses("large", cpu=2000, memory=4000)
    stage.uses("small", cpu=100, memory=600)
    await stage.simulation.deploy("large")
    await stage.simulation.deploy("small")
    await stage.start()
    await stage.pass_by(40 * MINUTE)
    assert await stage.cpu("large") != await stage.cpu("small")


@ALL
def test_x123_a_vpa_with_another_target_recommends_for_that_workload(
    restarts: Restart,
) -> None:
    async def story(stage: Stage) -> None:
        await two_workloads(stage)
        await stage.retarget("large", "small")
        await stage.pass_by(2 * MINUTE)
        for _ in range(3):
            assert await stage.simulation.target("large") == await stage.simulation.target("small")
            await stage.restart()
            await stage.pass_by(6 * MINUTE)
        assert stage.stored("large-app")["metadata"]["annotations"]["vpa-recommender/target"] == (
            "Deployment/small"
        )

    play(story, restarts)


@ALL
def test_x123_a_recreated_vpa_for_another_workload_inherits_nothing(
    restarts: Restart,
) -> None:
    async def story(stage: Stage) -> None:
        await two_workloads(stage)
        await stage.pass_by(3 * MINUTE)  # shortly after a garbage collection of checkpoints
        await stage.simulation.admin.delete(VPAS, "large", namespace=NAMESPACE)
        await stage.pass_by(2 * MINUTE)
        await stage.simulation.admin.create(
            VPAS.as_dicts(), autoscaler("large"), namespace=NAMESPACE
        )
        await stage.retarget("large", "small")
        for _ in range(3):
            await stage.restart()
            await stage.pass_by(6 * MINUTE)
            assert await stage.simulation.target("large") == await stage.simulation.target("small")

    play(story, restarts)


@ALL
def test_q3_a_recreated_workload_with_other_labels_keeps_its_history(
    restarts: Restart,
) -> None:
    async def story(stage: Stage) -> None:
        stage.uses("web", cpu=2000)
        await stage.simulation.deploy("web")
        await stage.start()
        await stage.pass_by(90 * MINUTE)
        before = await stage.simulation.target("web")
        stage.simulation.undeploy("web")
        await stage.pass_by(2 * MINUTE)
        stage.uses("web", cpu=100)
        stage.simulation.deploy_alone("web", app="web-v2")
        for _ in range(3):
            await stage.pass_by(6 * MINUTE)
            assert await stage.simulation.target("web") == before
            await stage.restart()

    play(story, restarts)


@ALL
def test_x123_deleting_a_checkpoint_starts_a_new_history_within_a_minute(
    restarts: Restart,
) -> None:
    async def story(stage: Stage) -> None:
        stage.uses("web", cpu=2000)
        await stage.simulation.deploy("web")
        await stage.start()
        await stage.pass_by(90 * MINUTE)
        stage.uses("web", cpu=100)
        before = await stage.simulation.target("web", "sidecar")
        stage.simulation.delete_custom(CHECKPOINT, "web-app")
        await stage.pass_by(61)
        for _ in range(3):
            assert await stage.cpu("web") == "126m"
            assert await stage.simulation.target("web", "sidecar") == before, "its history is kept"
            await stage.restart()
            await stage.pass_by(2 * MINUTE)
        assert stage.stored("web-app")["status"]["totalSamplesCount"] < 60

    play(story, restarts)


def test_x124_the_first_samples_of_a_vpa_without_pods_are_stored_in_the_next_cycle() -> None:
    async def story(stage: Stage) -> None:
        stage.uses("web", cpu=100)
        await stage.simulation.admin.create(VPAS.as_dicts(), autoscaler("web"), namespace=NAMESPACE)
        await stage.start()
        await stage.pass_by(HOUR + 90)
        stage.simulation.deploy_alone("web")
        await stage.pass_by(2 * MINUTE)
        assert stage.stored("web-app")["status"]["totalSamplesCount"] >= 1

    play(story)


def test_x124_an_oom_kill_is_stored_in_the_cycle_that_detects_it() -> None:
    async def story(stage: Stage) -> None:
        stage.uses("oomer", cpu=100, memory=600)
        await stage.simulation.deploy("oomer")
        await stage.start()
        await stage.pass_by(9 * HOUR + 30)
        before = await stage.memory("oomer")
        kill_by_memory(stage.simulation)
        await stage.pass_by(61)
        after = await stage.memory("oomer")
        assert int(after) > int(before)
        annotations = stage.stored("oomer-app")["metadata"]["annotations"]
        windows = json.loads(annotations["vpa-recommender/memory-windows"])["windows"]
        assert all(oom_peak for _, _, _, oom_peak, _ in windows)
        for _ in range(2):
            await stage.restart()
            await stage.pass_by(2 * MINUTE)
            assert await stage.memory("oomer") == after

    play(story, Restart.KILLED)


def test_x124_changes_are_stored_before_the_process_ends() -> None:
    async def story(stage: Stage) -> None:
        stage.uses("web", cpu=100)
        await stage.simulation.deploy("web")
        await stage.start()
        await stage.pass_by(9 * HOUR + 30)  # from 500 minutes on, checkpoints lag by five
        for _ in range(5):
            await stage.pass_by(MINUTE)
            assert stage.life is not None
            await stage.life.stop()
            assert stage.stored("web-app")["status"]["totalSamplesCount"] >= 2 * 60 * 9
            newest = stage.stored("web-app")["status"]["lastSampleStart"]
            age = stage.simulation.clock.now().timestamp() - _time(newest)
            assert age < 2 * MINUTE
            await stage.start()

    play(story)


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
