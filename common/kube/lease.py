"""Leases: admission's status for the updater, and the election of a leader among replicas.

Source: kubernetes-resize.md 9, admission.md 10, updater.md 3; client-go leaderelection.go.
"""

import asyncio
import contextlib
import enum
import logging
import math
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from common.api.coordination import Lease
from common.errors import (
    ConfigError,
    ConflictError,
    DecodeError,
    KubeError,
    LeadershipLostError,
    NotFoundError,
    NotLeadingError,
)
from common.kube.client import KubeClient
from common.kube.endpoints import LEASES
from common.runtime.clock import Clock
from common.runtime.settings import LeaderElectionSettings

logger = logging.getLogger(__name__)

_DICTS = LEASES.as_dicts()
_RELEASE_SECONDS = 1.0
_LOCK = "leases"  # the one kind of lock that Kubernetes' own clients still know


def micro_time(moment: datetime) -> str:
    """``2026-01-02T15:04:05.000000Z``: always six digits, or the API server answers 400."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class AdmissionStatus(enum.StrEnum):
    """What the status lease says about the admission controller."""

    ALIVE = "alive"
    STALE = "stale"
    MISSING = "missing"
    UNREADABLE = "unreadable"  # the API server refused, or didn't answer

    @property
    def allows_eviction(self) -> bool:
        return self is AdmissionStatus.ALIVE


def is_alive(lease: Lease, *, max_age: timedelta, now: datetime) -> bool:
    """Return whether the lease was made, or renewed, less than ``max_age`` ago.

    Its holder and its own duration don't matter.

    Source: updater.md 3; ``isLeaseValid``, vertical-pod-autoscaler/pkg/utils/status.
    """
    times = (lease.metadata.creation_timestamp, lease.spec.renew_time)
    return any(moment is not None and moment + max_age > now for moment in times)


class StatusLease:
    """The Lease by which the admission controller shows that it runs.

    All of its replicas write the same one; the updater reads it before it evicts.
    """

    def __init__(self, client: KubeClient, *, namespace: str, name: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock

    async def read(self, *, max_age: timedelta) -> AdmissionStatus:
        """Look once; ``max_age`` is what the updater takes for a sign of life.

        The client tries a failing read again a few times.
        """
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFoundError:
            return AdmissionStatus.MISSING
        except (KubeError, DecodeError) as error:
            logger.warning("status lease not read", extra={"error": str(error)})
            return AdmissionStatus.UNREADABLE
        alive = is_alive(lease, max_age=max_age, now=self._clock.now())
        return AdmissionStatus.ALIVE if alive else AdmissionStatus.STALE

    async def write(self, holder: str, *, interval: timedelta) -> None:
        """Create the lease, or renew it; that another replica was faster is fine.

        Raises:
            KubeError: the API server refused, or didn't answer.
        """
        try:
            lease = await self._client.get(_DICTS, self._name, namespace=self._namespace)
        except NotFoundError:
            spec: dict[str, Any] = {
                "holderIdentity": holder,
                "leaseDurationSeconds": max(1, round(interval.total_seconds())),
            }
            with contextlib.suppress(ConflictError):
                await self._client.create(
                    _DICTS,
                    {
                        "metadata": {"name": self._name, "namespace": self._namespace},
                        "spec": spec,
                    },
                    namespace=self._namespace,
                )
            return
        spec = {
            **(lease.get("spec") or {}),
            "holderIdentity": holder,
            "renewTime": micro_time(self._clock.now()),
        }
        with contextlib.suppress(ConflictError):
            await self._client.replace(
                _DICTS, self._name, {**lease, "spec": spec}, namespace=self._namespace
            )

    async def keep(
        self, holder: str, *, interval: timedelta, deserved: Callable[[], Awaitable[bool]]
    ) -> None:
        """Write every ``interval``, the first time after one; failures are logged.

        ``deserved`` is called before each write. While it returns False nothing is written, and
        the Lease grows old.
        """
        seconds = interval.total_seconds()
        failing = False
        while True:
            await asyncio.sleep(seconds)
            if not await deserved():
                continue
            try:
                async with asyncio.timeout(seconds):
                    await self.write(holder, interval=interval)
            except (KubeError, DecodeError, TimeoutError) as error:
                if not failing:
                    text = str(error) or "no answer in time"
                    logger.warning("status lease not written", extra={"error": text})
                failing = True
            else:
                if failing:
                    logger.info("status lease written again")
                failing = False


class LeaderElection:
    """Lets one replica act; ``run`` is an endless background task.

    A holder is believed for its lease's duration since we last saw the record change, by our
    own clock: the times in the record aren't compared, so that clocks may differ. A process that
    can't renew within the deadline ends before the others take over. A process that is stopped
    can't end in time, so ``check`` is called just before each write: a process leads no longer than
    the lease's duration from the start of its last renewal (X120).

    It has more attributes than other classes: eight are arguments, and the others are one state
    machine (what we hold, and what we have seen of others) that would only be harder to follow
    in two places.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration: timedelta,
        renew_deadline: timedelta,
        retry_period: timedelta,
        clock: Clock,
    ) -> None:
        """Raises ConfigError unless duration > deadline > 1.2 retry periods > 0."""
        if not timedelta() < retry_period * 1.2 < renew_deadline < lease_duration:
            raise ConfigError(
                "leader election needs lease duration > renew deadline > 1.2 * retry period > 0"
            )
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._name = name
        self._duration = lease_duration.total_seconds()
        self._deadline = renew_deadline.total_seconds()
        self._retry = retry_period.total_seconds()
        self._clock = clock
        self._acquired = asyncio.Event()
        self._renewed = -math.inf  # the event loop's time at which the last good write began
        self._held: dict[str, Any] | None = None  # the lease as we wrote it last
        self._unanswered = False  # a write of it may have arrived
        self._seen: Any = None  # spec of another's lease, as last seen
        self._seen_at = -math.inf  # the event loop's time at which it changed
        self._holder = ""

    @property
    def leading(self) -> bool:
        """Return whether no other replica can have the lease.

        Others count from when they saw our last renewal, which is not before it began. The event
        loop's time goes on while the process is stopped.
        """
        return asyncio.get_running_loop().time() < self._renewed + self._duration

    def check(self) -> None:
        """Check the lease just before a write is sent.

        Raises:
            NotLeadingError: it may have run out.
        """
        if not self.leading:
            raise NotLeadingError(
                f"lease {self._namespace}/{self._name} may have run out", reason="NotLeading"
            )

    async def wait_leading(self) -> None:
        await self._acquired.wait()

    async def run(self) -> None:
        """Wait for the lease, keep it, and give it back when cancelled.

        Raises:
            LeadershipLostError: the lease was not renewed in time, or another has it.
        """
        try:
            try:
                await self._acquire()
                await self._keep()
            finally:
                self._renewed = -math.inf
        except asyncio.CancelledError:
            await self._release()
            raise

    async def _acquire(self) -> None:
        while True:
            if await self._attempt():
                break
            await asyncio.sleep(self._retry * self._client.rng.uniform(1.0, 2.2))
        logger.info("became the leader", extra={"lease": self._name, "identity": self.identity})
        self._acquired.set()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._retry)
            try:
                async with asyncio.timeout_at(self._renewed + self._deadline):
                    while True:
                        if await self._attempt():
                            break
                        await asyncio.sleep(self._retry)
            except TimeoutError as error:
                raise LeadershipLostError(
                    f"lease {self._namespace}/{self._name} was not renewed in time"
                ) from error

    async def _attempt(self) -> bool:
        """Take or renew the lease; False if that has to be tried again."""
        if self._held is not None:
            try:
                await self._write(self._held)
            except (KubeError, DecodeError):
                self._held = None  # look what it is like now
            else:
                return True
        try:
            return await self._look_and_take()
        except ConflictError:
            return False  # another was faster
        except (KubeError, DecodeError) as error:
            logger.debug("lease not taken", extra={"lease": self._name, "error": str(error)})
            return False

    async def _look_and_take(self) -> bool:
        try:
            lease = await self._client.get(
                _DICTS, self._name, namespace=self._namespace, retry=False
            )
        except NotFoundError:
            metadata = {"name": self._name, "namespace": self._namespace}
            body = {"metadata": metadata, "spec": self._spec({})}
            await self._hold(self._client.create(_DICTS, body, namespace=self._namespace))
            return True
        spec = lease.get("spec") or {}
        now = asyncio.get_running_loop().time()
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity):
            self._log_leader(holder)
            seconds = spec.get("leaseDurationSeconds") or self._duration
            if self._seen_at + seconds > now:
                if self.leading:
                    raise LeadershipLostError(f"lease {self._name} is held by {holder} now")
                return False
        await self._write(lease)
        return True

    async def _write(self, lease: dict[str, Any]) -> None:
        body = {**lease, "spec": self._spec(lease.get("spec") or {})}
        await self._hold(self._client.replace(_DICTS, self._name, body, namespace=self._namespace))

    async def _hold(self, write: Awaitable[dict[str, Any]]) -> None:
        """Send a write that makes the lease ours, from the moment at which it begins."""
        began = asyncio.get_running_loop().time()
        self._unanswered = True
        self._held = await write
        self._unanswered, self._renewed = False, began

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        """Return the record that says that we hold the lease as of now."""
        now = micro_time(self._clock.now())
        spec = {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._duration),
            "renewTime": now,
        }
        if before.get("holderIdentity") != self.identity or "acquireTime" not in before:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (before.get("leaseTransitions") or 0) + bool(before)
        return spec

    def _log_leader(self, holder: str) -> None:
        if holder != self._holder:
            self._holder = holder
            logger.info("another replica leads", extra={"lease": self._name, "leader": holder})

    async def _release(self) -> None:
        """Leave an empty holder behind, so that the next one need not wait.

        Where the last write has no answer yet, the stored lease says whose it is.
        """
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                lease = await self._own()
                if lease is not None:
                    await self._give_back(lease)
        except (KubeError, DecodeError, TimeoutError) as error:
            text = str(error) or "no answer in time"
            logger.info("lease not given back", extra={"lease": self._name, "error": text})

    async def _own(self) -> dict[str, Any] | None:
        """Return the lease if it is ours, as it is now."""
        held, self._held = self._held, None
        if not self._unanswered:
            return held
        there = await self._client.get(_DICTS, self._name, namespace=self._namespace)
        holder = (there.get("spec") or {}).get("holderIdentity")
        return there if holder == self.identity else None

    async def _give_back(self, lease: dict[str, Any]) -> None:
        spec = {
            **lease["spec"],
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": micro_time(self._clock.now()),
        }
        body = {**lease, "spec": spec}
        await self._client.replace(_DICTS, self._name, body, namespace=self._namespace)


def leader_election(
    settings: LeaderElectionSettings, name: str, client: KubeClient, clock: Clock
) -> LeaderElection | None:
    """Return the election for the lease ``name``; None without ``--leader-elect``.

    Raises:
        ConfigError: the durations don't fit each other, or the lock is to be another object.
    """
    if not settings.leader_elect:
        return None
    lock = settings.leader_elect_resource_lock
    if lock != _LOCK:
        raise ConfigError(f"--leader-elect-resource-lock: {lock!r} is not supported, only {_LOCK}")
    return LeaderElection(
        client,
        namespace=settings.leader_elect_resource_namespace,
        name=name,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lease_duration=settings.leader_elect_lease_duration,
        renew_deadline=settings.leader_elect_renew_deadline,
        retry_period=settings.leader_elect_retry_period,
        clock=clock,
    )
