"""The rules and the dashboard with a real Prometheus that scrapes the components of the demo.

Skipped if the programs ``prometheus`` and ``promtool`` are missing.
"""

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from common.kube.client import KubeClient
from common.kube.config import load
from common.kube.endpoints import PODS
from component import LOOPBACK
from dashboard import dashboard
from demo.processes import free_port
from prometheus_programs import NEEDS_PROMETHEUS, prometheus

pytestmark = NEEDS_PROMETHEUS

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "monitoring" / "rules.yaml"
JOBS = {
    "recommender": "vpa-recommender",
    "updater": "vpa-updater",
    "admission": "vpa-admission-controller",
}
VARIABLES = {"$namespace": "demo", "$vpa": "overprovisioned", "$__rate_interval": "20s"}
_STARTED = re.compile(r"python -P -m (\w+) .*--address=(\S+)")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo whose components run: their ops addresses, and the kubeconfig of its cluster."""

    addresses: Mapping[str, str]
    kubeconfig: Path

    async def replace_a_pod(self) -> None:
        """Delete a pod, so that the webhook gets the review of another one."""
        connection = await load(str(self.kubeconfig))
        async with KubeClient(connection, user_agent="test", qps=0, burst=0) as client:
            pods = await client.list(PODS, namespace="demo", label_selector="app=overprovisioned")
            await client.delete(PODS, pods.items[0].metadata.name, namespace="demo")


@contextlib.asynccontextmanager
async def running_demo(folder: Path) -> AsyncIterator[Demo]:
    """Run the demo from the start of its components on."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "demo", f"--folder={folder}", f"--root={ROOT}", "--keep"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    addresses: dict[str, str] = {}
    lines: list[str] = []
    async with asyncio.TaskGroup() as group:
        try:
            while len(addresses) < len(JOBS):
                line = (await process.stdout.readline()).decode()
                assert line, "".join(lines)
                lines.append(line)
                if found := _STARTED.search(line):
                    addresses[found[1]] = found[2]
            group.create_task(process.stdout.read())  # so that the demo never waits for a reader
            yield Demo(addresses=addresses, kubeconfig=folder / "kubeconfig")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)  # it stops its processes
            await process.wait()


def configuration(demo: Demo) -> str:
    jobs = [
        {"job_name": JOBS[name], "static_configs": [{"targets": [address]}]}
        for name, address in demo.addresses.items()
    ]
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": jobs,
        }
    )


@dataclass(frozen=True, kw_only=True)
class Server:
    """The query API of Prometheus."""

    session: aiohttp.ClientSession

    async def get(self, path: str, **parameters: str) -> Any:
        async with self.session.get(f"/api/v1/{path}", params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    async def has_data(self, expr: str) -> bool:
        """Return whether a query has had data at any time in the last minutes, as in a panel."""
        (now,) = [float((await self.get("query", query="time()"))["result"][1])]
        times = {"start": f"{now - 120}", "end": f"{now}", "step": "1"}
        return bool((await self.get("query_range", query=expr, **times))["result"])


def queries() -> Iterator[tuple[str, str]]:
    """Yield title and expression of each query of the dashboard and of each recorded series."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expr = target["expr"]
            for name, value in VARIABLES.items():
                expr = expr.replace(name, value)
            yield panel["title"], expr
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            if "record" in rule:
                yield "rule", rule["record"]
    # Of overprovisioned, whose pods are evicted, of advice in mode Off, and of underprovisioned.
    for part in ("given_back", "excess", "lacking"):
        yield (
            "rule",
            f'namespace:vpa_requests_{part}:sum{{vpa_namespace="demo",resource="cpu"}} > 0',
        )


async def test_every_query_has_data_and_every_rule_is_evaluated(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    data.mkdir()
    async with (
        running_demo(tmp_path / "demo") as demo,
        prometheus(data, port, configuration=configuration(demo)),
        aiohttp.ClientSession(f"http://{LOOPBACK}:{port}") as session,
    ):
        server, left = Server(session=session), dict.fromkeys(queries())
        await until_ready(session)
        replaced = False
        async with asyncio.timeout(150):
            while left:
                for query in list(left):
                    if await server.has_data(query[1]):
                        del left[query]
                if not replaced and await server.has_data("vpa_recommender_container_target"):
                    await demo.replace_a_pod()
                    replaced = True
                await asyncio.sleep(1)  # another program sets no event here
        rules = [rule for each in (await server.get("rules"))["groups"] for rule in each["rules"]]
        assert {rule["health"] for rule in rules} == {"ok"}
        alerts = (await server.get("alerts"))["alerts"]
        assert [alert for alert in alerts if alert["state"] == "firing"] == []


async def until_ready(session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/-/ready") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.1)  # another program sets no event here
