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
from demo.table import LiveTable, PlainLines, View, summary
from demo.workloads import WORKLOADS, Amounts, Progress, Verdict, WorkloadState, given_back

POLL_SECONDS = 0.5  # seconds
SETTLED_FOR = 10.0  # seconds for which all workloads must keep their expected state
START_WITHIN = 30.0  # seconds
LOWERED_CPU = "2"  # the maxAllowed that toobig gets
_WEBHOOK = "vpa-webhook-config"
_COMPONENTS = ("admission", "recommender", "updater")
_STARTING = {
    SANDBOX: "Starting a sandbox cluster on loopback.",
    CONTROL_PLANE: "Starting a real control plane on loopback, with simulated nodes.",
}


@dataclass(slots=True)
class DemoRun:
    """The states before the components started, the current states, and the actions so far."""

    start: dict[str, WorkloadState] = field(default_factory=dict)
    now: dict[str, WorkloadState] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    lowered: bool = False
    addresses: dict[str, str] = field(default_factory=dict)  # for curl, by environment variable

    def update(self, states: dict[str, WorkloadState]) -> None:
        """Store the current states and judge them."""
        self.now = states
        self.progress = {
            workload.name: workload.judge(
                self.start.get(workload.name, WorkloadState()), states[workload.name]
            )
            for workload in WORKLOADS
        }

    @property
    def complete(self) -> bool:
        """Return whether every workload has all its pods, and all are ready."""
        pairs = ((workload.replicas, self.now[workload.name]) for workload in WORKLOADS)
        return all(len(state.pods) == replicas and state.settled for replicas, state in pairs)

    @property
    def ended(self) -> bool:
        return bool(self.progress) and all(
            judged.verdict is Verdict.REACHED for judged in self.progress.values()
        )

    @property
    def failed(self) -> bool:
        return any(judged.verdict is Verdict.FAILED for judged in self.progress.values())

    @property
    def found_infeasible(self) -> bool:
        """Return whether the infeasible resize was refused, so that the VPA may be lowered."""
        return bool(self.now["toobig"].refused)


async def run_demo(settings: Settings, view: View, stop: asyncio.Event) -> DemoRun:
    """Run the whole demo, print the summary and return the final state.

    Raises:
        VpaError: a process ended, or the cluster did not answer.
    """
    folder = settings.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    processes = Processes(folder / "logs")
    try:
        async with _cluster(settings, folder, processes, view) as client:
            demo_run = await _watch(settings, client, processes, view, stop)
            view.close()
            if demo_run.start:
                _print_summary(demo_run, settings.output)
            if settings.keep and not stop.is_set():
                exports = {"KUBECONFIG": str(folder / "kubeconfig")} | demo_run.addresses
                lines = "".join(f"    export {name}={value}\n" for name, value in exports.items())
                plugin = f'PATH="{Path(sys.executable).parent}:$PATH" kubectl vpa'
                view.say(
                    f"\nThe cluster stays up until Ctrl-C. In another terminal:\n{lines}"
                    f"    {plugin} status --namespace {NAMESPACE}\n"
                    f"    kubectl --namespace {NAMESPACE} get vpa,pods"
                )
                await stop.wait()
            return demo_run
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
        for pattern in ("deploy/crd/vertical*.yaml", "examples/*.yaml"):
            for manifest in sorted(settings.root.glob(pattern)):
                created = await apply(client, manifest)
                view.say(f"Applied {manifest.relative_to(settings.root)}: {', '.join(created)}")
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
) -> DemoRun:
    """Follow the demo until all workloads keep their expected state, one failed, or time runs out.

    Start the components when the workloads run and the metrics API reports their usage, as in
    an installation into an existing cluster.
    """
    demo_run, observer = DemoRun(), Observer(client, _pod_calls(settings, client))
    async with asyncio.TaskGroup() as group:
        caches = [group.create_task(cache.run()) for cache in (observer.pods, observer.vpas)]
        await observer.pods.wait_synced()
        await observer.vpas.wait_synced()
        async with asyncio.timeout(START_WITHIN):
            await _usage_available(demo_run, observer, processes, stop)
        demo_run.start = demo_run.now
        if not stop.is_set():
            folder = settings.folder.resolve()
            demo_run.addresses = await _start_components(client, folder, processes, view)
        loop = asyncio.get_running_loop()
        began, ended_at = loop.time(), None
        while not stop.is_set():
            processes.check()
            elapsed = loop.time() - began
            demo_run.update(await observer.states())
            view.update(elapsed, demo_run.now, demo_run.progress)
            if demo_run.found_infeasible and not demo_run.lowered:
                await _lower(client, view)
                demo_run.lowered = True
            ended_at = (ended_at or elapsed) if demo_run.ended else None
            settled = ended_at is not None and elapsed - ended_at >= SETTLED_FOR
            if settled or demo_run.failed or elapsed > settings.timeout.total_seconds():
                break
            await asyncio.sleep(POLL_SECONDS)
        for cache in caches:
            cache.cancel()
    return demo_run


def _pod_calls(settings: Settings, client: KubeClient) -> PodCalls:
    if settings.cluster == SANDBOX:
        return audit.of_sandbox(client, NAMESPACE)
    return audit.of_control_plane(settings.plane.audit_log, NAMESPACE)


async def _usage_available(
    demo_run: DemoRun, observer: Observer, processes: Processes, stop: asyncio.Event
) -> None:
    """Wait until all pods of the demo run and the metrics API reports their usage."""
    pods = sum(workload.replicas for workload in WORKLOADS)
    while not stop.is_set():
        processes.check()
        demo_run.update(await observer.states())
        if demo_run.complete and await observer.has_usage(pods):
            return
        await asyncio.sleep(POLL_SECONDS)


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


def _print_summary(demo_run: DemoRun, output: str) -> None:
    if output == "table":
        Console().print(summary(demo_run.start, demo_run.now, demo_run.progress))
        return
    workloads = {
        name: {
            "before": _amounts(demo_run.start[name].request),
            "after": _amounts(state.request),
            "evictions": state.evictions,
            "resizes": state.resizes,
            "restarts": state.restarts,
            "oomKills": state.oom_kills,
            "reached": demo_run.progress[name].verdict is Verdict.REACHED,
            "note": demo_run.progress[name].note,
        }
        for name, state in demo_run.now.items()
    }
    freed, added = given_back(demo_run.start, demo_run.now)
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
        demo_run = await run_demo(settings, view, stop)
    finally:
        view.close()
    if demo_run.ended:
        return 0
    if not demo_run.start:
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
