"""The circuit breaker: it limits evictions whose replacements are wrong, and resumes by itself.

A webhook doesn't patch new pods, or a quota refuses them: up to a simulated day with a pass a
minute, in virtual time. The evictions are read from the API server's audit log.
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

FLAGS: tuple[str, ...] = ()  # the defaults; all tests fail with --eviction-outcome-check=false
DAY, MINUTE = 24 * HOUR, timedelta(minutes=1)
MAX_LOST = 3
RESTARTS = (1, 2, 5, 61, 200, 201, 202, 333)  # minutes

SIZES: Sizes = {
    "one": ("Deployment", 1),
    "two": ("Deployment", 2),
    "three": ("Deployment", 3),
    "four": ("StatefulSet", 4),
    "nine": ("Deployment", 9),
}


def run_simulation(
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


def is_limited(times: list[datetime]) -> bool:
    """Return True if all but the first three evictions were at least an hour apart."""
    later = times[MAX_LOST - 1 :]
    return all(after - before >= HOUR * MINUTE for before, after in pairwise(later))


@pytest.mark.timeout(300)
def test_three_evictions_of_each_vpa_and_one_an_hour_until_the_webhook_patches(
    tmp_path: Path,
) -> None:
    async def test(simulation: WebhookSimulation) -> None:
        await simulation.live(HOUR)
        messages = await simulation.messages("EvictionsSuspended")
        assert set(messages) == set(SIZES)
        assert all("[actuation_suspended] (VPA " in text for text in messages.values())
        assert all("was not patched" in text for text in messages.values())
        await simulation.live(DAY - HOUR)
        for name in SIZES:
            assert is_limited(simulation.sent[name]), (
                name,
                simulation.sent[name],
            )
            assert MAX_LOST + 20 <= len(simulation.sent[name]) <= MAX_LOST + 24
        assert set((await simulation.right()).values()) == {0}
        assert simulation.suspended() == set(SIZES)
        assert simulation.outcome("unpatched") == sum(map(len, simulation.sent.values()))

        simulation.webhook.patches = True
        await simulation.live(HOUR + 15)  # beyond the next probe
        assert await simulation.right() == {name: replicas for name, (_, replicas) in SIZES.items()}
        assert simulation.suspended() == set()
        resumed = await simulation.messages("EvictionsResumed")
        assert set(resumed) == set(SIZES)
        assert all(text.endswith(f"(VPA {name})") for name, text in resumed.items())

    run_simulation(test, tmp_path)


def test_controllers_report_wanted_and_existing_pods(tmp_path: Path) -> None:
    async def test(simulation: WebhookSimulation) -> None:
        (three,) = simulation.caches.controllers.replica_sets.snapshot.in_namespace(NAMESPACE)
        await simulation.deploy("all", "DaemonSet", 0)
        await simulation.deploy("batch", "Job", 2)
        await asyncio.sleep(60)
        found = {
            (kind, name): group_size(
                Controller(NAMESPACE, kind, name, "apps/v1"), simulation.caches.controllers.find
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

    run_simulation(test, tmp_path, sizes={name: SIZES[name] for name in ("three", "four")})


@pytest.mark.timeout(300)
def test_restarts_allow_no_more_evictions(tmp_path: Path) -> None:
    """A group of one or two pods is too small for the result of three evictions."""

    async def test(simulation: WebhookSimulation) -> None:
        await simulation.live(8 * HOUR, restarts=RESTARTS)
        for name in SIZES:
            assert is_limited(simulation.sent[name]), (
                name,
                simulation.sent[name],
            )
            assert len(simulation.sent[name]) > MAX_LOST
        assert simulation.suspended() == set(SIZES)

        simulation.webhook.patches = True
        await simulation.live(HOUR + 15)
        assert await simulation.right() == {name: replicas for name, (_, replicas) in SIZES.items()}
        assert simulation.suspended() == set()

    run_simulation(test, tmp_path)


@pytest.mark.timeout(300)
def test_crashes_every_other_minute_allow_no_more_evictions(tmp_path: Path) -> None:
    async def test(simulation: WebhookSimulation) -> None:
        await simulation.live(5 * HOUR, restarts=range(0, 5 * HOUR, 2))
        for name, (_, replicas) in SIZES.items():
            assert is_limited(simulation.sent[name]), (
                name,
                simulation.sent[name],
            )
            assert simulation.sent[name], name
            assert replicas >= MAX_LOST or len(simulation.sent[name]) > MAX_LOST, name

    run_simulation(test, tmp_path)


@pytest.mark.timeout(300)
def test_replacements_that_a_quota_prevents_count_as_lost(tmp_path: Path) -> None:
    async def test(simulation: WebhookSimulation) -> None:
        body = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
        await simulation.admin.create(QUOTAS, body, namespace=NAMESPACE)
        await asyncio.sleep(10)
        await simulation.live(HOUR)
        for name, (_, replicas) in simulation.sizes.items():
            gone = len(simulation.sent[name])
            assert gone <= MAX_LOST
            assert len((await simulation.pods())[name]) == replicas - gone
            assert (name in simulation.suspended()) is (gone == MAX_LOST)
        assert {"nine", "batch"} <= simulation.suspended()
        assert len(simulation.sent["one"]) == 1  # the VPA has no pod any more
        assert simulation.outcome("not_created") == sum(map(len, simulation.sent.values()))
        assert "a quota" in (await simulation.messages("EvictionsSuspended"))["nine"]

        await simulation.admin.delete(QUOTAS, "full", namespace=NAMESPACE)
        await simulation.live(2 * HOUR)
        assert await simulation.right() == {
            name: size for name, (_, size) in simulation.sizes.items()
        }
        assert simulation.suspended() == set()

    run_simulation(test, tmp_path, patches=True, sizes={**SIZES, "batch": ("Job", 4)})


@pytest.mark.timeout(300)
def test_at_most_three_more_are_lost_after_correct_replacements(tmp_path: Path) -> None:
    """A third party's webhook refuses all new pods after three correct replacements."""

    async def test(simulation: WebhookSimulation) -> None:
        await simulation.live(1)
        assert await simulation.right() == {"ten": 3}
        await simulation.admin.create(MUTATING_WEBHOOKS.as_dicts(), refusing_webhook())
        await simulation.live(3 * HOUR)
        assert len((await simulation.pods())["ten"]) == 10 - MAX_LOST
        assert len(simulation.sent["ten"]) == 2 * MAX_LOST, "no probe is sent"
        assert simulation.suspended() == {"ten"}

        await simulation.admin.delete(MUTATING_WEBHOOKS, "refuses")
        await simulation.live(HOUR)
        assert await simulation.right() == {"ten": 10}
        assert simulation.suspended() == set()

    run_simulation(test, tmp_path, sizes={"ten": ("Deployment", 10)}, patches=True)
