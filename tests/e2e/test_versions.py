"""What works on every version of Kubernetes that the sandbox knows."""

import pytest

from e2e.clusters import SANDBOX
from e2e.pods import LARGE
from e2e.world import Case

pytestmark = [
    pytest.mark.abreast,
    pytest.mark.only_on(
        SANDBOX, reason="a real control plane has the version that it was built as"
    ),
]


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=pytest.mark.kubernetes(version))
        for version in ("1.33", "1.34", "1.35", "1.36")
    ],
)
async def test_the_three_modes_on_kubernetes(case: Case, version: str) -> None:
    told = await case.world.kubectl("version", "--output=yaml")
    assert f"gitVersion: v{version}." in told.partition("serverVersion:")[2]
    modes = {"moved": "Recreate", "resized": "InPlaceOrRecreate", "kept": "InPlace"}
    before = {}
    for app in modes:
        await case.deploy(app, requests=LARGE)
    for app, mode in modes.items():
        before[app] = {pod["metadata"]["uid"] for pod in await case.running(app)}
        await case.autoscale(app, mode)
    for app in modes:
        after = {pod["metadata"]["uid"] for pod in await case.fits(app)}
        assert after == before[app] if app != "moved" else not after & before[app]
    assert {name.partition("-")[0] for name in case.evictions()} == {"moved"}
    assert {name.partition("-")[0] for name in case.resizes()} == {"resized", "kept"}
