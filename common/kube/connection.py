"""The address of the API server and our credentials; ``common.kube.config`` creates them."""

import ssl
from collections.abc import Mapping
from typing import Protocol


class Credentials(Protocol):
    """A source of the Authorization header; tokens rotate, so every request reads it."""

    async def authorization(self) -> str:
        """Return the header's value; empty with a client certificate, or without credentials."""
        ...

    async def renew(self) -> None:
        """Read the credentials again, after the server refused the current ones."""
        ...


class StaticCredentials:
    """One header that never changes; the empty text means none."""

    def __init__(self, authorization: str = "") -> None:
        self._authorization = authorization

    async def authorization(self) -> str:
        return self._authorization

    async def renew(self) -> None:
        """Do nothing, because a constant header can't be renewed."""


class Connection:
    """The address, TLS settings and credentials for one API server.

    ``base_url`` has no slash at its end. Without ``ssl_context`` the system's authorities
    are trusted. ``server_hostname`` replaces the name that the certificate must have.
    ``namespace`` is that of the context, empty if it names none. ``repr`` doesn't contain the
    token, so that logs don't either.
    """

    def __init__(
        self,
        base_url: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str = "",
        proxy: str = "",
        namespace: str = "",
        credentials: Credentials | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.ssl_context = ssl_context
        self.server_hostname = server_hostname
        self.proxy = proxy
        self.namespace = namespace
        self._credentials = credentials or StaticCredentials()

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that identify us."""
        authorization = await self._credentials.authorization()
        return {"Authorization": authorization} if authorization else {}

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Renew headers refused with a 401; return whether the current ones differ from them.

        Another request may have renewed them in the meantime.
        """
        if await self.headers() != refused:
            return True
        await self._credentials.renew()
        return await self.headers() != refused

    def __repr__(self) -> str:
        return f"Connection({self.base_url!r})"


def client_context(
    *, ca_file: str | None = None, ca_data: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """Return a TLS context with the settings of Kubernetes clients.

    The context offers only HTTP/1.1. It doesn't set ``VERIFY_X509_STRICT``, a default of newer
    Pythons: cluster authorities often lack the extensions that it requires, and other clients
    accept them.

    Raises:
        OSError: the authority's file can't be read, or is no certificate (``ssl.SSLError``).
    """
    context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def one_line(error: BaseException) -> str:
    """Return the text of an error in one line; its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
