"""One pod on one node, from admission to deletion.

A state machine without I/O. :meth:`PodRun.advance` does what is due at ``now``, and
:meth:`PodRun.due` returns the next due time. Events are collected in ``notices``;
``sandbox.kubelet.status`` computes the status from the state.
"""

import enum
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from common.api.core import ResourceRequirements
from sandbox.kubelet.allocation import Refusal
from sandbox.kubelet.conditions import ResizeCondition
from sandbox.kubelet.containers import Container, Kind
from sandbox.kubelet.faults import NO_FAULTS, Faults, faults_of
from sandbox.kubelet.loads import UsageRule, load_of
from sandbox.kubelet.pod_resources import (
    NOTHING,
    WHOLE_POD,
    Totals,
    desired,
    memory_limit,
    occupied,
)
from sandbox.kubelet.timing import Timing
from sandbox.kubelet.usage import Moment
from sandbox.kubelet.wire import NO_RESOURCES, ContainerSpec, RunnablePod
from sandbox.objects.pod_resources import qos_class

_OOM_EXIT = 137
_SIGTERM_EXIT = 143


class Phase(enum.StrEnum):
    """``status.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The settings that all pods of a simulation share."""

    minor: int  # of the kubelets: 36 is 1.36
    timing: Timing
    usage: Sequence[UsageRule] = ()
    images: Collection[str] = ()  # of containers that run as processes of this machine
    pullable: Collection[str] | None = None  # images with their tags; None: the node isn't strict

    def is_local(self, spec: ContainerSpec) -> bool:
        """Return True if a container isn't simulated: it is a process, or has no image to run."""
        return spec.image_name in self.images or not self.can_pull(spec)

    def can_pull(self, spec: ContainerSpec) -> bool:
        return self.pullable is None or spec.image in self.pullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An Event to record."""

    reason: str
    message: str
    warning: bool = False
    container: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class PodRun:
    """A pod with the state of its kubelet, including the four states of its resources.

    Desired is in ``object.spec``; ``allocated`` is granted by the node, ``actuated`` is passed to
    the runtime; actual equals actuated here.
    """

    object: RunnablePod
    simulation: Simulation
    faults: Faults = NO_FAULTS
    phase: Phase = Phase.PENDING
    ip: str = ""
    started: datetime | None = None  # when the kubelet first saw it
    refusal: Refusal | None = None  # why the node rejected it
    starts_at: datetime | None = None  # None after everything has been started
    held: bool = False  # the start waits for an observation of a process
    ends_at: datetime | None = None  # of a pod that is being deleted
    ended: bool = False  # the API object can be deleted
    containers: dict[str, Container] = field(default_factory=dict)
    allocated: dict[str, ResourceRequirements] = field(default_factory=dict)
    actuated: dict[str, ResourceRequirements] = field(default_factory=dict)
    pending: ResizeCondition | None = None
    in_progress: ResizeCondition | None = None
    actuate_at: datetime | None = None
    occupied: Totals = NOTHING  # requests at allocated values
    qos: str = ""
    conditions: dict[str, tuple[str, datetime]] = field(default_factory=dict)  # status, since
    written_resizes: set[str] = field(default_factory=set)  # resize conditions that were written
    notices: list[Notice] = field(default_factory=list)
    released: bool = False  # something was freed: deferred resizes may fit now

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def generation(self) -> int:
        return self.object.metadata.generation

    @property
    def deleting(self) -> bool:
        return self.object.metadata.deletion_timestamp is not None

    @property
    def occupies(self) -> bool:
        """True if it counts on its node."""
        return not self.phase.is_terminal and not self.ended

    @property
    def desired(self) -> dict[str, ResourceRequirements]:
        return desired(self.object.spec, minor=self.simulation.minor)

    @property
    def mains(self) -> list[Container]:
        return [one for one in self.containers.values() if one.kind is Kind.MAIN]

    @property
    def is_local(self) -> bool:
        """True if a container is a process of this machine."""
        return any(one.local for one in self.containers.values())

    @property
    def is_observed(self) -> bool:
        """True if its start waits for volumes and variables, as every start on a strict node."""
        return self.is_local or self.simulation.pullable is not None

    def moment(self, container: Container, now: datetime) -> Moment:
        """Return the time and the container's age, for a usage model."""
        meta = self.object.metadata
        return Moment(
            now=now.timestamp(),
            age=(now - (container.started or now)) / timedelta(seconds=1),
            run=container.restarts,
            replica=f"{meta.namespace}/{meta.name}/{container.name}",
        )

    def memory_demand(self, container: Container, now: datetime) -> int:
        return int(container.load.memory.at(self.moment(container, now)))

    def resources_of(self, container: Container) -> ResourceRequirements:
        """Return actual resources: those of the runtime, or of the next start."""
        chosen = self.actuated if container.running else self.allocated
        return chosen.get(container.name, NO_RESOURCES)

    def notice(
        self, reason: str, message: str, *, warning: bool = False, container: str = ""
    ) -> None:
        self.notices.append(
            Notice(reason=reason, message=message, warning=warning, container=container)
        )

    def observe(self, pod: RunnablePod) -> None:
        """Update the object."""
        self.object = pod
        self.faults = faults_of(pod)
        load = load_of(pod, self.simulation.usage)
        for kind, spec in _container_specs(pod):
            known = self.containers.get(spec.name)
            if known is None:
                local = self.simulation.is_local(spec)
                self.containers[spec.name] = Container(spec=spec, kind=kind, load=load, local=local)
            else:
                known.spec, known.load = spec, load

    def admit(self, now: datetime, refusal: Refusal | None, *, ip: str) -> None:
        """Apply the node's decision. An admitted pod gets resources and an address, and starts."""
        self.started = now
        self.qos = str(qos_class({"spec": msgspec.to_builtins(self.object.spec)}))
        self.refusal = refusal
        if refusal is not None:
            self.phase = Phase.FAILED
            self.notice(refusal.reason, refusal.message, warning=True)
            return
        self.allocate(
            {**{name: one.spec.wanted for name, one in self.containers.items()}, **self.desired}
        )
        self.ip = ip
        self.held = self.is_observed
        delay = _either(self.faults.start_delay, self.simulation.timing.start_delay)
        self.starts_at = now + timedelta(seconds=delay)

    def allocate(self, resources: dict[str, ResourceRequirements]) -> None:
        """Grant resources; they count on the node from now on."""
        self.allocated = resources
        self.update_occupied()

    def update_occupied(self) -> None:
        """Update what it counts on its node. A lowered allocation counts after actuation."""
        running = {one.name: self.resources_of(one) for one in self.containers.values()}
        if WHOLE_POD in self.actuated:
            running[WHOLE_POD] = self.actuated[WHOLE_POD]
        self.occupied = occupied(self.object.spec, self.allocated, running)

    def advance(self, now: datetime) -> None:
        """Do what is due, except for resizes, which ``sandbox.kubelet.resizing`` does."""
        if self.deleting:
            self._terminate(now)
            return
        if self.phase.is_terminal:
            return
        self._start(now)
        for container in self.containers.values():
            due = container.restart_at is not None and container.restart_at <= now
            if due and not self.hold_back(container):
                container.start_again()
                self._run(container, now)

    def due(self, now: datetime) -> datetime | None:
        """Return the next time at which ``advance`` has something to do; None without timers."""
        if self.ended or (self.phase.is_terminal and not self.deleting):
            return None
        return min(self._plans(now), default=None)

    def _plans(self, now: datetime) -> Iterator[datetime]:
        if self.deleting:
            plans = [None if self._processes else self.ends_at]
        else:
            plans = [None if self.held else self.starts_at, self.actuate_at]
        for container in self.containers.values():
            if not self.deleting:
                plans += [container.exit_at, container.restart_at]
            if container.running and container.ready_at is not None and container.ready_at > now:
                plans.append(container.ready_at)
        return (plan for plan in plans if plan is not None)

    def _start(self, now: datetime) -> None:
        """Start init containers one after the other, including sidecars, then all others."""
        if self.starts_at is None or self.starts_at > now or self.held:
            return
        late = False
        for container in self.containers.values():
            if container.kind is Kind.INIT and container.ended is None:
                if not container.running:
                    if self._starts_later(container):
                        return
                    self._run(container, now)
                    if container.local:
                        self.held = True
                        return
                    delay = timedelta(seconds=self.simulation.timing.init_delay)
                    container.exit_at = now + delay
                if container.exit_at is None or container.exit_at > now:
                    self.starts_at = container.exit_at
                    return
                container.end(now, exit_code=0)
            elif not container.container_id and container.kind is not Kind.INIT:
                if not self._starts_later(container):
                    self._run(container, now)
                elif container.kind is Kind.SIDECAR:
                    return
                else:
                    late = True
        if late:
            return
        self.starts_at = None
        self.phase = Phase.RUNNING

    def _starts_later(self, container: Container) -> bool:
        """Return True if the start of the pod must wait for a container's image or variables."""
        if not self.hold_back(container):
            return False
        self.held = True
        return True

    def hold_back(self, container: Container) -> bool:
        """Return True if a container can't be created now. It then waits with a reason."""
        if container.problem and container.hold_back():
            text = f"Error: {container.problem[1]}"
            self.notice("Failed", text, warning=True, container=container.name)
        return container.problem is not None

    def _run(self, container: Container, now: datetime) -> None:
        probe = container.spec.readiness_probe
        usual = self.simulation.timing.ready_delay
        if probe is not None:
            usual += probe.initial_delay_seconds
        main = container.kind is Kind.MAIN
        container.run(
            now,
            pod_uid=self.uid,
            ready_after=_either(self.faults.ready_delay, usual) if main else usual,
        )
        self.actuated[container.name] = self.allocated.get(container.name, NO_RESOURCES)
        if WHOLE_POD in self.allocated:
            self.actuated.setdefault(WHOLE_POD, self.allocated[WHOLE_POD])
        self.notice("Started", f"Started container {container.name}", container=container.name)

    def end(
        self,
        container: Container,
        now: datetime,
        *,
        exit_code: int,
        reason: str = "",
        at_once: bool = False,
    ) -> None:
        """End a container. It runs again by its restart policy, or if ``at_once``."""
        container.end(now, exit_code=exit_code, reason=reason)
        meta = self.object.metadata
        if at_once or self.runs_again(container, exit_code):
            pod = f"{meta.name}_{meta.namespace}({meta.uid})"
            if container.restart_later(self.simulation.timing, pod=pod, at_once=at_once):
                message = f"Back-off restarting failed container {container.name} in pod {pod}"
                self.notice("BackOff", message, warning=True, container=container.name)
            return
        codes = [one.ended.exit_code if one.ended else None for one in self.mains]
        if None not in codes:
            self.finish(Phase.FAILED if any(codes) else Phase.SUCCEEDED)

    def runs_again(self, container: Container, exit_code: int) -> bool:
        """Return True if the restart policy restarts a container with this exit code."""
        policy = self.object.spec.restart_policy
        again = policy == "Always" or (policy == "OnFailure" and exit_code != 0)
        return again or container.kind is Kind.SIDECAR

    @property
    def _processes(self) -> bool:
        """True while processes run. The end of the pod waits for theirs."""
        return any(one.local and one.running for one in self.containers.values())

    def finish(self, phase: Phase) -> None:
        """Set the final phase. No container runs or will run."""
        self.phase = phase
        self.pending = self.in_progress = self.actuate_at = None
        self.released = True

    def enforce_memory_limits(self, now: datetime, *, node_memory: int) -> bool:
        """Kill containers that exceed their memory limit; return True if one was killed.

        A container without a limit may use the memory of the node, ``node_memory`` bytes.
        """
        if self.deleting or self.phase is not Phase.RUNNING:
            return False
        died = False
        for container in self.containers.values():
            own = memory_limit(self.resources_of(container))
            limit = node_memory if own is None else own
            if not container.running or container.load.memory.peak <= limit:
                continue
            if self.memory_demand(container, now) > limit:
                bound = "the memory of its node," if own is None else "its memory limit of"
                message = f"Container {container.name} exceeded {bound} {limit} bytes"
                self.notice("OOMKilling", message, warning=True, container=container.name)
                self.end(container, now, exit_code=_OOM_EXIT, reason="OOMKilled")
                died = True
        return died

    def _terminate(self, now: datetime) -> None:
        """Terminate the containers within the grace period."""
        if self.ends_at is None:
            grace = self.object.metadata.deletion_grace_period_seconds
            delay = _either(self.faults.stop_delay, self.simulation.timing.stop_delay)
            delay = 0 if self.is_local else min(delay, 30 if grace is None else grace)
            self.ends_at = now + timedelta(seconds=delay)
            for container in self.containers.values():
                if container.running:
                    message = f"Stopping container {container.name}"
                    self.notice("Killing", message, container=container.name)
        if self.ends_at > now:
            return
        for container in self.containers.values():
            if container.running and not container.local:
                container.end(now, exit_code=_SIGTERM_EXIT)
        if self._processes:
            return
        self.ends_at = None
        self.finish(Phase.FAILED if self.phase is Phase.RUNNING else self.phase)
        self.ended = True


def _container_specs(pod: RunnablePod) -> Iterator[tuple[Kind, ContainerSpec]]:
    for spec in pod.spec.init_containers or ():
        yield (Kind.SIDECAR if spec.is_sidecar else Kind.INIT), spec
    for spec in pod.spec.containers:
        yield Kind.MAIN, spec


def _either(chosen: float | None, usual: float) -> float:
    return usual if chosen is None else chosen
