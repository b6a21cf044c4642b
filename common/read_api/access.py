"""Who may read which namespaces: by bearer token, or by the address of the caller.

A token decides wherever the request comes from. Without one, callers on loopback and API servers
may read everything: ``kubectl port-forward`` arrives on loopback, and the pod proxy comes from an
API server, which removes tokens and adds no identity. A person needs ``pods/portforward`` or
``pods/proxy`` in our namespace for these two.
"""

import asyncio
import hashlib
import ipaddress
from collections.abc import Collection, Iterable
from typing import Protocol, TypeAlias

from common.api.base import Wire
from common.errors import VpaError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

EVERYWHERE = ""
"""Stands for all namespaces in an access review, as in the API."""

_BEARER = "bearer"
_NO_ACCESS = (
    "send a bearer token, or use kubectl port-forward or the pod proxy of the API server "
    "(kubectl get --raw)"
)


class UserInfo(Wire, frozen=True, kw_only=True):
    """The owner of a token, as an API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class AccessError(VpaError):
    """A request that gets no answer, with its HTTP status: 401, 403 or 503."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Reviewers(Protocol):
    """Reviews by an API server; see ``common.read_api.reviews``."""

    async def user_of(self, token: str) -> UserInfo | None:
        """Return the owner of a token; None: the token isn't valid."""
        ...

    async def may_read(self, user: UserInfo, namespace: str) -> bool:
        """Return whether the person may get VPAs in a namespace, or EVERYWHERE."""
        ...


class TrustedAddresses(Protocol):
    """The addresses of API servers."""

    async def includes(self, address: Address) -> bool: ...


class Visibility:
    """The namespaces that one caller may read."""

    def __init__(self, reviewers: Reviewers | None, user: UserInfo | None) -> None:
        """Create it for a person with a review, or for everything if ``user`` is None."""
        self._reviewers = reviewers
        self._user = user

    @property
    def sees_everything(self) -> bool:
        """Return whether the caller may read all namespaces."""
        return self._user is None

    @property
    def scope(self) -> str:
        """Return a text that differs between callers who may see different namespaces."""
        if self._user is None:
            return ""
        names = (self._user.username, self._user.uid, *(self._user.groups or ()))
        return hashlib.sha256("\0".join(names).encode()).hexdigest()

    async def visible(self, namespaces: Iterable[str]) -> frozenset[str]:
        """Return those of the namespaces that the caller may read.

        Raises:
            AccessError: 503, the API server didn't answer.
        """
        asked = tuple(namespaces)
        reviewers, user = self._reviewers, self._user
        if reviewers is None or user is None:
            return frozenset(asked)
        answers = await asyncio.gather(*(reviewers.may_read(user, each) for each in asked))
        return frozenset(name for name, may in zip(asked, answers, strict=True) if may)

    async def require(self, namespace: str) -> None:
        """Raise AccessError unless the caller may read the namespace, or with "" everything."""
        if self.sees_everything:
            return
        if not (namespace and await self.visible((namespace,))):
            where = f"in namespace {namespace}" if namespace else "in all namespaces"
            raise AccessError(403, f"you may not get verticalpodautoscalers {where}")


EVERYTHING = Visibility(None, None)


class Access:
    """Decides what a caller may read."""

    def __init__(self, reviewers: Reviewers, api_servers: TrustedAddresses) -> None:
        self._reviewers = reviewers
        self._api_servers = api_servers

    async def admit(self, authorization: str | None, peer: str) -> Visibility:
        """Return what the caller may read.

        ``authorization`` is the header, and ``peer`` the address of the caller.

        Raises:
            AccessError: 401, the caller has no access; 503, the API server didn't answer.
        """
        if authorization is not None:
            return await self._by_token(authorization)
        address = parse_peer(peer)
        if address is not None and (
            address.is_loopback or await self._api_servers.includes(address)
        ):
            return EVERYTHING
        raise AccessError(401, _NO_ACCESS)

    async def _by_token(self, authorization: str) -> Visibility:
        kind, _, token = authorization.strip().partition(" ")
        if kind.lower() != _BEARER or not token.strip():
            raise AccessError(401, "only bearer tokens are accepted")
        user = await self._reviewers.user_of(token.strip())
        if user is None:
            raise AccessError(401, "the token is not valid, or has expired")
        if await self._reviewers.may_read(user, EVERYWHERE):
            return EVERYTHING
        return Visibility(self._reviewers, user)


def parse_peer(peer: str) -> Address | None:
    """Return the address of a caller; None if it is none.

    A dual-stack socket reports IPv4 addresses as IPv4-mapped IPv6 addresses.
    """
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def parse_addresses(texts: Iterable[str]) -> Collection[Address]:
    """Return the addresses among these texts; names of hosts are left out."""
    found = map(parse_peer, texts)
    return frozenset(address for address in found if address is not None)
