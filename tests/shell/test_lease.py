"""Leases of the webhook's status and of leader election."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from common.errors import ConfigError, LeadershipLostError, NotLeadingError, ServerError
from common.kube.client import KubeClient
from common.kube.lease import AdmissionStatus, LeaderElection, StatusLease, leader_election
from common.runtime.settings import LeaderElectionSettings
from fake_api import FakeApi, Reply, status
from fixed_clock import FixedClock
from sandbox.virtual_time import VirtualTimeLoop

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{COLLECTION}/vpa"
MISSING = status(404, "NotFound")


def lease(holder: str = "other", version: str = "5", **spec: Any) -> dict[str, Any]:
    meta = {
        "name": "vpa",
        "namespace": "kube-system",
        "resourceVersion": version,
        "labels": {"kept": "yes"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": meta, "spec": {"holderIdentity": holder, **spec}}


def status_lease(client: KubeClient) -> StatusLease:
    return StatusLease(client, namespace="kube-system", name="vpa", clock=FixedClock(NOW))


async def test_the_first_heartbeat_creates_the_lease_without_a_renewal() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", MISSING)
        api.on(f"POST {COLLECTION}", Reply(status=201, body=lease()))
        await status_lease(client).write("host-1", interval=timedelta(seconds=10))
    body = api.requests[1].json()
    assert body["metadata"] == {"name": "vpa", "namespace": "kube-system"}
    assert body["spec"] == {"holderIdentity": "host-1", "leaseDurationSeconds": 10}
    assert body["kind"] == "Lease"


async def test_a_renewal_keeps_all_other_fields() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", Reply(body=lease("host-2", leaseDurationSeconds=10)))
        api.on(f"PUT {LEASE}", Reply(body=lease()))
        await status_lease(client).write("host-1", interval=timedelta(seconds=10))
    body = api.requests[1].json()
    assert body["metadata"] == lease()["metadata"]
    assert body["spec"] == {
        "holderIdentity": "host-1",
        "leaseDurationSeconds": 10,
        "renewTime": "2026-01-02T12:00:00.000000Z",
    }


@pytest.mark.parametrize("first", [MISSING, Reply(body=lease())], ids=["create", "renew"])
async def test_another_replica_may_be_faster(first: Reply) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", first)
        api.on(f"POST {COLLECTION}", status(409, "AlreadyExists"))
        api.on(f"PUT {LEASE}", status(409, "Conflict"))
        await status_lease(client).write("host-1", interval=timedelta(seconds=10))


async def test_a_failed_write_of_the_lease_is_an_error() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", Reply(body=lease()))
        api.on(f"PUT {LEASE}", status(500, "InternalError"))
        with pytest.raises(ServerError):
            await status_lease(client).write("host-1", interval=timedelta(seconds=10))


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        pytest.param(
            Reply(body=lease(renewTime="2026-01-02T11:59:01.000000Z")), AdmissionStatus.ALIVE
        ),
        pytest.param(
            Reply(body=lease(renewTime="2026-01-02T11:59:00.000000Z")), AdmissionStatus.STALE
        ),
        pytest.param(Reply(body=lease()), AdmissionStatus.STALE, id="never renewed"),
        pytest.param(MISSING, AdmissionStatus.MISSING),
        pytest.param(status(403, "Forbidden"), AdmissionStatus.UNREADABLE, id="forbidden"),
        pytest.param(status(503, "Unavailable"), AdmissionStatus.UNREADABLE, id="503"),
        pytest.param(Reply(body={"metadata": 7}), AdmissionStatus.UNREADABLE, id="strange"),
    ],
)
async def test_reading_the_status_lease(reply: Reply, want: AdmissionStatus) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", reply)
        assert await status_lease(client).read(max_age=timedelta(minutes=1)) is want


async def test_a_failed_read_of_the_lease_is_retried_and_a_missing_lease_is_not() -> None:
    """updater.md 3: at least two retries after an error, and none if the Lease is missing."""
    alive = Reply(body=lease(renewTime="2026-01-02T11:59:01.000000Z"))
    trouble = status(503, "Unavailable")
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", trouble, status(504, "Timeout"), alive)
        read = status_lease(client).read
        assert await read(max_age=timedelta(minutes=1)) is AdmissionStatus.ALIVE
        assert api.routes.count(f"GET {LEASE}") == 3
        api.on(f"GET {LEASE}", MISSING)
        assert await read(max_age=timedelta(minutes=1)) is AdmissionStatus.MISSING
        assert api.routes.count(f"GET {LEASE}") == 4


async def always() -> bool:
    return True


async def test_the_status_lease_is_renewed_after_failures() -> None:
    async with FakeApi() as api, api.client() as client, asyncio.TaskGroup() as group:
        api.on(f"GET {LEASE}", Reply(body=lease()))
        api.on(f"PUT {LEASE}", status(500, "InternalError"), Reply(body=lease()))
        kept = status_lease(client).keep(
            "host-1", interval=timedelta(milliseconds=10), condition=always
        )
        task = group.create_task(kept)
        await api.asked(f"PUT {LEASE}", times=3)
        task.cancel()


async def test_the_status_lease_is_not_renewed_while_the_condition_is_false() -> None:
    verdicts = iter([False, True, False, False, True])
    heartbeat = asyncio.Event()

    async def condition() -> bool:
        found = next(verdicts, None)
        if found is None:
            heartbeat.set()
        return bool(found)

    async with FakeApi() as api, api.client() as client, asyncio.TaskGroup() as group:
        api.on(f"GET {LEASE}", Reply(body=lease()))
        api.on(f"PUT {LEASE}", Reply(body=lease()))
        kept = status_lease(client).keep(
            "host-1", interval=timedelta(milliseconds=100), condition=condition
        )
        task = group.create_task(kept)
        await heartbeat.wait()
        assert api.routes.count(f"PUT {LEASE}") == 2
        task.cancel()


# Leader election


def election(client: KubeClient, identity: str = "me", *, scale: float = 0.01) -> LeaderElection:
    return LeaderElection(
        client,
        durations(15 * scale, 10 * scale, 2 * scale),
        name="vpa",
        identity=identity,
        clock=FixedClock(NOW),
    )


def durations(lease: float, deadline: float, retry: float) -> LeaderElectionSettings:
    return LeaderElectionSettings(
        leader_elect_lease_duration=timedelta(seconds=lease),
        leader_elect_renew_deadline=timedelta(seconds=deadline),
        leader_elect_retry_period=timedelta(seconds=retry),
    )


@contextlib.asynccontextmanager
async def running(api: FakeApi, *, scale: float = 0.01) -> AsyncIterator[LeaderElection]:
    async with api.client() as client, asyncio.TaskGroup() as group:
        candidate = election(client, scale=scale)
        task = group.create_task(candidate.run())
        yield candidate
        task.cancel()


async def test_without_a_lease_it_is_created_and_then_renewed_without_reading() -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", MISSING)
        api.on(f"POST {COLLECTION}", Reply(status=201, body=lease("me", "6")))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "7", acquireTime="t", leaseTransitions=0)))
        async with running(api) as candidate:
            await candidate.wait_leading()
            await api.asked(f"PUT {LEASE}", times=2)
            read = api.routes.count(f"GET {LEASE}")
    created = api.requests[1].json()["spec"]
    assert created == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 1,
        "acquireTime": "2026-01-02T12:00:00.000000Z",
        "renewTime": "2026-01-02T12:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert read == 1
    renewed = api.requests[2].json()
    assert renewed["metadata"]["resourceVersion"] == "6"
    assert api.requests[3].json()["spec"]["acquireTime"] == "t"


async def test_the_lease_is_released_at_the_end() -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", Reply(body=lease("me", "5", acquireTime="t", leaseTransitions=3)))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "6", acquireTime="t", leaseTransitions=3)))
        async with running(api, scale=1) as candidate:
            await candidate.wait_leading()
        assert not candidate.leading
    first, last = api.requests[1].json()["spec"], api.requests[-1].json()["spec"]
    assert (first["acquireTime"], first["leaseTransitions"]) == ("t", 3)  # our own restart
    assert (last["holderIdentity"], last["leaseDurationSeconds"]) == ("", 1)


@pytest.mark.parametrize(
    ("there", "writes"),
    [
        pytest.param("me", 2, id="it arrived"),
        pytest.param("other", 1, id="another replica holds it"),
    ],
)
async def test_the_end_during_a_renewal_reads_the_holder_first(there: str, writes: int) -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", Reply(body=lease("", "5")), Reply(body=lease(there, "6")))
        api.on(f"PUT {LEASE}", Reply(chunks=(), hold=True), Reply(body=lease("", "7")))
        async with running(api, scale=1):
            await api.asked(f"PUT {LEASE}")
    puts = [request.json() for request in api.requests if request.method == "PUT"]
    assert len(puts) == writes
    if writes > 1:
        assert puts[-1]["metadata"]["resourceVersion"] == "6"
        assert puts[-1]["spec"]["holderIdentity"] == ""


async def test_a_released_lease_is_acquired_immediately() -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", Reply(body=lease("", "5", leaseTransitions=3)))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "6", leaseTransitions=4)))
        async with running(api, scale=1) as candidate:
            await candidate.wait_leading()
    assert api.requests[1].json()["spec"]["leaseTransitions"] == 4


async def test_a_lease_of_another_holder_expires_by_our_own_clock() -> None:
    old = "2020-01-01T00:00:00.000000Z"  # the time in the Lease is not used
    async with FakeApi() as api:
        held = lease("other", "5", leaseDurationSeconds=3600, renewTime=old)
        expired = lease("other", "5", leaseDurationSeconds=0.05, renewTime=old)
        api.on(f"GET {LEASE}", Reply(body=held))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "6")))
        async with running(api) as candidate:
            await api.asked(f"GET {LEASE}", times=4)
            assert not candidate.leading
            assert f"PUT {LEASE}" not in api.routes
            api.on(f"GET {LEASE}", Reply(body=expired))
            await candidate.wait_leading()
    taken = next(r for r in api.requests if r.method == "PUT").json()
    assert taken["metadata"]["resourceVersion"] == "5"
    assert taken["spec"]["leaseTransitions"] == 1


async def test_a_lost_conflict_is_retried() -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", MISSING, MISSING, Reply(body=lease("", "5")))
        api.on(f"POST {COLLECTION}", status(409, "AlreadyExists"), status(500, "InternalError"))
        api.on(f"PUT {LEASE}", status(409, "Conflict"), Reply(body=lease("me", "6")))
        async with running(api) as candidate:
            await candidate.wait_leading()


async def test_a_leader_that_cannot_renew_within_the_deadline_ends() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", Reply(body=lease("", "5")), status(503, "Unavailable"))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "6")), status(503, "Unavailable"))
        candidate = election(client)
        with pytest.raises(LeadershipLostError, match="not renewed in time"):
            await candidate.run()
        assert not candidate.leading


async def test_a_failed_renewal_reads_the_lease_and_continues() -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", Reply(body=lease("", "5")), Reply(body=lease("me", "9")))
        good = Reply(body=lease("me", "6"))
        api.on(f"PUT {LEASE}", good, status(409, "Conflict"), good)
        async with running(api, scale=0.05) as candidate:
            await api.asked(f"PUT {LEASE}", times=4)
            assert candidate.leading
    assert [r.json()["metadata"]["resourceVersion"] for r in api.requests[1:5] if r.body] == [
        "5",
        "6",
        "9",
    ]


async def test_a_leader_that_finds_another_holder_ends_immediately() -> None:
    async with FakeApi() as api, api.client() as client:
        usurped = lease("other", "9", leaseDurationSeconds=15)
        api.on(f"GET {LEASE}", Reply(body=lease("", "5")), Reply(body=usurped))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "6")), status(409, "Conflict"))
        with pytest.raises(LeadershipLostError, match="held by other"):
            await election(client).run()


async def test_a_leader_ends_at_its_deadline_while_the_server_is_silent() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(f"GET {LEASE}", Reply(body=lease("", "5")))
        api.on(f"PUT {LEASE}", Reply(body=lease("me", "6")), Reply(chunks=[b"{"], hold=True))
        with pytest.raises(LeadershipLostError):
            await election(client).run()


@dataclass(frozen=True, kw_only=True)
class StoppedLeader:
    """A leader that is stopped, with a lease of fifteen seconds. All times are in seconds."""

    id: str
    after: float  # the response to its last renewal
    renewing: float = 0.0  # the duration of that renewal
    sends: bool


STOPPED_LEADERS = [
    StoppedLeader(id="not at all", after=0, sends=True),
    StoppedLeader(id="a moment less than the lease", after=14.99, sends=True),
    StoppedLeader(id="exactly as long as the lease", after=15, sends=False),
    StoppedLeader(id="for an hour", after=3600, sends=False),
    StoppedLeader(id="after a slow renewal, a moment less", after=10.99, renewing=4, sends=True),
    StoppedLeader(id="after a slow renewal, as long", after=11, renewing=4, sends=False),
]


@pytest.mark.parametrize("case", STOPPED_LEADERS, ids=lambda case: case.id)
def test_x120_a_leader_sends_writes_while_its_lease_is_valid(case: StoppedLeader) -> None:
    """The lease lasts from the start of the last renewal. No other task runs meanwhile."""

    async def main() -> list[bool]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        async with FakeApi() as api, api.client() as client:
            api.on(f"GET {LEASE}", Reply(body=lease("", "5")))
            api.on(f"PUT {LEASE}", Reply(body=lease("me", "6")))
            candidate = election(client.guarded(partial(loop.jump, case.renewing)), scale=1)
            task = asyncio.create_task(candidate.run())
            await candidate.wait_leading()
            loop.jump(case.after)
            found = [candidate.leading, check_passes(candidate.check)]
            task.cancel()
            await asyncio.wait({task})
            return found

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(main()) == [case.sends, case.sends]


def check_passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except NotLeadingError:
        return False
    return True


async def test_x120_before_the_lease_and_after_it_nothing_is_written() -> None:
    async with FakeApi() as api:
        api.on(f"GET {LEASE}", Reply(body=lease("other", "5", leaseDurationSeconds=3600)))
        async with running(api) as candidate:
            await api.asked(f"GET {LEASE}", times=2)
            with pytest.raises(NotLeadingError, match="lease kube-system/vpa may have run out"):
                candidate.check()
            api.on(f"GET {LEASE}", Reply(body=lease("", "6")))
            api.on(f"PUT {LEASE}", Reply(body=lease("me", "7")))
            await candidate.wait_leading()
        with pytest.raises(NotLeadingError):  # released
            candidate.check()


@pytest.mark.parametrize(
    ("duration", "deadline", "retry", "good"),
    [
        pytest.param(15.0, 10.0, 2.0, True, id="defaults"),
        pytest.param(10.0, 10.0, 2.0, False, id="deadline as long as the lease"),
        pytest.param(15.0, 12.0, 10.0, False, id="deadline of 1.2 retries"),
        pytest.param(15.0, 12.1, 10.0, True, id="a little more than 1.2 retries"),
        pytest.param(15.0, 10.0, 0.0, False, id="no pause between tries"),
    ],
)
async def test_inconsistent_periods_are_refused(
    duration: float,
    deadline: float,
    retry: float,
    good: bool,  # noqa: FBT001 - a table's column
) -> None:
    async with FakeApi() as api:
        refused = contextlib.nullcontext() if good else pytest.raises(ConfigError)
        with refused:
            LeaderElection(
                api.client(),
                durations(duration, deadline, retry),
                name="l",
                identity="me",
                clock=FixedClock(NOW),
            )


@pytest.mark.parametrize("lock", ["configmaps", "endpoints", "endpointsleases", "Leases", ""])
async def test_another_kind_of_lock_is_refused(lock: str) -> None:
    async with FakeApi() as api:
        client, clock = api.client(), FixedClock(NOW)
        settings = LeaderElectionSettings(leader_elect=True, leader_elect_resource_lock=lock)
        with pytest.raises(ConfigError, match=f"--leader-elect-resource-lock: '{lock}' is not"):
            leader_election(settings, "l", client, clock)
        alone = LeaderElectionSettings(
            leader_elect_resource_lock=lock
        )  # without leader election it is ignored
        assert leader_election(alone, "l", client, clock) is None
        usual = LeaderElectionSettings(leader_elect=True)
        assert leader_election(usual, "l", client, clock) is not None
