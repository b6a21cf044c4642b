"""The HTTP client for Prometheus.

Source: recommender.md 12.5 and 15.1; ``NewPrometheusHistoryProvider``,
vertical-pod-autoscaler/pkg/recommender/input/history/history_provider.go.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import aiohttp
from yarl import URL

from common.errors import ConfigError, ServerError, VpaError
from common.kube.connection import client_context
from common.kube.transport import read_body
from recommender.metrics import RecommenderMetrics
from recommender.sources.promql import TimeRange
from recommender.sources.series import error_in, unix_seconds
from recommender.sources.usage_source_settings import UsageSourceSettings

_CONNECT_SECONDS = 10.0
_SECONDS = 1_000_000  # in an instant
_NO_POST = frozenset({405, 501})
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError)


class PrometheusError(VpaError):
    """Prometheus refused, or didn't answer.

    ``reason`` is its error type (``bad_data``, ``execution``, ``timeout``) or the HTTP status; it
    is also the metric's label. ``away`` means that other queries would fail too.
    """

    def __init__(self, message: str, *, reason: str, away: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.away = away


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusServer:
    """The address of Prometheus and the credentials, which ``repr`` doesn't show."""

    address: URL  # without credentials
    verify: bool
    timeout: timedelta  # of one query
    token: str
    token_file: str
    basic: tuple[str, str] | None

    def __repr__(self) -> str:
        return f"PrometheusServer({str(self.address)!r})"

    @classmethod
    def of(cls, settings: UsageSourceSettings, environ: Mapping[str, str]) -> Self:
        """Return the server that the flags describe.

        The user and password may also come from the environment or the address.

        Raises:
            ConfigError: the address is invalid, or the token's file can't be read.
        """
        url = _url(settings.prometheus_address)
        pairs = (
            (settings.username, settings.password),
            (environ.get("PROMETHEUS_USERNAME", ""), environ.get("PROMETHEUS_PASSWORD", "")),
            (url.user or "", url.password or ""),
        )
        if settings.prometheus_bearer_token_file:
            read_token(settings.prometheus_bearer_token_file)
        return cls(
            address=url.with_user(None).with_query(None).with_fragment(None),
            verify=not settings.prometheus_insecure,
            timeout=settings.query_timeout,
            token=settings.prometheus_bearer_token,
            token_file=settings.prometheus_bearer_token_file,
            basic=next((pair for pair in pairs if all(pair)), None),
        )

    def authorization(self) -> str:
        """Return the value of the header, or an empty string; a token file is read each time.

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
    """Return the token in a file, without surrounding white space.

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
        # Don't include the text, which may contain a password.
        raise ConfigError("--prometheus-address is not a URL such as http://prometheus:9090")
    return url


class Prometheus:
    """A client for queries, which may be concurrent; an asynchronous context manager."""

    def __init__(
        self, server: PrometheusServer, *, user_agent: str, metrics: RecommenderMetrics
    ) -> None:
        self._server = server
        self._user_agent = user_agent
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        self._posts = True  # until the server refuses POST

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

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def range(self, query: str, window: TimeRange) -> bytes:
        """Return the response to a range query.

        Raises:
            PrometheusError: the query failed.
        """
        form = {
            "query": query,
            "start": unix_seconds(window.start),
            "end": unix_seconds(window.end),
            "step": f"{window.step / _SECONDS:.3f}",
        }
        return await self._query("query_range", form)

    async def instant(self, query: str, at: int) -> bytes:
        """Return the response to an instant query.

        Raises:
            PrometheusError: the query failed.
        """
        return await self._query("query", {"query": query, "time": unix_seconds(at)})

    async def _query(self, kind: str, form: Mapping[str, str]) -> bytes:
        """Send a query with POST, because it may be long; with GET if POST isn't allowed."""
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
        reason, sentence = error_in(body)
        raise PrometheusError(
            f"{self._server.address} answered {status}: {sentence or 'without a reason'}",
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
                f"{self._server.address}: no answer: {text}", reason="unreachable", away=True
            ) from error
        except ServerError as error:
            raise PrometheusError(f"{self._server.address}: {error}", reason="too_large") from error
        seconds = asyncio.get_running_loop().time() - begun
        self._metrics.prometheus_answered(str(answer.status), method.lower(), seconds)
        return answer.status, body
