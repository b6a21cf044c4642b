"""The demo's programme: start a cluster and the three components, tell the story, sum up."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from common.errors import ConfigError, KubeError, VpaError
from common.flags import read_flags
from common.kube.client import KubeClient, PatchType
from common.kube.config import load
from common.kube.endpoints import MUTATING_WEBHOOKS, VPAS
from demo.apply import apply
from demo.observe import NAMESPACE, Observer
from demo.processes import Processes, free_port
from demo.settings import ADMISSION, RECOMMENDER, UPDATER, Settings
from demo.story import CHAPTERS, Progress, Verdict, WorkloadState, savings
from demo.table import LiveTable, PlainLines, View, summary

LOOK_EVERY = 0.5  # seconds
SETTLED_FOR = 10.0  # seconds that every chapter must stay at its end
START_WITHIN = 30.0  # seconds
LOWERED_CPU = "2"  # what toobig's maxAllowed is lowered to
_WEBHOOK = "vpa-webhook-config"


@dataclass(slots=True)
class Story:
    """The states at the start and now, and what has been done so far."""

    start: dict[str, WorkloadState] = field(default_factory=dict)
    now: dict[str, WorkloadState] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    lowered: bool = False

    def look(self, states: Mapping[str, WorkloadState]) -> None:
        """Take the states; a workload starts when all its pods are ready for the first time."""
        for chapter in CHAPTERS:
            state = states[chapter.name]
            complete = len(state.pods) == chapter.replicas and all(p.ready for p in state.pods)
            if chapter.name not in self.start and complete:
                self.start[chapter.name] = state
            before = self.start.get(chapter.name, WorkloadState())
            self.now[chapter.name] = state
            self.progress[chapter.name] = chapter.judge(before, state)

    @property
    def ended(self) -> bool:
        return all(judged.verdict is Verdict.REACHED for judged in self.progress.values())

    @property
    def spoiled(self) -> bool:
        return any(judged.verdict is Verdict.SPOILED for judged in self.progress.values())

    @property
    def found_infeasible(self) -> bool:
        """Whether the resize that can't work has been tried, and the VPA may be lowered."""
        return bool(self.now["toobig"].refused) and "toobig" in self.start


async def tell(settings: Settings, view: View, stop: asyncio.Event) -> Story:
    """Run the whole demo; returns the story as it ended.

    Raises:
        VpaError: a process died, or the cluster did not answer.
    """
    folder = settings.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    processes = Processes(folder / "logs")
    try:
        async with started(settings, folder, processes, view) as client:
            story = await _watch(settings, client, processes, view, stop)
            if settings.keep and not stop.is_set():
                view.close()
                view.say(
                    f"\nThe cluster stays up until Ctrl-C. In another terminal:\n"
                    f"    export KUBECONFIG={folder / 'kubeconfig'}\n"
                    f"    kubectl --namespace {NAMESPACE} get vpa,pods\n"
                )
                await stop.wait()
            return story
    finally:
        await processes.stop()


@contextlib.asynccontextmanager
async def started(
    settings: Settings, folder: Path, processes: Processes, view: View
) -> AsyncIterator[KubeClient]:
    """Start cluster and components, and apply the examples once the webhook is registered."""
    kubeconfig = folder / "kubeconfig"
    view.say("Starting a sandbox cluster on loopback.")
    await processes.start(
        "sandbox",
        [
            "sandbox",
            "demo.yaml",
            f"--kubeconfig={kubeconfig}",
            f"--kubernetes-version={settings.kubernetes_version}",
        ],
    )
    async with asyncio.timeout(START_WITHIN):
        while not kubeconfig.exists():
            processes.check()
            await asyncio.sleep(0.05)
    connection = await load(str(kubeconfig))
    async with KubeClient(connection, user_agent="vpa-demo", qps=200, burst=400) as client:
        for manifest in sorted((settings.root / "deploy/crd").glob("*.yaml")):
            await apply(client, manifest)
        await _start_components(folder, processes, view)
        async with asyncio.timeout(START_WITHIN):
            while not await _registered(client):
                processes.check()
                await asyncio.sleep(0.1)
        for manifest in sorted((settings.root / "examples").glob("*.yaml")):
            view.say(f"Applied {manifest.name}: {', '.join(await apply(client, manifest))}")
        yield client


async def _start_components(folder: Path, processes: Processes, view: View) -> None:
    certificates = folder / "certs"
    maker = await processes.start(
        "certs", ["certs", f"--output-dir={certificates}", "--host=127.0.0.1"]
    )
    if await maker.process.wait():
        maker.check()
    processes.running.remove(maker)
    port = free_port()
    common = [f"--kubeconfig={folder / 'kubeconfig'}"]
    components = {
        "admission": [
            *ADMISSION,
            f"--port={port}",
            "--register-by-url",
            "--webhook-address=https://127.0.0.1",
            f"--webhook-port={port}",
            f"--client-ca-file={certificates / 'caCert.pem'}",
            f"--tls-cert-file={certificates / 'serverCert.pem'}",
            f"--tls-private-key={certificates / 'serverKey.pem'}",
        ],
        "recommender": list(RECOMMENDER),
        "updater": list(UPDATER),
    }
    view.say("Starting the components, three processes that know the cluster by a kubeconfig:")
    for name, flags in components.items():
        address = f"--address=127.0.0.1:{free_port()}"
        running = await processes.start(name, [name, *common, address, *flags])
        view.say(f"    {running.command}")


async def _registered(client: KubeClient) -> bool:
    try:
        await client.get(MUTATING_WEBHOOKS, _WEBHOOK)
    except KubeError:
        return False
    return True


async def _watch(
    settings: Settings,
    client: KubeClient,
    processes: Processes,
    view: View,
    stop: asyncio.Event,
) -> Story:
    """Look at the cluster until the story has ended well and stayed so, or can't any more."""
    story, observer = Story(), Observer(client)
    loop = asyncio.get_running_loop()
    began = loop.time()
    ended_at: float | None = None
    async with asyncio.TaskGroup() as group:
        caches = [group.create_task(cache.run()) for cache in (observer.pods, observer.vpas)]
        await observer.pods.wait_synced()
        await observer.vpas.wait_synced()
        while not stop.is_set():
            processes.check()
            elapsed = loop.time() - began
            story.look(await observer.states())
            view.update(elapsed, story.now, story.progress)
            if story.found_infeasible and not story.lowered:
                await _lower(client, view)
                story.lowered = True
            ended_at = (ended_at or elapsed) if story.ended else None
            settled = ended_at is not None and elapsed - ended_at >= SETTLED_FOR
            if settled or story.spoiled or elapsed > settings.timeout.total_seconds():
                break
            await asyncio.sleep(LOOK_EVERY)
        for cache in caches:
            cache.cancel()
    return story


async def _lower(client: KubeClient, view: View) -> None:
    """Do what an operator would: bound the recommendation by what a node can hold."""
    policy = {"containerName": "*", "maxAllowed": {"cpu": LOWERED_CPU}}
    await client.patch(
        VPAS,
        "toobig",
        {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
    )
    view.say(
        f"toobig's resize is infeasible on its node; lowering maxAllowed to cpu {LOWERED_CPU}."
    )


def _print_summary(story: Story, output: str) -> None:
    saved = savings(story.start, story.now)
    if output == "table":
        start = {chapter.name: WorkloadState() for chapter in CHAPTERS} | story.start
        Console(width=None if sys.stdout.isatty() else 160).print(
            summary(start, story.now, story.progress, saved)
        )
        return
    workloads = {
        name: {
            "before": _amounts(story.start.get(name, WorkloadState())),
            "after": _amounts(state),
            "evictions": state.evictions,
            "resizes": state.resizes,
            "restarts": state.restarts,
            "oomKills": state.oom_kills,
            "reached": story.progress[name].verdict is Verdict.REACHED,
            "note": story.progress[name].note,
        }
        for name, state in story.now.items()
    }
    given_back = {"cpuMillicores": saved.cpu, "memoryBytes": saved.memory}
    print(json.dumps({"workloads": workloads, "givenBack": given_back}, indent=2))


def _amounts(state: WorkloadState) -> dict[str, int | None]:
    """The request of a workload, for JSON."""
    return {"cpuMillicores": state.request.cpu, "memoryBytes": state.request.memory}


async def run(settings: Settings) -> int:
    """Tell the story; returns the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    progress = sys.stderr if settings.output == "json" else sys.stdout
    view: View = LiveTable(Console(file=progress)) if progress.isatty() else PlainLines(progress)
    try:
        story = await tell(settings, view, stop)
    finally:
        view.close()
    _print_summary(story, settings.output)
    if story.ended:
        return 0
    view.say(f"Not every workload reached its end; logs are in {settings.folder / 'logs'}.")
    return 1


def main() -> None:
    """Entry point of ``python -P -m demo``."""
    try:
        settings = read_flags(Settings, sys.argv[1:], program="demo", environ=os.environ)
        code = asyncio.run(run(settings))
    except ConfigError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(2)
    except VpaError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
    except TimeoutError:
        print(f"demo: the cluster was not ready after {START_WITHIN:.0f} s", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)


if __name__ == "__main__":
    main()
