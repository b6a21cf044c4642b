"""Certificates are replaced while reviews come in, and not one of them fails."""

from pathlib import Path

import pytest

from process_harness import world
from rotation import calls, count_authorities, site


@pytest.mark.timeout(120)
async def test_a_rotation_under_load_fails_no_call(tmp_path: Path) -> None:
    async with world(tmp_path) as it, site(it) as here:
        prompt, slow = await here.start(lag=0), await here.start(lag=0.3)
        async with calls(here, callers=8, rate=200):
            await here.rotate()
        assert here.failures == {}
        assert here.calls > 200
        assert here.connections > 8
        for replica in (prompt, slow):
            told = replica.process.said("New certificate found, reloading")
            assert told
            assert replica.process.said("Traceback") == []


@pytest.mark.timeout(120)
async def test_a_container_that_restarts_on_an_old_volume_undoes_nothing_that_is_needed(
    tmp_path: Path,
) -> None:
    """It registers the CA file that it finds, and whoever misses an authority puts it back."""
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
