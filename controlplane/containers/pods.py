"""Runs the processes of pods: the I/O around the state machine."""

import asyncio
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from common.errors import KubeError
from common.kube.client import KubeClient
from common.runtime.clock import Clock
from controlplane.containers import logs, observations
from controlplane.containers.command import argv
from controlplane.containers.folders import inside
from controlplane.containers.observations import ProbeKind
from controlplane.containers.probes import run_probes
from controlplane.containers.process import Command, Process
from controlplane.containers.site import LOOPBACK, Place, Site
from controlplane.containers.sources import Data, Reference, Sources
from controlplane.containers.variables import VariableError, environment, references
from controlplane.containers.volumes import TOKEN_FOLDER, VolumeError, Volumes
from controlplane.launch import CANNOT_RUN
from sandbox.kubeconfigs import kubeconfig_text
from sandbox.kubelet.addresses import Addresses
from sandbox.kubelet.containers import CONFIG_ERROR, IMAGE_ERROR, Container, Waiting
from sandbox.kubelet.pod_lifecycle import PodRun
from sandbox.kubelet.service import Observation, OnObservation
from sandbox.kubelet.wire import ContainerSpec, RunnablePod

logger = logging.getLogger(__name__)

_REFRESH = 1.0  # seconds between two reads of Secrets, ConfigMaps and tokens
_USUAL_GRACE = 30


class LocalPods:
    """The processes of all pods; ``close`` kills the remaining ones."""

    def __init__(
        self,
        site: Site,
        client: KubeClient,
        clock: Clock,
        *,
        images: Mapping[str, Sequence[str]],
        can_pull: Callable[[ContainerSpec], bool] = lambda _spec: True,
    ) -> None:
        self._images = images
        self._can_pull = can_pull
        self._report: OnObservation = _unreported
        self.addresses = Addresses(site.network)
        self._site = site
        self._client = client
        self._clock = clock
        self._pods: dict[str, _LocalPod] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def report_to(self, report: OnObservation) -> None:
        """Set the function that receives each observation."""
        self._report = report

    def follow(self, pod: PodRun) -> None:
        """Start and stop processes to match the state of the pod."""
        local = self._pods.get(pod.uid)
        if local is None:
            if pod.refusal is not None or pod.ended or not pod.ip or pod.phase.is_terminal:
                return
            local = self._pods[pod.uid] = _LocalPod(
                pod,
                site=self._site,
                client=self._client,
                clock=self._clock,
                images=self._images,
                can_pull=self._can_pull,
                report=self._report,
            )
            self._spawn(local.keep_up())
        for container in pod.containers.values():
            if container.local:
                task = local.follow(pod, container)
                if task is not None:
                    self._spawn(task)

    def forget(self, uid: str) -> None:
        """Kill the remaining processes of a deleted pod, and remove its volumes."""
        local = self._pods.pop(uid, None)
        if local is not None:
            local.close()
            self._spawn(local.remove())

    def log(self, uid: str, container: str, restarts: int) -> Path:
        """Return the path of the log of one run; the file may be missing."""
        return _log(self._site.folder, uid, container, restarts)

    def is_over(self, log: Path) -> bool:
        """Return True if the run that writes this log has ended."""
        return not any(local.writes(log) for local in self._pods.values())

    async def close(self) -> None:
        """Kill all processes, and wait until they have ended."""
        for local in self._pods.values():
            local.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a container's task failed", exc_info=task.exception())


def _unreported(uid: str, observation: Observation) -> None:
    raise RuntimeError(f"no kubelet follows pod {uid}: {observation!r}")


class _Run:
    """One run of a container, from its plan to its exit."""

    def __init__(self, container_id: str, log: Path, process: Process) -> None:
        self.container_id = container_id
        self.log = log
        self.process = process
        self.over = asyncio.Event()


class _LocalPod:
    def __init__(
        self,
        pod: PodRun,
        *,
        site: Site,
        client: KubeClient,
        clock: Clock,
        images: Mapping[str, Sequence[str]],
        can_pull: Callable[[ContainerSpec], bool],
        report: OnObservation,
    ) -> None:
        self._uid = pod.uid
        self._folder = site.folder / "pods" / pod.uid
        self._site = site
        self._images = images
        self._can_pull = can_pull
        self._clock = clock
        self._report = partial(report, pod.uid)
        self._place = Place(kubeconfig=self._folder, root=self._folder, ip=pod.ip, host_ip=LOOPBACK)
        self._sources = Sources(client=client, namespace=pod.object.metadata.namespace)
        self._volumes = Volumes(
            pod=pod.object,
            place=self._place,
            folder=self._folder / "volumes",
            client=client,
            clock=clock,
            sources=self._sources,
        )
        self._variables: dict[str, dict[str, str]] = {}  # by container
        self._problems: dict[str, Waiting | None] = {}  # by container
        self._runs: dict[str, _Run] = {}
        self._ready = asyncio.Event()  # the volumes are written
        self._over = asyncio.Event()

    async def keep_up(self) -> None:
        """Write the volumes and read the variables periodically until the pod is gone."""
        problem = ""
        while not self._over.is_set():
            try:
                await self._volumes.write()
                await self._read_variables()
            except (VolumeError, KubeError) as error:
                if str(error) != problem:
                    problem = str(error)
                    self._report(partial(observations.unprepared, problem=problem))
            else:
                problem = ""
                if not self._ready.is_set():
                    self._ready.set()
                    self._report(observations.prepared)
            try:
                async with asyncio.timeout(_REFRESH):
                    await self._over.wait()
            except TimeoutError:
                continue

    async def _read_variables(self) -> None:
        """Read the sources of variables. A container with a missing source waits."""
        pod = self._volumes.pod
        specs = (*(pod.spec.init_containers or ()), *pod.spec.containers)
        objects: dict[Reference, Data | None] = {}
        for spec in specs:
            for reference in references(spec):
                if reference not in objects:
                    objects[reference] = await self._sources.find(reference)
            problem: Waiting | None = None
            try:
                self._variables[spec.name] = environment(pod, spec, self._place, objects)
            except VariableError as error:
                problem = (CONFIG_ERROR, str(error))
            if not self._can_pull(spec):
                problem = (IMAGE_ERROR, f'Back-off pulling image "{spec.image}"')
            if problem != self._problems.get(spec.name):
                self._problems[spec.name] = problem
                self._report(partial(observations.configured, name=spec.name, problem=problem))

    def follow(self, pod: PodRun, container: Container) -> "asyncio._CoroutineLike[None] | None":
        """Make a container's process match the state machine. Return a task to start, if any."""
        self._volumes.pod = pod.object
        run = self._runs.get(container.name)
        wanted = container.container_id if container.running else ""
        if run is not None and (
            run.container_id != wanted
            or container.stopping
            or pod.deleting
            or pod.phase.is_terminal
        ):
            run.process.stop(_grace(pod, container), after=_pre_stop(container.spec))
        if not wanted or (run is not None and run.container_id == wanted) or pod.deleting:
            return None
        log = _log(self._site.folder, self._uid, container.name, container.restarts)
        new = self._runs[container.name] = _Run(wanted, log, Process(self._clock))
        return self._run(new, pod.object, container.spec, before=run)

    def writes(self, log: Path) -> bool:
        """Return True if a run that isn't over writes this log."""
        return any(run.log == log and not run.over.is_set() for run in self._runs.values())

    async def _run(
        self,
        run: _Run,
        pod: RunnablePod,
        container: ContainerSpec,
        *,
        before: _Run | None,
    ) -> None:
        exited = partial(observations.exited, name=container.name, container_id=run.container_id)
        try:
            if before is not None:
                await before.over.wait()
            await self._ready.wait()
            env = self._variables[container.name]
            command = await asyncio.to_thread(self._command, pod, container, run.log, env)
            code = await run.process.run(
                command, beside=lambda: self._probe(container, run.container_id)
            )
        except OSError as error:
            run.log.parent.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(logs.complain, run.log, str(error), self._clock)
            self._report(partial(exited, exit_code=CANNOT_RUN, reason="StartError"))
        else:
            self._report(partial(exited, exit_code=code))
        finally:
            run.over.set()

    def _command(
        self, pod: RunnablePod, container: ContainerSpec, log: Path, env: dict[str, str]
    ) -> Command:
        folder = self._folder / "containers" / container.name
        root = folder / "root"
        token = ""
        for mount in container.volume_mounts or ():
            target = inside(root, mount.mount_path)
            source = self._volumes.path(mount.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                target.symlink_to(source / mount.sub_path if mount.sub_path else source)
            if mount.mount_path.rstrip("/") == TOKEN_FOLDER:
                token = str(target / "token")
        root.mkdir(parents=True, exist_ok=True)
        kubeconfig = folder / "kubeconfig"
        user = {"tokenFile": token} if token else {}
        text = kubeconfig_text(self._site.server, self._site.authority, user)
        kubeconfig.write_text(text, encoding="utf-8")
        place = Place(
            kubeconfig=kubeconfig, root=root, ip=self._place.ip, host_ip=self._place.host_ip
        )
        log.parent.mkdir(parents=True, exist_ok=True)
        words = self._images[container.image_name]
        return Command(argv=argv(words, pod, container, place, env), env=env, folder=root, log=log)

    async def _probe(self, container: ContainerSpec, container_id: str) -> None:
        def report(kind: ProbeKind, success: bool, message: str) -> None:  # noqa: FBT001 - a Report
            self._report(
                partial(
                    observations.probed,
                    name=container.name,
                    container_id=container_id,
                    kind=kind,
                    success=success,
                    message=message,
                )
            )

        await run_probes(container, self._place.ip, report)

    def close(self) -> None:
        """Kill the remaining processes."""
        self._over.set()
        for run in self._runs.values():
            run.process.kill()

    async def remove(self) -> None:
        """Remove all files except for logs."""
        for run in list(self._runs.values()):
            await run.over.wait()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _grace(pod: PodRun, container: Container) -> float:
    """Return the seconds between SIGTERM and SIGKILL."""
    if container.ended is not None and container.ended.reason == "OOMKilled":
        return 0
    meta, spec = pod.object.metadata, pod.object.spec
    if pod.deleting and meta.deletion_grace_period_seconds is not None:
        return meta.deletion_grace_period_seconds
    usual = spec.termination_grace_period_seconds
    return _USUAL_GRACE if usual is None else usual


def _pre_stop(container: ContainerSpec) -> float:
    """Return the seconds that a container sleeps before SIGTERM."""
    hook = container.lifecycle and container.lifecycle.pre_stop
    return hook.sleep.seconds if hook and hook.sleep else 0


def _log(folder: Path, uid: str, container: str, restarts: int) -> Path:
    return folder / "logs" / uid / container / f"{restarts}.log"
