"""Logs of containers that really run, through the API server as ``kubectl logs`` asks for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from common.errors import KubeError
from common.kube.endpoints import PODS
from local_pods import PATIENCE, World, container, is_ready, post, until, web, world
from sandbox_client import api_server

LOG = PODS.object("web", "shop", "log")


async def log(here: World, **query: str) -> list[str]:
    """The lines that the API server answers with."""
    return (await here.client.request("GET", LOG, query=query)).decode().splitlines()


async def say(here: World, ip: str, text: str) -> None:
    """Let the container print a line, and wait until its log has it."""
    await post(ip, f"/say/{text}")

    async def is_there() -> bool:
        return text in await log(here)

    await until(is_there)


@asynccontextmanager
async def following(here: World, query: str = "") -> AsyncIterator[aiohttp.StreamReader]:
    """The log, as it comes."""
    headers = {"Authorization": f"Bearer {here.cluster.serving.token}"}
    url = f"{here.cluster.url}{LOG}?follow=true{query}"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(url, ssl=here.cluster.trusted) as answer,
    ):
        assert answer.status == 200
        yield answer.content


async def test_a_log_that_is_followed_goes_on_until_its_container_ends(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        async with asyncio.timeout(PATIENCE), following(here) as lines:
            assert (await lines.readline()).startswith(b"hello shop")
            for text in ("one", "two"):
                await post(ip, f"/say/{text}")
                assert await lines.readline() == f"{text}\n".encode()
            await post(ip, "/exit")
            assert await lines.read() == b""  # and not what the next run says
        await here.pod_when(lambda one: is_ready(one) and container(one)["restartCount"] == 1)


async def test_a_log_can_be_followed_from_its_last_lines_on(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        await say(here, ip, "one")
        async with asyncio.timeout(PATIENCE), following(here, "&tailLines=0") as lines:
            await post(ip, "/say/two")
            assert await lines.readline() == b"two\n"


async def test_the_log_of_the_run_before_is_told_apart(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        await say(here, ip, "first")
        with pytest.raises(KubeError) as caught:
            await log(here, previous="true")
        assert str(caught.value) == 'previous terminated container "app" in pod "web" not found'
        await post(ip, "/exit")
        await here.pod_when(lambda one: is_ready(one) and container(one)["restartCount"] == 1)
        assert "first" not in await log(here)
        assert (await log(here, previous="true"))[-1] == "first"
        assert await log(here, previous="true", tailLines="1") == ["first"]


async def test_parts_of_a_log_can_be_asked_for(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        for text in ("one", "two"):
            await say(here, ip, text)
        here.cluster.clock.jump(timedelta(hours=1))
        await say(here, ip, "three")
        assert (await log(here))[1:] == ["one", "two", "three"]
        assert await log(here, tailLines="2") == ["two", "three"]
        assert await log(here, tailLines="0") == []
        assert len(await log(here, tailLines="99")) == 4
        assert await log(here, sinceSeconds="600") == ["three"]
        assert len(await log(here, sinceSeconds="7200")) == 4
        assert await log(here, tailLines="2", limitBytes="5") == ["two", "t"]
        since = (here.cluster.clock.now() - timedelta(minutes=30)).isoformat()
        (line,) = await log(here, sinceTime=since, timestamps="true")
        moment, text = line.split(" ")
        assert moment > since[:19]
        assert text == "three"


async def test_a_container_in_its_back_off_shows_its_last_run(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        await post(ip, "/exit")
        await here.pod_when(lambda one: is_ready(one) and container(one)["restartCount"] == 1)
        await say(here, ip, "last")
        await post(ip, "/exit")
        await here.pod_when(lambda one: "waiting" in container(one)["state"])
        assert (await log(here))[-1] == "last"
        assert (await log(here, previous="true"))[-1] == "last"


async def test_a_container_that_can_not_be_made_has_no_log_and_says_why(tmp_path: Path) -> None:
    lost = {"name": "WHO", "valueFrom": {"secretKeyRef": {"name": "lost", "key": "word"}}}
    reason = "CreateContainerConfigError"
    async with world(tmp_path) as here:
        await here.create(web(env=(lost,)))
        await here.pod_when(
            lambda one: container(one).get("state", {}).get("waiting", {}).get("reason") == reason
        )
        with pytest.raises(KubeError) as caught:
            await log(here)
        assert str(caught.value) == f'container "app" in pod "web" is waiting to start: {reason}'


async def test_a_simulated_container_tells_its_state_instead(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web(image="db:1"))
        await here.ready_ip()
        (line,) = await log(here)
        assert line.startswith('app: simulated container, restarts 0, state {"running":')
        assert await log(here, follow="true") == [line]


NEGATIVE = "tailLines: Invalid value: -1: must be greater than or equal to 0"
TWICE = "at most one of `sinceTime` or `sinceSeconds` may be specified"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("tailLines=-1", 422, NEGATIVE),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=-5", 422, "sinceSeconds: Invalid value: -5: must be greater than 0"),
        ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, f"[]: Forbidden: {TWICE}"),
        ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
        (
            "tailLines=-1&limitBytes=0",
            422,
            f"[{NEGATIVE}, limitBytes: Invalid value: 0: must be greater than 0]",
        ),
        ("tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            "sinceTime=soon",
            400,
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
    ],
)
async def test_options_that_make_no_sense_are_refused(query: str, code: int, message: str) -> None:
    # Code and message are those of Kubernetes 1.36.3, which also looks at them before the pod.
    async with api_server() as api:
        answer = await api("GET", f"{LOG}?{query}")
        told = f'PodLogOptions "web" is invalid: {message}' if code == 422 else message
        assert (answer.status, answer.json["message"]) == (code, told)
        if code == 422:
            details = answer.json["details"]
            assert (details["name"], details["kind"]) == ("web", "PodLogOptions")
