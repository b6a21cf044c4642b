"""The demo's program: it runs a cluster and the three components, and prints a summary."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from common.errors import ConfigError, KubeError, VpaError
from common.flags import read_flags
from common.kube.client import KubeClient, PatchType
from common.kube.config import load
from common.kube.endpoints import MUTATING_WEBHOOKS, VPAS
from demo import audit
from demo.apply import apply
from demo.audit import PodCalls
from demo.observe import NAMESPACE, Observer
from demo.processes import Processes, free_port
from demo.settings import (
    ADMISSION,
    CONTROL_PLANE,
    RECOMMENDER,
    SANDBOX,
    UPDATER,
    Settings,
    cluster_command,
)
from demo.story import CHAPTERS, Amounts, Progress, Verdict, WorkloadState, given_back
from demo.table import LiveTable, PlainLines, View, summary

LOOK_EVERY = 0.5  # seconds
SETTLED_FOR = 10.0  # seconds for which all chapters must remain reached
START_WITHIN = 30.0  # seconds
LOWERED_CPU = "2"  # the maxAllowed that toobig gets
_WEBHOOK = "vpa-webhook-config"
_COMPONENTS = ("admission", "recommender", "updater")
_STARTING = {
    SANDBOX: "Starting a sandbox cluster on loopback.",
    CONTROL_PLANE: "Starting a real control plane on loopback, with simulated nodes.",
}


@dataclass(slots=True)
class Story:
    """The states before the components started, the current states, and the actions so far."""

    start: dict[str, WorkloadState] = field(default_factory=dict)
    now: dict[str, WorkloadState] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    lowered: bool = False
    addresses: dict[str, str] = field(default_factory=dict)  # for curl, by environment variable

    def look(self, states: dict[str, WorkloadState]) -> None:
        """Store the current states and judge them."""
        self.now = states
        self.progress = {
            chapter.name: chapter.judge(
                self.start.get(chapter.name, WorkloadState()), states[chapter.name]
            )
            for chapter in CHAPTERS
        }

    @property
    def complete(self) -> bool:
        """Return whether every workload has all its pods, and all are ready."""
        return all(
            len(self.now[chapter.name].pods) == chapter.replicas and self.now[chapter.name].settled
            for chapter in CHAPTERS
        )

    @property
    def ended(self) -> bool:
        return bool(self.progress) and all(
            judged.verdict is Verdict.REACHED for judged in self.progress.values()
        )

    @property
    def spoiled(self) -> bool:
        return any(judged.verdict is Verdict.SPOILED for judged in self.progress.values())

    @property
    def found_infeasible(self) -> bool:
        """Return whether the infeasible resize was refused, so that the VPA may be lowered."""
        return bool(self.now["toobig"].refused)


async def tell(settings: Settings, view: View, stop: asyncio.Event) -> Story:
    """Run the whole demo, print the summary and return the final story.

    Raises:
        VpaError: a process ended, or the cluster did not answer.
    """
    folder = settings.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    processes = Processes(folder / "logs")
    try:
        async with _cluster(settings, folder, processes, view) as client:
            story = await _watch(settings, client, processes, view, stop)
            view.close()
            if story.start:
                _print_summary(story, settings.output)
            if settings.keep and not stop.is_set():
                exports = {"KUBECONFIG": str(folder / "kubeconfig")} | story.addresses
                told = "".join(f"    export {name}={value}\n" for name, value in exports.items())
                view.say(
                    f"\nThe cluster stays up until Ctrl-C. In another terminal:\n{told}"
                    f"    kubectl --namespace {NAMESPACE} get vpa,pods"
                )
                await stop.wait()
            return story
    finally:
        await processes.stop()


@contextlib.asynccontextmanager
async def _cluster(
    settings: Settings, folder: Path, processes: Processes, view: View
) -> AsyncIterator[KubeClient]:
    """Start a cluster, and create the custom resource definitions and the examples in it."""
    kubeconfig = folder / "kubeconfig"
    view.say(_STARTING[settings.cluster])
    command = cluster_command(settings, kubeconfig=kubeconfig)
    await processes.start(settings.cluster, command)
    async with asyncio.timeout(START_WITHIN):
        while not kubeconfig.exists():
            processes.check()
            await asyncio.sleep(0.05)
    connection = await load(str(kubeconfig))
    async with KubeClient(connection, user_agent="vpa-demo", qps=200, burst=400) as client:
        for folder_of_manifests in ("deploy/crd", "examples"):
            for manifest in sorted((settings.root / folder_of_manifests).glob("*.yaml")):
                created = await apply(client, manifest)
                view.say(f"Applied {folder_of_manifests}/{manifest.name}: {', '.join(created)}")
        yield client


async def _start_components(
    client: KubeClient, folder: Path, processes: Processes, view: View
) -> dict[str, str]:
    """Create certificates, start the three components, and wait for the webhook's registration.

    Return the components' addresses, by the names of environment variables.
    """
    certificates = folder / "certs"
    maker = await processes.start(
        "certs", ["certs", f"--output-dir={certificates}", "--host=127.0.0.1"]
    )
    if await maker.process.wait():
        maker.check()
    processes.running.remove(maker)
    port, ops = free_port(), {name: f"127.0.0.1:{free_port()}" for name in _COMPONENTS}
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
    view.say("Starting three components; each reaches the cluster through a kubeconfig:")
    for name, flags in components.items():
        running = await processes.start(name, [name, *common, f"--address={ops[name]}", *flags])
        view.say(f"    {running.command}")
    async with asyncio.timeout(START_WITHIN):
        while not await _registered(client):
            processes.check()
            await asyncio.sleep(0.1)
    return {
        "WEBHOOK": f"https://127.0.0.1:{port}",
        "CA": str(certificates / "caCert.pem"),
        "OPS": f"http://{ops['admission']}",
        "UPDATER": f"http://{ops['updater']}",
        "RECOMMENDER": f"http://{ops['recommender']}",
    }


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
    """Follow the story until all chapters remain reached, one is spoiled, or time runs out.

    Start the components when the workloads run and the metrics API reports their usage, as in
    an installation into an existing cluster.
    """
    story, observer = Story(), Observer(client, _pod_calls(settings, client))
    async with asyncio.TaskGroup() as group:
        caches = [group.create_task(cache.run()) for cache in (observer.pods, observer.vpas)]
        await observer.pods.wait_synced()
        await observer.vpas.wait_synced()
        async with asyncio.timeout(START_WITHIN):
            await _usage_known(story, observer, processes, stop)
        story.start = story.now
        if not stop.is_set():
            folder = settings.folder.resolve()
            story.addresses = await _start_components(client, folder, processes, view)
        loop = asyncio.get_running_loop()
        began, ended_at = loop.time(), None
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


def _pod_calls(settings: Settings, client: KubeClient) -> PodCalls:
    if settings.cluster == SANDBOX:
        return audit.of_sandbox(client, NAMESPACE)
    return audit.of_control_plane(settings.plane.audit_log, NAMESPACE)


async def _usage_known(
    story: Story, observer: Observer, processes: Processes, stop: asyncio.Event
) -> None:
    """Wait until all pods of the story run and the metrics API reports their usage."""
    pods = sum(chapter.replicas for chapter in CHAPTERS)
    while not stop.is_set():
        processes.check()
        story.look(await observer.states())
        if story.complete and await observer.has_usage(pods):
            return
        await asyncio.sleep(LOOK_EVERY)


async def _lower(client: KubeClient, view: View) -> None:
    """Limit the recommendation to the size of a node, as an operator would."""
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
    if output == "table":
        Console().print(summary(story.start, story.now, story.progress))
        return
    workloads = {
        name: {
            "before": _amounts(story.start[name].request),
            "after": _amounts(state.request),
            "evictions": state.evictions,
            "resizes": state.resizes,
            "restarts": state.restarts,
            "oomKills": state.oom_kills,
            "reached": story.progress[name].verdict is Verdict.REACHED,
            "note": story.progress[name].note,
        }
        for name, state in story.now.items()
    }
    freed, added = given_back(story.start, story.now)
    totals = {"givenBack": _amounts(freed), "givenToOthers": _amounts(added)}
    print(json.dumps({"workloads": workloads, **totals}, indent=2))


def _amounts(amounts: Amounts) -> dict[str, int | None]:
    return {"cpuMillicores": amounts.cpu, "memoryBytes": amounts.memory}


async def run(settings: Settings) -> int:
    """Run the demo and return the exit code."""
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
    if story.ended:
        return 0
    if not story.start:
        view.say("Stopped before the components started.")
        return 1
    view.say(f"Not every workload reached its goal; logs are in {settings.folder / 'logs'}.")
    return 1


def main() -> None:
    """Run ``python -P -m demo``."""
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
