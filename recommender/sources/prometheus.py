"""One HTTP session to a Prometheus server; the only HTTP that isn't the API server's.

Source: recommender.md 12.5 and 15.1; ``NewPrometheusHistoryProvider``,
vertical-pod-autoscaler/pkg/recommender/input/history/history_provider.go.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from common.errors import ConfigError, ServerError, VpaError
from common.kube.connection import client_context
from common.kube.transport import read_body
from recommender.metrics import RecommenderMetrics
from recommender.sources.promql import TimeRange
from recommender.sources.series import complaint, unix_seconds

_CONNECT_SECONDS = 10.0
_SECONDS = 1_000_000  # in an instant
_NO_POST = frozenset({405, 501})
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError)


class PrometheusError(VpaError):
    """Prometheus refused, or didn't answer.

    ``reason`` is its own word (``bad_data``, ``execution``, ``timeout``), or the status, and
    fit to be a metric label; ``away`` is whether another query would fare no better.
    """

    def __init__(self, message: str, *, reason: str, away: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.away = away


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusServer:
    """The address of Prometheus, and credentials, which ``repr`` doesn't show."""

    address: URL
    verify: bool
    timeout: timedelta  # of one query
    token: str
    token_file: str
    basic: tuple[str, str] | None

    def __repr__(self) -> str:
        return f"Server({self.name!r})"

    @property
    def name(self) -> str:
        """Return the address, fit for a log."""
        return str(self.address)

    @classmethod
    def of(
        cls,
        *,
        address: str,
        insecure: bool,
        timeout: timedelta,
        token: str,
        token_file: str,
        username: str,
        password: str,
        environ: Mapping[str, str],
    ) -> Self:
        """Return what the flags say; a user and a password may come from the environment as well.

        Raises:
            ConfigError: the address is none, or the token's file can't be read.
        """
        url = _url(address)
        pairs = (
            (username, password),
            (environ.get("PROMETHEUS_USERNAME", ""), environ.get("PROMETHEUS_PASSWORD", "")),
            (url.user or "", url.password or ""),
        )
        if token_file:
            read_token(token_file)
        return cls(
            address=url.with_user(None).with_query(None).with_fragment(None),
            verify=not insecure,
            timeout=timeout,
            token=token,
            token_file=token_file,
            basic=next((pair for pair in pairs if all(pair)), None),
        )

    def authorization(self) -> str:
        """Return the header's value, empty for none; a token's file is read each time.

        Raises:
            ConfigError: the file can't be read.
        """
        token = read_token(self.token_file) if self.token_file else self.token
        if token:
            return f"Bearer {token}"
        if self.basic is None:
            return ""
        return "Basic " + base64.b64encode(":".join(self.basic).encode()).decode()


def read_token(path: str) -> str:
    """Return the token in a file, without the space around it.

    Raises:
        ConfigError: there is no such file, or it can't be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text"
        raise ConfigError(f"can't read --prometheus-bearer-token-file {path}: {why}") from error


def _url(address: str) -> URL:
    try:
        url = URL(address)
        port = url.port
    except ValueError:
        url, port = URL(), None
    if url.scheme not in ("http", "https") or not url.host or not port:
        # The text itself may carry a password.
        raise ConfigError("--prometheus-address is not a URL such as http://prometheus:9090")
    return url


class Prometheus:
    """Asks queries, one at a time or many; an asynchronous context manager."""

    def __init__(
        self, server: PrometheusServer, *, user_agent: str, metrics: RecommenderMetrics
    ) -> None:
        self._server = server
        self._user_agent = user_agent
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        self._posts = True  # until the server says that it takes no POST

    @property
    def name(self) -> str:
        """Return the server's address, fit for a log."""
        return self._server.name

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(
            total=self._server.timeout.total_seconds(), sock_connect=_CONNECT_SECONDS
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=client_context(verify=self._server.verify)),
            timeout=timeout,
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            read_bufsize=2**18,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def range(self, query: str, window: TimeRange) -> bytes:
        """Return the answer to a range query.

        Raises:
            PrometheusError: there is none.
        """
        asked = {
            "query": query,
            "start": unix_seconds(window.start),
            "end": unix_seconds(window.end),
            "step": f"{window.step / _SECONDS:.3f}",
        }
        return await self._ask("query_range", asked)

    async def instant(self, query: str, at: int) -> bytes:
        """Return the answer to an instant query.

        Raises:
            PrometheusError: there is none.
        """
        return await self._ask("query", {"query": query, "time": unix_seconds(at)})

    async def _ask(self, kind: str, form: Mapping[str, str]) -> bytes:
        """Send a query as POST, for it may be long; as GET where that isn't allowed."""
        try:
            authorization = await asyncio.to_thread(self._server.authorization)
        except ConfigError as error:
            raise PrometheusError(str(error), reason="no_token", away=True) from error
        headers = {"Authorization": authorization} if authorization else {}
        if self._posts:
            status, body = await self._send("POST", kind, form, headers)
            self._posts = status not in _NO_POST
        if not self._posts:
            status, body = await self._send("GET", kind, form, headers)
        if status < 300:
            return body
        reason, sentence = complaint(body)
        raise PrometheusError(
            f"{self.name} answered {status}: {sentence or 'without a reason'}",
            reason=reason or str(status),
            away=status in (401, 403, 404, 502, 503) and not reason,
        )

    async def _send(
        self, method: str, kind: str, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        if self._session is None:
            raise RuntimeError("use it as an asynchronous context manager")
        url = self._server.address / "api" / "v1" / kind
        begun = asyncio.get_running_loop().time()
        try:
            async with self._session.request(
                method,
                url,
                headers=headers,
                data=form if method == "POST" else None,
                params=form if method == "GET" else None,
            ) as answer:
                body = await read_body(answer)
        except _FAILURES as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise PrometheusError(
                f"{self.name}: no answer: {text}", reason="unreachable", away=True
            ) from error
        except ServerError as error:
            raise PrometheusError(f"{self.name}: {error}", reason="too_large") from error
        seconds = asyncio.get_running_loop().time() - begun
        self._metrics.prometheus_answered(str(answer.status), method.lower(), seconds)
        return answer.status, body
