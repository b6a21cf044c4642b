"""Who may read which namespaces of the read API."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from common.read_api.access import (
    EVERYWHERE,
    Access,
    AccessError,
    Address,
    UserInfo,
    parse_addresses,
)

ALICE, BOB = UserInfo(username="alice"), UserInfo(username="bob", groups=("shop",))
CAROL = UserInfo(username="carol")
API_SERVER = "10.0.0.5"


@dataclass
class FakeReviews:
    """An API server that knows some tokens and rights, and records the reviews."""

    users: Mapping[str, UserInfo] = field(
        default_factory=lambda: {"of-alice": ALICE, "of-bob": BOB, "of-carol": CAROL}
    )
    rights: Mapping[str, Collection[str]] = field(
        default_factory=lambda: {"alice": (EVERYWHERE,), "bob": ("shop", "shop-2")}
    )
    reviewed: list[str] = field(default_factory=list)
    away: bool = False

    async def user_of(self, token: str) -> UserInfo | None:
        self._answer(f"token {token}")
        return self.users.get(token)

    async def may_read(self, user: UserInfo, namespace: str) -> bool:
        self._answer(f"{user.username} in {namespace or 'all'}")
        return namespace in self.rights.get(user.username, ())

    def _answer(self, review: str) -> None:
        self.reviewed.append(review)
        if self.away:
            raise AccessError(503, "no answer")


class FakeAddresses:
    """The addresses of one API server."""

    async def includes(self, address: Address) -> bool:
        return address in parse_addresses([API_SERVER, "fd00::5", "a host name"])


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request, and the namespaces of ``shop``, ``shop-2`` and ``bank`` that it may read.

    An integer is the status of a refusal.
    """

    id: str
    authorization: str | None = None
    peer: str = "10.9.9.9"
    want: Collection[str] | int
    everything: bool = False


ALL = ("bank", "shop", "shop-2")
CASES = [
    Case(id="loopback", peer="127.0.0.1", want=ALL, everything=True),
    Case(id="another loopback address", peer="127.8.7.6", want=ALL, everything=True),
    Case(id="loopback of IPv6", peer="::1", want=ALL, everything=True),
    Case(id="loopback on a dual-stack socket", peer="::ffff:127.0.0.1", want=ALL, everything=True),
    Case(id="an API server", peer=API_SERVER, want=ALL, everything=True),
    Case(
        id="an API server on a dual-stack socket", peer="::ffff:10.0.0.5", want=ALL, everything=True
    ),
    Case(id="an API server of IPv6", peer="fd00::5", want=ALL, everything=True),
    Case(id="the address next to an API server's", peer="10.0.0.6", want=401),
    Case(id="any other pod", want=401),
    Case(id="no address", peer="", want=401),
    Case(id="no address of a known form", peer="unix:/run/x", want=401),
    Case(id="a link-local address with a zone", peer="fe80::1%eth0", want=401),
    Case(id="a person with all rights", authorization="Bearer of-alice", want=ALL, everything=True),
    Case(id="the kind in lower case", authorization="bearer of-alice", want=ALL, everything=True),
    Case(id="a person with two namespaces", authorization="Bearer of-bob", want=("shop", "shop-2")),
    Case(id="a person without rights", authorization="Bearer of-carol", want=()),
    Case(id="an unknown token", authorization="Bearer forged", want=401),
    Case(id="an empty token", authorization="Bearer ", want=401),
    Case(id="no token at all", authorization="Bearer", want=401),
    Case(id="an empty header", authorization="", want=401),
    Case(id="a password", authorization="Basic YTpi", want=401),
    Case(
        id="a token decides on loopback",
        authorization="Bearer of-bob",
        peer="127.0.0.1",
        want=("shop", "shop-2"),
    ),
    Case(id="an unknown token on loopback", authorization="Bearer forged", peer="::1", want=401),
    Case(
        id="a token decides for an API server",
        authorization="Bearer of-carol",
        peer=API_SERVER,
        want=(),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_what_a_caller_may_read(case: Case) -> None:
    access = Access(FakeReviews(), FakeAddresses())
    if isinstance(case.want, int):
        with pytest.raises(AccessError) as refused:
            await access.admit(case.authorization, case.peer)
        assert refused.value.status == case.want
        return
    visibility = await access.admit(case.authorization, case.peer)
    assert sorted(await visibility.visible(ALL)) == sorted(case.want)
    assert visibility.sees_everything == case.everything
    assert bool(visibility.scope) != case.everything


async def test_the_refusal_without_a_token_names_the_ways_in() -> None:
    with pytest.raises(AccessError, match="bearer token, or use kubectl port-forward") as refused:
        await Access(FakeReviews(), FakeAddresses()).admit(None, "10.9.9.9")
    assert "kubectl get --raw" in str(refused.value)


@pytest.mark.parametrize(
    ("token", "namespace", "status"),
    [
        pytest.param("of-alice", "bank", None, id="any namespace, with all rights"),
        pytest.param("of-alice", "", None, id="everything, with all rights"),
        pytest.param("of-bob", "shop", None, id="a namespace with the right"),
        pytest.param("of-bob", "bank", 403, id="another namespace"),
        pytest.param("of-bob", "", 403, id="everything, with the right in two namespaces"),
        pytest.param("of-carol", "shop", 403, id="no rights"),
    ],
)
async def test_what_a_request_for_one_namespace_requires(
    token: str, namespace: str, status: int | None
) -> None:
    visibility = await Access(FakeReviews(), FakeAddresses()).admit(f"Bearer {token}", "")
    if status is None:
        await visibility.require(namespace)
        return
    with pytest.raises(AccessError) as refused:
        await visibility.require(namespace)
    assert refused.value.status == status


async def test_a_person_with_all_rights_needs_no_review_of_namespaces() -> None:
    reviews = FakeReviews()
    visibility = await Access(reviews, FakeAddresses()).admit("Bearer of-alice", "")
    await visibility.visible(ALL)
    assert reviews.reviewed == ["token of-alice", "alice in all"]


async def test_without_an_answer_of_the_api_server_a_token_gets_503_and_loopback_everything() -> (
    None
):
    access = Access(FakeReviews(away=True), FakeAddresses())
    with pytest.raises(AccessError) as refused:
        await access.admit("Bearer of-alice", "127.0.0.1")
    assert refused.value.status == 503
    assert (await access.admit(None, "127.0.0.1")).sees_everything


async def test_persons_with_other_rights_have_other_scopes() -> None:
    access = Access(FakeReviews(), FakeAddresses())
    scopes = await asyncio.gather(
        *(access.admit(f"Bearer of-{name}", "") for name in ("bob", "carol", "bob"))
    )
    bob, carol, again = (each.scope for each in scopes)
    assert bob == again != carol
    assert "bob" not in bob
