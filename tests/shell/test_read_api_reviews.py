"""Reviews of tokens and the addresses of API servers: what is asked, and what is cached."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import pytest

from common.errors import KubeError
from common.read_api.access import AccessError, UserInfo
from common.read_api.reviews import (
    ACCESS_REVIEWS,
    KEPT_REFUSAL_SECONDS,
    KEPT_SECONDS,
    MOST_CALLS,
    TOKEN_REVIEWS,
    ApiServerAddresses,
    ApiServerReviews,
    ExpiringAnswers,
)
from fake_api import FakeApi, Reply, listing, status
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

TOKENS = f"POST {TOKEN_REVIEWS.collection()}"
RIGHTS = f"POST {ACCESS_REVIEWS.collection()}"
SLICES = "GET /apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SECRET = "eyJhbGciOi.secret.token"
OLD, NEW = ip_address("10.0.0.5"), ip_address("10.0.0.6")
EXTRA = {"authentication.kubernetes.io/pod-name": ["web-0"]}
BOB = UserInfo(
    username="bob", uid="u-1", groups=("shop",), extra={name: tuple(v) for name, v in EXTRA.items()}
)


def authenticated(**user: Any) -> Reply:
    return Reply(status=201, body={"status": {"authenticated": True, "user": user}})


def allowed(*, yes: bool) -> Reply:
    return Reply(status=201, body={"status": {"allowed": yes}})


async def test_a_token_is_reviewed_once_and_its_owner_with_all_that_is_known() -> None:
    async with FakeApi() as api, api.client() as client:
        user = {"username": "bob", "uid": "u-1", "groups": ["shop"], "extra": EXTRA}
        api.on(TOKENS, authenticated(**user))
        api.on(RIGHTS, allowed(yes=True), allowed(yes=False))
        reviews = ApiServerReviews(client)
        assert await reviews.user_of(SECRET) == BOB
        assert await reviews.user_of(SECRET) == BOB
        assert await reviews.may_read(BOB, "")
        assert not await reviews.may_read(BOB, "bank")
        assert not await reviews.may_read(BOB, "bank")
        bodies = [request.json() for request in api.requests]
    resource = {"group": "autoscaling.k8s.io", "resource": "verticalpodautoscalers", "verb": "get"}
    assert bodies == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": SECRET},
        },
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "bob",
                "uid": "u-1",
                "groups": ["shop"],
                "extra": EXTRA,
                "resourceAttributes": resource,
            },
        },
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "bob",
                "uid": "u-1",
                "groups": ["shop"],
                "extra": EXTRA,
                "resourceAttributes": resource | {"namespace": "bank"},
            },
        },
    ]


async def test_a_token_that_is_not_valid_has_no_owner() -> None:
    async with FakeApi() as api, api.client() as client:
        refusal = {"status": {"authenticated": False, "error": "expired"}}
        api.on(TOKENS, Reply(status=201, body=refusal))
        assert await ApiServerReviews(client).user_of(SECRET) is None


async def test_other_groups_are_reviewed_again() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(RIGHTS, allowed(yes=True), allowed(yes=False))
        reviews = ApiServerReviews(client)
        assert await reviews.may_read(UserInfo(username="bob", groups=("a", "b")), "shop")
        assert not await reviews.may_read(UserInfo(username="bob", groups=("a,b",)), "shop")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(cut=True), id="no answer"),
        pytest.param(status(403, "Forbidden", SECRET), id="no permission"),
        pytest.param(status(500, "InternalError", SECRET), id="a failing webhook"),
        pytest.param(Reply(status=201, body=[SECRET]), id="another shape"),
    ],
)
async def test_without_an_answer_there_is_no_access_and_one_log_line_without_the_token(
    reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with FakeApi() as api, api.client() as client:
        api.on(TOKENS, reply)
        reviews = ApiServerReviews(client)
        for _ in range(2):
            with pytest.raises(AccessError) as refused:
                await reviews.user_of(SECRET)
            assert (refused.value.status, SECRET in str(refused.value)) == (503, False)
        assert api.routes.count(TOKENS) == 2, "a failure was cached, or retried"
        api.on(TOKENS, authenticated(username="bob"))
        assert await reviews.user_of(SECRET) == UserInfo(username="bob")
    lines = [line for line in caplog.records if "review tokens" in line.getMessage()]
    assert len(lines) == 1
    assert not [line for line in caplog.records if SECRET in str(vars(line))]


def test_a_slow_review_ends_after_five_seconds_and_does_not_count_as_an_outage() -> None:
    """Passes are skipped while the API server is unreachable, and a webhook of it may be slow."""

    async def main(_: VirtualClock) -> float:
        async with FakeApi() as api, api.client() as client:
            api.on(TOKENS, Reply(status=201, chunks=[b"{"], hold=True))
            with pytest.raises(AccessError) as refused:
                await ApiServerReviews(client).user_of(SECRET)
            assert refused.value.status == 503
            assert client.reachable
            return asyncio.get_running_loop().time()

    assert virtual_time.run(main) == pytest.approx(5, abs=0.1)


@dataclass
class Asked:
    """Counts questions, and holds their answers back until ``release``."""

    answer: bool = True
    count: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    async def ask(self) -> bool:
        self.count += 1
        await self.release.wait()
        if self.fails:
            raise KubeError("no")
        return self.answer


def answers(most: int = 10) -> ExpiringAnswers[str, bool]:
    return ExpiringAnswers(lambda yes: KEPT_SECONDS if yes else KEPT_REFUSAL_SECONDS, most)


@pytest.mark.parametrize(
    ("answer", "seconds", "count"),
    [
        pytest.param(True, 59.9, 1, id="an approval is kept for a minute"),
        pytest.param(True, 60.0, 2, id="an approval is a minute old"),
        pytest.param(False, 9.9, 1, id="a refusal is kept for ten seconds"),
        pytest.param(False, 10.0, 2, id="a refusal is ten seconds old"),
    ],
)
def test_how_long_an_answer_is_kept(*, answer: bool, seconds: float, count: int) -> None:
    async def main(_: VirtualClock) -> int:
        asked, kept = Asked(answer), answers()
        asked.release.set()
        assert await kept.get("bob", asked.ask) is answer
        await asyncio.sleep(seconds)
        assert await kept.get("bob", asked.ask) is answer
        return asked.count

    assert virtual_time.run(main) == count


async def test_equal_questions_at_once_share_one_answer() -> None:
    asked, other, kept = Asked(), Asked(), answers()
    async with asyncio.TaskGroup() as group:
        callers = [group.create_task(kept.get("bob", asked.ask)) for _ in range(5)]
        group.create_task(kept.get("alice", other.ask))
        await asyncio.sleep(0)
        assert (asked.count, other.count) == (1, 1)
        asked.release.set()
        other.release.set()
    assert [caller.result() for caller in callers] == [True] * 5
    assert asked.count == 1


async def test_if_the_asking_caller_leaves_the_next_one_asks() -> None:
    asked, kept = Asked(), answers()
    first = asyncio.create_task(kept.get("bob", asked.ask))
    second = asyncio.create_task(kept.get("bob", asked.ask))
    await asyncio.sleep(0)
    first.cancel()
    asked.release.set()
    assert await second
    assert asked.count == 2


async def test_an_error_reaches_each_caller_and_is_not_kept() -> None:
    asked, kept = Asked(fails=True), answers()
    asked.release.set()
    for count in (1, 2):
        with pytest.raises(KubeError):
            await kept.get("bob", asked.ask)
        assert asked.count == count


async def test_the_number_of_kept_answers_is_limited() -> None:
    asked, kept = Asked(), answers(most=3)
    asked.release.set()
    for name in ("a", "b", "c", "d"):
        await kept.get(name, asked.ask)
    assert (len(kept), asked.count) == (3, 4)
    await kept.get("b", asked.ask)
    assert asked.count == 4
    await kept.get("a", asked.ask)
    assert asked.count == 5


async def test_at_most_sixteen_reviews_are_sent_at_once() -> None:
    async with FakeApi() as api, api.client() as client:
        hold = Reply(status=201, chunks=[b"{"], hold=True)
        api.on(TOKENS, hold)
        reviews = ApiServerReviews(client)
        callers = [asyncio.create_task(reviews.user_of(f"t-{n}")) for n in range(MOST_CALLS + 1)]
        await api.asked(TOKENS, MOST_CALLS)
        await quiet(lambda: api.routes.count(TOKENS))
        assert api.routes.count(TOKENS) == MOST_CALLS
        api.on(TOKENS, authenticated(username="bob"))
        callers[0].cancel()
        assert await callers[-1] == UserInfo(username="bob")
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)


async def quiet(count: Callable[[], int]) -> None:
    """Let other tasks run until nothing is sent any more."""
    before = -1
    while before != count():
        before = count()
        for _ in range(100):
            await asyncio.sleep(0)


# The addresses of API servers


def slice_of(*addresses: str) -> Any:
    return {"metadata": {"name": "kubernetes"}, "endpoints": [{"addresses": list(addresses)}]}


def test_addresses_are_read_again_after_a_minute_and_sooner_for_an_unknown_caller() -> None:
    async def main(_: VirtualClock) -> None:
        async with FakeApi() as api, api.client() as client:
            addresses = ApiServerAddresses(client)
            api.on(SLICES, listing(slice_of("10.0.0.5", "a-host")))
            assert await addresses.includes(OLD)
            await asyncio.sleep(9)
            assert not await addresses.includes(NEW)
            assert len(api.requests) == 1
            api.on(SLICES, listing(slice_of("10.0.0.6")))
            await asyncio.sleep(1)
            assert await addresses.includes(NEW)
            assert not await addresses.includes(OLD)
            await asyncio.sleep(59)
            assert await addresses.includes(NEW)
            assert len(api.requests) == 2
            await asyncio.sleep(1)
            assert await addresses.includes(NEW)
            assert len(api.requests) == 3
            (query,) = {tuple(sorted(request.query.items())) for request in api.requests}
        assert ("labelSelector", "kubernetes.io/service-name=kubernetes") in query

    virtual_time.run(main)


def test_without_the_permission_no_address_is_known_and_one_line_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(_: VirtualClock) -> None:
        async with FakeApi() as api, api.client() as client:
            addresses = ApiServerAddresses(client)
            api.on(SLICES, status(403, "Forbidden"))
            for _read in range(3):
                assert not await addresses.includes(OLD)
                await asyncio.sleep(KEPT_REFUSAL_SECONDS)
            assert len(api.requests) == 3

    virtual_time.run(main)
    lines = [line for line in caplog.records if "addresses of API servers" in line.getMessage()]
    assert len(lines) == 1


async def test_known_addresses_stay_while_they_can_not_be_read() -> None:
    async with FakeApi() as api, api.client() as client:
        addresses = ApiServerAddresses(client)
        empty = {"metadata": {"name": "kubernetes-2"}, "endpoints": None}
        api.on(SLICES, listing(slice_of("10.0.0.5"), empty))
        assert await addresses.includes(OLD)
        api.on(SLICES, status(403, "Forbidden"))
        await addresses.read()
        assert await addresses.includes(OLD)
