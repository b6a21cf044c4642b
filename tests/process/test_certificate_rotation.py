"""The rotation of certificates under load: no review fails."""

from pathlib import Path

from process_harness import world
from rotation import calls, count_authorities, site


async def test_a_rotation_under_load_fails_no_call(tmp_path: Path) -> None:
    async with world(tmp_path) as it, site(it) as here:
        prompt, slow = await here.start(lag=0), await here.start(lag=0.3)
        async with calls(here, callers=8, rate=200):
            await here.rotate()
        assert here.failures == {}
        assert here.calls > 200
        assert here.connections > 8
        for replica in (prompt, slow):
            figures = replica.process.said("New certificate found, reloading")
            assert figures
            assert replica.process.said("Traceback") == []


async def test_a_restart_with_an_outdated_volume_removes_no_needed_authority(
    tmp_path: Path,
) -> None:
    """It registers its CA file; another replica restores the authority that it misses."""
    async with world(tmp_path) as it, site(it) as here:
        prompt = await here.start(lag=0)
        behind = await here.start(lag=0)
        async with calls(here, callers=4, rate=100):
            behind.volume.flowing.clear()
            await here.certs(renew=True, settle="1h", overlap="1h")
            await it.until(lambda: count_authorities(here.trusted) == 2)
            await here.restart(behind)
            await it.until(
                lambda: bool(prompt.process.said("webhook configuration was changed, restored it"))
            )
            await it.until(lambda: count_authorities(here.trusted) == 2)
            behind.volume.flowing.set()
            await here.everybody_trusts(2)
            await here.finish_rotation()
        assert here.failures == {}
        assert here.calls > 100
