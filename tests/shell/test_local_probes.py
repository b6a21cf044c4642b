"""Probes of containers that really run: what they start, hold back and end; in real time."""

import json
from pathlib import Path
from typing import Any

import pytest

from local_pods import PORT, World, container, got, is_ready, post, until, web, world

DOWN_AT_FIRST = ({"name": "DOWN", "value": "/up"},)


def probe(path: str, **more: Any) -> dict[str, Any]:
    return {
        "periodSeconds": 1,
        "failureThreshold": 1,
        "httpGet": {"port": PORT, "path": path},
    } | more


async def asked(ip: str) -> set[str]:
    """The probed paths that the container was ever asked for."""
    return set(json.loads(await got(ip, "/asked")))


async def restarted(here: World) -> Any:
    return await here.pod_when(lambda one: is_ready(one) and container(one)["restartCount"] == 1)


async def test_a_container_whose_liveness_probe_fails_is_ended_and_runs_again(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as here:
        started = probe("/", failureThreshold=60)  # how long a process takes depends on the machine
        await here.create(web(startupProbe=started, livenessProbe=probe("/live")))
        ip = await here.ready_ip()
        await post(ip, "/live")
        told = await restarted(here)
        ended = container(told)["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (143, "Error")  # it was sent SIGTERM
        assert container(told)["state"]["running"]["startedAt"] >= ended["finishedAt"]
        assert told["status"]["podIP"] == ip
        assert told["status"]["phase"] == "Running"
        events = [one for one in await here.events() if one[0] in ("Unhealthy", "Killing")]
        assert events == [
            ("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503"),
            ("Killing", "Container app failed liveness probe, will be restarted"),
        ]
        assert [one[0] for one in await here.events()].count("Started") == 2


@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
async def test_a_startup_probe_holds_back_the(tmp_path: Path, kind: str) -> None:
    probes = {"startupProbe": probe("/up", failureThreshold=60), kind: probe("/live")}
    async with world(tmp_path) as here:
        await here.create(web(env=DOWN_AT_FIRST, **probes))
        told = await here.pod_when(lambda one: "running" in container(one).get("state", {}))
        ip = told["status"]["podIP"]

        async def was_asked_twice() -> bool:
            found: list[str] = json.loads(await got(ip, "/asked"))
            return found.count("/up") >= 2

        await until(lambda: _answers(ip))
        await until(was_asked_twice)
        assert await asked(ip) == {"/up"}
        told = await here.pod_when(lambda _: True)
        assert (container(told)["started"], container(told)["ready"]) == (False, False)

        await post(ip, "/up")
        told = await here.pod_when(is_ready)
        assert container(told)["started"]
        await until(lambda: _has_asked(ip, "/live"))
        assert container(told)["restartCount"] == 0


async def test_a_container_that_never_starts_up_is_ended_and_runs_again(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web(env=DOWN_AT_FIRST, startupProbe=probe("/up", failureThreshold=2)))
        told = await here.pod_when(lambda one: container(one).get("restartCount", 0) >= 1)
        assert container(told)["lastState"]["terminated"]["exitCode"] == 143
        assert not is_ready(told)
        events = await here.events()
        assert ("Killing", "Container app failed startup probe, will be restarted") in events


async def test_a_container_that_is_not_ready_runs_on(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web(readinessProbe=probe("/live")))
        ip = await here.ready_ip()
        await post(ip, "/live")
        told = await here.pod_when(lambda one: not is_ready(one))
        assert "running" in container(told)["state"]
        await post(ip, "/live")
        told = await here.pod_when(is_ready)
        assert container(told)["restartCount"] == 0


async def _answers(ip: str) -> bool:
    try:
        await got(ip, "/asked")
    except OSError:
        return False
    return True


async def _has_asked(ip: str, path: str) -> bool:
    return path in await asked(ip)
