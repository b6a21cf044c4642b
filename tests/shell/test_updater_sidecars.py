"""The updater and native sidecars, in a whole sandbox cluster (AEP-8905, X107).

The API server and the kubelets validate each resize: they would refuse a wrong path.
"""

from typing import Any

import pytest

from common.kube.endpoints import PODS
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

IMAGE = "shop:1"
REQUESTS = {"requests": {"cpu": "100m"}}
MIGRATE = {"name": "migrate", "image": IMAGE, "resources": REQUESTS}
PROXY = {"name": "proxy", "image": IMAGE, "restartPolicy": "Always", "resources": REQUESTS}
UPDATED = ("InPlaceOrRecreate", "InPlace", "Recreate")


async def init_cpu(sandbox: UpdaterSandbox) -> list[dict[str, tuple[str, str]]]:
    """Return the CPU requests of each pod's init containers, in spec and status."""
    listing = await sandbox.admin.list(PODS.as_dicts(), namespace="shop")

    def cpu(of: Any) -> str:
        found: str = of["resources"]["requests"]["cpu"]
        return found

    return [
        {
            spec["name"]: (cpu(spec), cpu(status))
            for spec, status in zip(
                pod["spec"]["initContainers"], pod["status"]["initContainerStatuses"], strict=True
            )
        }
        for pod in listing.items
        if "deletionTimestamp" not in pod["metadata"]
    ]


SAME = ("100m", "100m")


@pytest.mark.parametrize("version", ["1.33", "1.36"])
@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_a_sidecar_is_resized_in_place(mode: str, version: str) -> None:
    async def main(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(initContainers=[MIGRATE, PROXY])
        await sandbox.autoscale(mode)
        await sandbox.recommend("500m", proxy="250m", migrate="700m")
        updater = sandbox.updater()
        for _ in range(4):
            await updater.run_once()
            await sandbox.settle()
        assert await init_cpu(sandbox) == [{"migrate": SAME, "proxy": ("250m", "250m")}] * 3
        assert sandbox.calls("resize") == [200, 200, 200]
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(main, version=version, sidecars=True)


def test_a_pod_is_evicted_for_its_sidecar() -> None:
    async def main(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(initContainers=[MIGRATE, PROXY])
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("500m", proxy="250m")
        await sandbox.updater().run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(main, sidecars=True)


@pytest.mark.parametrize("mode", UPDATED)
def test_with_the_gate_off_nothing_is_done_for_a_sidecar(mode: str) -> None:
    async def main(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(initContainers=[MIGRATE, PROXY])
        await sandbox.autoscale(mode)
        await sandbox.recommend("500m", proxy="250m", migrate="700m")
        updater = sandbox.updater()
        for _ in range(3):
            await updater.run_once()
            await sandbox.settle()
        assert await init_cpu(sandbox) == [{"migrate": SAME, "proxy": SAME}] * 3
        assert sandbox.calls("resize") == sandbox.calls("eviction") == []

    in_updater_sandbox(main)


@pytest.mark.parametrize("mode", UPDATED)
def test_nothing_is_done_for_a_plain_init_container(mode: str) -> None:
    """AEP-8905: also if the recommendation is for a sidecar of the same name."""

    async def main(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(initContainers=[MIGRATE, {**MIGRATE, "name": "proxy"}])
        await sandbox.autoscale(mode)
        await sandbox.recommend("500m", proxy="250m", migrate="700m")
        updater = sandbox.updater()
        for _ in range(3):
            await updater.run_once()
            await sandbox.settle()
        assert await init_cpu(sandbox) == [{"migrate": SAME, "proxy": SAME}] * 3
        assert sandbox.calls("resize") == sandbox.calls("eviction") == []

    in_updater_sandbox(main, sidecars=True)


@pytest.mark.parametrize(
    ("restart", "at_once"), [("RestartContainer", 1), ("NotRequired", 3)], ids=["yes", "no"]
)
def test_a_restart_of_a_sidecar_takes_a_part_of_the_budget(restart: str, at_once: int) -> None:
    """With --in-place-skip-disruption-budget only changes without a restart are free."""
    policy = {"resourceName": "cpu", "restartPolicy": restart}

    async def main(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(initContainers=[{**PROXY, "resizePolicy": [policy]}])
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("500m", proxy="250m")
        updater = sandbox.updater()
        await updater.run_once()
        assert sandbox.calls("resize") == [200] * at_once  # of three; half of them may be missing
        for _ in range(4):
            await sandbox.settle()
            await updater.run_once()
        assert sandbox.calls("resize") == [200, 200, 200]
        await sandbox.settle()
        assert await init_cpu(sandbox) == [{"proxy": ("250m", "250m")}] * 3

    in_updater_sandbox(main, sidecars=True, skips_budget=True)
