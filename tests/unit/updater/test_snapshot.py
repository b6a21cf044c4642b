"""What a VPA's mode means, and when caches are believed."""

import asyncio

import pytest

from builders import vpa
from common.api.autoscaling import UpdateMode
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.freshness import SETTLING_SECONDS, Freshness
from updater.snapshot import update_mode


@pytest.mark.parametrize(
    ("written", "want"),
    [
        (None, UpdateMode.RECREATE),
        ("", UpdateMode.RECREATE),
        ("Auto", UpdateMode.AUTO),
        ("InPlace", UpdateMode.IN_PLACE),
        ("InPlaceOrRecreate", UpdateMode.IN_PLACE_OR_RECREATE),
        ("SomethingNewer", None),
    ],
)
def test_update_mode(written: str | None, want: UpdateMode | None) -> None:
    assert update_mode(vpa(mode=written)) is want


def test_caches_are_believed_some_time_after_the_api_server_is_back() -> None:
    async def main(_clock: VirtualClock) -> None:
        reachable = True
        fresh = Freshness(lambda: reachable)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(fresh.run())
            assert fresh()
            reachable = False
            await asyncio.sleep(60)
            assert not fresh()
            reachable = True
            await asyncio.sleep(SETTLING_SECONDS - 2)
            assert not fresh()
            await asyncio.sleep(3)
            assert fresh()
            looking.cancel()

    virtual_time.run(main)
