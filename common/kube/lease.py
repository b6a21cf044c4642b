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
_LOCK = "leases"  # the only kind of lock that client-go still supports


def micro_time(moment: datetime) -> str:
    """Format ``2026-01-02T15:04:05.000000Z``; the API server requires six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class AdmissionStatus(enum.StrEnum):
    """The state of the admission controller according to its status lease."""

    ALIVE = "alive"
    STALE = "stale"
    MISSING = "missing"
    UNREADABLE = "unreadable"  # the API server refused, or didn't answer

    @property
    def allows_eviction(self) -> bool:
        return self is AdmissionStatus.ALIVE


def is_alive(lease: Lease, *, max_age: timedelta, now: datetime) -> bool:
    """Return True if the lease was created or renewed less than ``max_age`` ago.

    The creation counts only with a holder: the manifests contain an empty lease. Ignore its own
    duration.

    Source: updater.md 3; ``isLeaseValid``, vertical-pod-autoscaler/pkg/utils/status.
    """
    created = lease.metadata.creation_timestamp if lease.spec.holder_identity else None
    times = (created, lease.spec.renew_time)
    return any(moment is not None and moment + max_age > now for moment in times)


class StatusLease:
    """The Lease that shows that the admission controller works.

    All replicas write the same one; the updater reads it before it evicts pods.
    """

    def __init__(self, client: KubeClient, *, namespace: str, name: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock

    async def read(self, *, max_age: timedelta) -> AdmissionStatus:
        """Read the status; a lease older than ``max_age`` counts as expired.

        The client retries a failed read a few times.
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
        """Create or renew the lease; a conflict with another replica is no error.

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
        self, holder: str, *, interval: timedelta, condition: Callable[[], Awaitable[bool]]
    ) -> None:
        """Write the lease at the end of each ``interval``; log failures.

        ``condition`` is called before each write. If it returns False, nothing is written, so that
        the Lease expires.
        """
        seconds = interval.total_seconds()
        failing = False
        while True:
            await asyncio.sleep(seconds)
            if not await condition():
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
    """The election of the replica that may act; ``run`` is an endless background task.

    Another holder's lease counts as valid for its duration from the last change that we observed,
    by our own clock: the times in the record aren't compared, because clocks may differ. A process
    that can't renew within the deadline ends before another replica takes over. A suspended
    process can't end in time, so ``check`` is called just before each write: a process leads no
    longer than the lease's duration from the start of its last renewal (X120).

    It has more attributes than other classes: some are settings, and the rest are one state machine
    (our lease, and the observed lease of another holder) that is easier to follow in one place.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: LeaderElectionSettings,
        *,
        name: str,
        identity: str,
        clock: Clock,
    ) -> None:
        """Raise ConfigError unless duration > deadline > 1.2 retry periods > 0."""
        duration = settings.leader_elect_lease_duration
        deadline = settings.leader_elect_renew_deadline
        retry = settings.leader_elect_retry_period
        if not timedelta() < retry * 1.2 < deadline < duration:
            raise ConfigError(
                "leader election needs lease duration > renew deadline > 1.2 * retry period > 0"
            )
        self.identity = identity
        self._client = client
        self._namespace = settings.leader_elect_resource_namespace
        self._name = name
        self._duration = duration.total_seconds()
        self._deadline = deadline.total_seconds()
        self._retry = retry.total_seconds()
        self._clock = clock
        self._acquired = asyncio.Event()
        self._renewed = -math.inf  # the event loop's start time of the last successful write
        self._held: dict[str, Any] | None = None  # the lease as last written
        self._unanswered = False  # a write without an answer may have been stored
        self._seen: Any = None  # spec of another holder's lease, as last observed
        self._seen_at = -math.inf  # the event loop's time at which it changed
        self._holder = ""

    @property
    def leading(self) -> bool:
        """Return True if no other replica can hold the lease.

        Other replicas count from the time at which they observed our last renewal, which is not
        before its start. The event loop's time continues while the process is suspended.
        """
        return asyncio.get_running_loop().time() < self._renewed + self._duration

    @property
    def leader(self) -> str:
        """Return the identity of the leader, as last observed; empty: unknown."""
        return self.identity if self.leading else self._holder

    def check(self) -> None:
        """Check the lease immediately before a write is sent.

        Raises:
            NotLeadingError: it may have expired.
        """
        if not self.leading:
            raise NotLeadingError(
                f"lease {self._namespace}/{self._name} may have run out", reason="NotLeading"
            )

    async def wait_leading(self) -> None:
        await self._acquired.wait()

    async def run(self) -> None:
        """Wait for the lease, renew it, and release it when cancelled.

        Raises:
            LeadershipLostError: the lease was not renewed in time, or another replica holds it.
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
        """Take or renew the lease; return False if this has to be retried."""
        if self._held is not None:
            try:
                await self._write(self._held)
            except (KubeError, DecodeError):
                self._held = None  # read the current lease
            else:
                return True
        try:
            return await self._read_and_take()
        except ConflictError:
            return False  # another replica was faster
        except (KubeError, DecodeError) as error:
            logger.debug("lease not taken", extra={"lease": self._name, "error": str(error)})
            return False

    async def _read_and_take(self) -> bool:
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
        """Send a write that takes the lease; it is valid from the start of the write."""
        began = asyncio.get_running_loop().time()
        self._unanswered = True
        self._held = await write
        self._unanswered, self._renewed = False, began

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        """Return the record that we hold the lease from now on."""
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
        """Write an empty holder, so that the next one doesn't have to wait.

        If the last write has no answer yet, read the holder from the stored lease.
        """
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                lease = await self._own()
                if lease is not None:
                    await self._clear_holder(lease)
        except (KubeError, DecodeError, TimeoutError) as error:
            text = str(error) or "no answer in time"
            logger.info("lease not given back", extra={"lease": self._name, "error": text})

    async def _own(self) -> dict[str, Any] | None:
        """Return the current lease if we hold it."""
        held, self._held = self._held, None
        if not self._unanswered:
            return held
        stored = await self._client.get(_DICTS, self._name, namespace=self._namespace)
        holder = (stored.get("spec") or {}).get("holderIdentity")
        return stored if holder == self.identity else None

    async def _clear_holder(self, lease: dict[str, Any]) -> None:
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
        ConfigError: the durations contradict each other, or the lock is no Lease.
    """
    if not settings.leader_elect:
        return None
    lock = settings.leader_elect_resource_lock
    if lock != _LOCK:
        raise ConfigError(f"--leader-elect-resource-lock: {lock!r} is not supported, only {_LOCK}")
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return LeaderElection(client, settings, name=name, identity=identity, clock=clock)
