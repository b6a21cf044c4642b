"""The breaker proof: where evictions change nothing, few of them are sent, and it ends by itself.

A webhook that admits without patching, and a quota that lets no pod follow: a simulated day with
a pass a minute, in virtual time. What was sent is read from the API server's audit log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from common.flags import read_flags
from common.kube.endpoints import MUTATING_WEBHOOKS
from common.target.owners import Controller
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.settings import UpdaterSettings
from updater.snapshot.live_pod import MANAGER
from updater.snapshot.workload_size import GroupSize, group_size
from webhook_simulation import HOUR, QUOTAS, Sizes, WebhookSimulation, webhook_simulation
from workloads import NAMESPACE, refusing_webhook

FLAGS: tuple[str, ...] = ()  # the defaults; with --eviction-outcome-check=false all of it fails
DAY, MINUTE = 24 * HOUR, timedelta(minutes=1)
MOST_AT_FIRST = 3
RESTARTS = (1, 2, 5, 61, 200, 201, 202, 333)  # minutes

SIZES: Sizes = {
    "one": ("Deployment", 1),
    "two": ("Deployment", 2),
    "three": ("Deployment", 3),
    "four": ("StatefulSet", 4),
    "nine": ("Deployment", 9),
}


def in_town(
    test: Callable[[WebhookSimulation], Awaitable[None]],
    folder: Path,
    *,
    sizes: Sizes = SIZES,
    patches: bool = False,
) -> None:
    settings = read_flags(UpdaterSettings, FLAGS, program=MANAGER, environ={})

    async def main(clock: VirtualClock) -> None:
        async with webhook_simulation(
            clock, folder, settings, sizes=sizes, patches=patches
        ) as opened:
            await test(opened)

    virtual_time.run(main)


def three_and_one_an_hour(times: list[datetime]) -> bool:
    """Whether all but the first three evictions were at least an hour apart from each other."""
    later = times[MOST_AT_FIRST - 1 :]
    return all(after - before >= HOUR * MINUTE for before, after in pairwise(later))


@pytest.mark.timeout(300)
def test_three_evictions_of_each_vpa_and_one_an_hour_until_the_webhook_patches(
    tmp_path: Path,
) -> None:
    async def test(webhook_simulation: WebhookSimulation) -> None:
        await webhook_simulation.live(HOUR)
        told = await webhook_simulation.told("EvictionsSuspended")
        assert set(told) == set(SIZES)
        assert all("[actuation_suspended] (VPA " in text for text in told.values())
        assert all("was not patched" in text for text in told.values())
        await webhook_simulation.live(DAY - HOUR)
        for name in SIZES:
            assert three_and_one_an_hour(webhook_simulation.sent[name]), (
                name,
                webhook_simulation.sent[name],
            )
            assert MOST_AT_FIRST + 20 <= len(webhook_simulation.sent[name]) <= MOST_AT_FIRST + 24
        assert set((await webhook_simulation.right()).values()) == {0}
        assert webhook_simulation.suspended() == set(SIZES)
        assert webhook_simulation.outcome("unpatched") == sum(
            map(len, webhook_simulation.sent.values())
        )

        webhook_simulation.webhook.patches = True
        await webhook_simulation.live(HOUR + 15)  # to the next probe, and on
        assert await webhook_simulation.right() == {
            name: replicas for name, (_, replicas) in SIZES.items()
        }
        assert webhook_simulation.suspended() == set()
        resumed = await webhook_simulation.told("EvictionsResumed")
        assert set(resumed) == set(SIZES)
        assert all(text.endswith(f"(VPA {name})") for name, text in resumed.items())

    in_town(test, tmp_path)


def test_what_controllers_say_of_their_pods(tmp_path: Path) -> None:
    async def test(webhook_simulation: WebhookSimulation) -> None:
        (three,) = webhook_simulation.caches.controllers.replica_sets.snapshot.in_namespace(
            NAMESPACE
        )
        await webhook_simulation.deploy("all", "DaemonSet", 0)
        await webhook_simulation.deploy("batch", "Job", 2)
        await asyncio.sleep(60)
        found = {
            (kind, name): group_size(
                Controller(NAMESPACE, kind, name, "apps/v1"), webhook_simulation.caches.controllers
            )
            for kind, name in (
                ("ReplicaSet", three.metadata.name),
                ("StatefulSet", "four"),
                ("DaemonSet", "all"),
                ("Job", "batch"),
                ("ReplicaSet", "gone"),
                ("Shop", "three"),
            )
        }
        assert list(found.values()) == [
            GroupSize(wanted=3, existing=3),
            GroupSize(wanted=4, existing=4),
            GroupSize(wanted=1, existing=1),  # there is one node
            GroupSize(wanted=2, existing=2),
            GroupSize(),
            GroupSize(),
        ]

    in_town(test, tmp_path, sizes={name: SIZES[name] for name in ("three", "four")})


@pytest.mark.timeout(300)
def test_restarts_let_no_more_go(tmp_path: Path) -> None:
    """A group of one or two has too few pods to show the result of three evictions."""

    async def test(webhook_simulation: WebhookSimulation) -> None:
        await webhook_simulation.live(8 * HOUR, restarts=RESTARTS)
        for name in SIZES:
            assert three_and_one_an_hour(webhook_simulation.sent[name]), (
                name,
                webhook_simulation.sent[name],
            )
            assert len(webhook_simulation.sent[name]) > MOST_AT_FIRST
        assert webhook_simulation.suspended() == set(SIZES)

        webhook_simulation.webhook.patches = True
        await webhook_simulation.live(HOUR + 15)
        assert await webhook_simulation.right() == {
            name: replicas for name, (_, replicas) in SIZES.items()
        }
        assert webhook_simulation.suspended() == set()

    in_town(test, tmp_path)


@pytest.mark.timeout(300)
def test_an_updater_that_crashes_every_other_minute_evicts_no_more_either(tmp_path: Path) -> None:
    async def test(webhook_simulation: WebhookSimulation) -> None:
        await webhook_simulation.live(5 * HOUR, restarts=range(0, 5 * HOUR, 2))
        for name, (_, replicas) in SIZES.items():
            assert three_and_one_an_hour(webhook_simulation.sent[name]), (
                name,
                webhook_simulation.sent[name],
            )
            assert webhook_simulation.sent[name], name
            assert (
                replicas >= MOST_AT_FIRST or len(webhook_simulation.sent[name]) > MOST_AT_FIRST
            ), name

    in_town(test, tmp_path)


@pytest.mark.timeout(300)
def test_pods_that_a_quota_keeps_from_coming_are_missed(tmp_path: Path) -> None:
    async def test(webhook_simulation: WebhookSimulation) -> None:
        body = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
        await webhook_simulation.admin.create(QUOTAS, body, namespace=NAMESPACE)
        await asyncio.sleep(10)
        await webhook_simulation.live(HOUR)
        for name, (_, replicas) in webhook_simulation.sizes.items():
            gone = len(webhook_simulation.sent[name])
            assert gone <= MOST_AT_FIRST
            assert len((await webhook_simulation.pods())[name]) == replicas - gone
            assert (name in webhook_simulation.suspended()) is (gone == MOST_AT_FIRST)
        assert {"nine", "batch"} <= webhook_simulation.suspended()
        assert len(webhook_simulation.sent["one"]) == 1  # there is no pod of that VPA any more
        assert webhook_simulation.outcome("not_created") == sum(
            map(len, webhook_simulation.sent.values())
        )
        assert "a quota" in (await webhook_simulation.told("EvictionsSuspended"))["nine"]

        await webhook_simulation.admin.delete(QUOTAS, "full", namespace=NAMESPACE)
        await webhook_simulation.live(2 * HOUR)
        assert await webhook_simulation.right() == {
            name: size for name, (_, size) in webhook_simulation.sizes.items()
        }
        assert webhook_simulation.suspended() == set()

    in_town(test, tmp_path, patches=True, sizes={**SIZES, "batch": ("Job", 4)})


@pytest.mark.timeout(300)
def test_no_more_than_three_are_lost_after_replacements_were_right_either(tmp_path: Path) -> None:
    """A third party's webhook refuses all new pods once the first three came up right."""

    async def test(webhook_simulation: WebhookSimulation) -> None:
        await webhook_simulation.live(1)
        assert await webhook_simulation.right() == {"ten": 3}
        await webhook_simulation.admin.create(MUTATING_WEBHOOKS.as_dicts(), refusing_webhook())
        await webhook_simulation.live(3 * HOUR)
        assert len((await webhook_simulation.pods())["ten"]) == 10 - MOST_AT_FIRST
        assert len(webhook_simulation.sent["ten"]) == 2 * MOST_AT_FIRST, "nor is a probe sent"
        assert webhook_simulation.suspended() == {"ten"}

        await webhook_simulation.admin.delete(MUTATING_WEBHOOKS, "refuses")
        await webhook_simulation.live(HOUR)
        assert await webhook_simulation.right() == {"ten": 10}
        assert webhook_simulation.suspended() == set()

    in_town(test, tmp_path, sizes={"ten": ("Deployment", 10)}, patches=True)
