"""``python -P -m recommender`` as its own process, against an API server that keeps still."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.runtime.clock import SystemClock
from common.runtime.web import listen
from fake_api import FakeApi, Reply, listing, named, status
from recommender_harness import CHECKPOINTS, METRICS, checkpoint_of, prepare, status_of, usage

WEB = status_of("web")


class Process:
    """The running process, and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process, ops: int) -> None:
        self.process = process
        self.ops = ops
        self.log: list[str] = []
        self._told = asyncio.Condition()

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._told:
                self.log.append(line.decode())
                self._told.notify_all()

    async def logged(self, sentence: str) -> None:
        async with asyncio.timeout(20), self._told:
            await self._told.wait_for(lambda: any(sentence in line for line in self.log))

    async def get(self, path: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ops)
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body.decode()


def kubeconfig(folder: Path, api: FakeApi) -> Path:
    path = folder / "kubeconfig"
    cluster = {"name": "fake", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}
    context = {"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "nobody", "user": {}}],
    }
    path.write_text(json.dumps(content))
    return path


@asynccontextmanager
async def running(api: FakeApi, folder: Path, *arguments: str) -> AsyncIterator[Process]:
    with listen("127.0.0.1:0") as found:
        ops = int(found.getsockname()[1])
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "recommender", f"--kubeconfig={kubeconfig(folder, api)}"),
        *(f"--address=127.0.0.1:{ops}", "--recommender-interval=200ms"),
        *arguments,
        cwd=folder,
        stderr=asyncio.subprocess.PIPE,
    )
    process = Process(started, ops)
    async with asyncio.TaskGroup() as group:
        group.create_task(process.read_log())
        try:
            yield process
        finally:
            if started.returncode is None:
                started.kill()
            await started.wait()


async def ended(process: Process, *, within: float = 5) -> int:
    """Its exit code; five seconds are what is promised after a signal."""
    async with asyncio.timeout(within):
        return await process.process.wait()


async def test_a_life_from_the_first_cycle_to_sigterm(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(at=SystemClock().now())))
        async with running(api, tmp_path) as process:
            await api.asked(WEB, times=2)  # the fake's VPA never changes, so it is written again
            await api.asked(checkpoint_of("web-app"))
            assert await process.get("/readyz") == (200, "OK")
            assert await process.get("/health-check") == (200, "OK")
            _, metrics = await process.get("/metrics")
            assert "vpa_recommender_aggregate_container_states_count 1.0" in metrics
            assert 'vpa_recommender_metric_server_responses{client_name="default' in metrics
            process.process.send_signal(signal.SIGTERM)
            assert await ended(process) == 0
            assert not any("Traceback" in line for line in process.log)


async def test_history_that_cannot_be_read_holds_everything_up(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, status(403, "Forbidden", "not yet"))
        async with running(api, tmp_path) as process:
            await process.logged("history not loaded, trying again")
            assert METRICS not in api.routes
            process.process.send_signal(signal.SIGTERM)
            assert await ended(process) == 0


async def test_an_api_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        await api.stop()
        async with running(api, tmp_path) as process:
            await process.logged("API server unreachable")
            assert (await process.get("/readyz"))[0] == 503
            await api.start()
            await api.asked(WEB)
            lines = [line for line in process.log if "API server" in line]
            assert len(lines) == 2  # away, and back
            await api.stop()
            process.process.send_signal(signal.SIGTERM)
            assert await ended(process) == 0
            assert not any("Traceback" in line for line in process.log)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--no-such-flag"], "unrecognized arguments", id="unknown flag"),
        pytest.param(["--recommender-interval=5"], "not a duration", id="bad duration"),
        pytest.param(["--storage=prometheus"], "not supported yet", id="prometheus"),
        pytest.param(["--use-external-metrics"], "not supported yet", id="external metrics"),
        pytest.param(["--kubeconfig=nowhere"], "no such file", id="no kubeconfig"),
    ],
)
async def test_what_an_operator_can_put_right_is_one_line(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    async with FakeApi() as api, running(api, tmp_path, *arguments) as process:
        assert await ended(process, within=30) == 2
        await process.logged(complaint)
        assert len(process.log) == 1


async def test_a_silent_metrics_server_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, Reply(chunks=[b'{"items": ['], hold=True))
        async with running(api, tmp_path) as process:
            await api.asked(METRICS)
            process.process.send_signal(signal.SIGTERM)
            assert await ended(process) == 0


async def test_a_killed_process_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(at=SystemClock().now(), cpu="800m", memory="1Gi")))
        async with running(api, tmp_path) as process:
            body = (await api.asked(checkpoint_of("web-app"))).json()
            process.process.kill()
        kept = named(
            "web-app",
            spec={"vpaObjectName": "web", "containerName": "app"},
            status=body[-1]["value"],
        )
        api.on(CHECKPOINTS, listing(kept))
        api.on(METRICS, listing())
        before = api.routes.count(WEB)
        async with running(api, tmp_path):
            again = (await api.asked(WEB, times=before + 1)).json()
        (app,) = again[0]["value"]["recommendation"]["containerRecommendations"]
        assert app["target"]["cpu"] == "920m"
