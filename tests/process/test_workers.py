"""Several processes at one port: ``--workers=2`` of admission, in a whole sandbox."""

import asyncio
import base64
import functools
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import REPLICA_SETS, VPAS
from component import LOOPBACK, Process, free_port, start_process
from process_harness import World, world
from webhook_client import Connection
from webhook_harness import pod_request
from workloads import NAMESPACE, deploy

CALLERS = 4
COUNTED = "vpa_admission_controller_reviews_total"
PATCHED = f'{COUNTED}{{outcome="patched",resource="Pod"}}'
ENDED = "worker ended, starting it again"


async def owned_pod(it: World) -> dict[str, Any]:
    """A pod of a Deployment for which there is a recommendation."""
    await deploy(it.client, "web", replicas=0, mode="Initial")
    target = {"cpu": "150m", "memory": "300Mi"}
    found = {"containerRecommendations": [{"containerName": "app", "target": target}]}
    await it.client.patch(
        VPAS,
        "web",
        {"status": {"recommendation": found}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )
    owners: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        while not owners:
            owners += (await it.client.list(REPLICA_SETS.as_dicts(), namespace=NAMESPACE)).items
            await asyncio.sleep(0.05)
    owner = owners[0]["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    reference |= {"name": owner["name"], "uid": owner["uid"]}
    resources = {"requests": {"cpu": "800m", "memory": "1Gi"}}
    return {
        "metadata": {"name": "web", "labels": {"app": "web"}, "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "app", "resources": resources}]},
    }


class Webhook:
    """The processes, and reviews for them, each on a connection of its own."""

    def __init__(self, it: World, process: Process, port: int, pod: dict[str, Any]) -> None:
        self._it = it
        self.process = process
        self.port = port
        self._authority = it.authority
        self._request = pod_request(pod, namespace=NAMESPACE)
        self.answered = 0
        self.lost = 0

    async def review(self) -> None:
        async with Connection.to(self.port, self._authority) as connection:
            response = await connection.review(self._request)
        operations = json.loads(base64.b64decode(response["patch"]))
        assert "150m" in [operation["value"] for operation in operations]
        self.answered += 1

    async def call(self) -> None:
        """One review after the other, until cancelled; whose worker dies is lost."""
        while True:
            try:
                await self.review()
            except ConnectionRefusedError:
                raise
            except (OSError, EOFError, IndexError):
                self.lost += 1

    async def more_answers(self, count: int) -> None:
        wanted = self.answered + count
        await self._it.until(lambda: self.answered >= wanted)

    def listened(self, times: int) -> bool:
        """Whether workers have begun to accept so often."""
        return len(self.process.said('server="webhook"')) >= times

    async def counted(self) -> float:
        _, metrics = await self.process.get("/metrics")
        found = re.search(rf"^{re.escape(PATCHED)} (\S+)$", metrics, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def pids(self, sentence: str) -> list[int]:
        """Who has said a sentence, oldest first."""
        return [int(line.split()[2]) for line in self.process.said(sentence)]

    def said_by_another(self, sentence: str, *known: int) -> bool:
        return not {*self.pids(sentence)} <= {*known}

    @property
    def first(self) -> int:
        """The process that has the ops address."""
        return self.pids('server="ops"')[-1]

    @property
    def other(self) -> int:
        """The last process that has begun to follow the cluster, and is not the first worker."""
        return next(pid for pid in reversed(self.pids("caches have synced")) if pid != self.first)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[World, Webhook]]:
    port = free_port()
    async with world(folder) as it:
        pod = await owned_pod(it)
        flags = ("--workers=2", f"--port={port}", f"--webhook-port={port}", "--reload-cert")
        process = await it.start("admission", *flags)
        await it.ready(process)
        webhook = Webhook(it, process, port, pod)
        await it.until(functools.partial(webhook.listened, 2))
        yield it, webhook


def counts_of(pid: int) -> Path:
    """The folder in which a worker counts."""
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (found,) = (each for each in environ if each.startswith(b"PROMETHEUS_MULTIPROC_DIR="))
    return Path(found.partition(b"=")[2].decode())


@pytest.mark.timeout(120)  # two processes come up, and each of them once more
async def test_each_answers_and_one_that_dies_costs_only_what_it_had_in_its_hands(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (it, webhook):
        process, first, other = webhook.process, webhook.first, webhook.other
        counts = counts_of(first)
        for sleeping, reviews in ((first, 5), (other, 7)):
            os.kill(sleeping, signal.SIGSTOP)
            for _ in range(reviews):
                await webhook.review()
            os.kill(sleeping, signal.SIGCONT)
        assert await webhook.counted() == 5 + 7
        _, metrics = await process.get("/metrics")
        assert "pid=" not in metrics
        assert "process_resident_memory_bytes" in metrics
        assert 'certificate_remaining_seconds{certificate="serving"}' in metrics
        assert re.search(r'latency_seconds_count\{.*status="applied"\} 12.0', metrics)

        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(webhook.call()) for _ in range(CALLERS)]
            await webhook.more_answers(20)
            await it.shut()  # who comes up now can't know what pods should get
            os.kill(other, signal.SIGKILL)
            await process.logged(f"{ENDED} worker=1 code=-9")
            young = functools.partial(webhook.said_by_another, "API server unreachable")
            await it.until(functools.partial(young, first, other))
            await webhook.more_answers(20)
            assert not webhook.listened(3)
            await it.open()
            await it.until(functools.partial(webhook.listened, 3), seconds=40)
            assert webhook.lost <= CALLERS
            await webhook.more_answers(20)
            os.kill(first, signal.SIGKILL)
            await process.logged(f"{ENDED} worker=0 code=-9")
            await it.until(functools.partial(webhook.listened, 4), seconds=40)
            assert webhook.lost <= 2 * CALLERS
            await webhook.more_answers(20)
            for caller in callers:
                caller.cancel()
        await it.ready(process)
        assert {webhook.first, webhook.other}.isdisjoint({first, other})
        # Nothing that was counted is forgotten; who died may have answered without counting.
        assert await webhook.counted() >= webhook.answered - 2 * CALLERS

        code, seconds = await process.stop()
        assert (code, seconds < 5) == (0, True)
        await it.until(process.has_nobody)
        assert not counts.exists()
        assert process.said("Traceback") == []
        assert it.undeclared("admission") == set()


async def test_a_supervisor_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as (it, webhook):
        counts = counts_of(webhook.first)
        assert counts.exists()
        await webhook.process.kill()
        await it.until(webhook.process.has_nobody, seconds=5)
        assert not counts.exists()
        with pytest.raises(ConnectionRefusedError):
            await webhook.review()


async def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        with socket.create_server(("", 0)) as taken:
            busy = taken.getsockname()[1]
            mistakes = {
                "--no-such-flag": "--no-such-flag",
                "--workers=none": "--workers: not a whole number of up to 18 digits: 'none'",
                f"--port={busy}": f"can't listen on :{busy}",
                f"--address={LOOPBACK}:{busy}": f"can't listen on {LOOPBACK}:{busy}",
                "--tls-cert-file=/nowhere/cert": "can't read /nowhere/cert",
                "--kubeconfig=/nowhere/config": "kubeconfig /nowhere/config: no such file",
            }
            for flag, complaint in mistakes.items():
                command, _ = it.command("admission", "--workers=2", flag)
                process = await start_process(command)
                async with asyncio.timeout(20):
                    _, told = await process.communicate()
                (line,) = told.decode().splitlines()
                assert (process.returncode, complaint in line) == (2, True), line
