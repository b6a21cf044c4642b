"""Kubeconfigs, read by a library that supports their forms, exec plugins and providers.

Only this module imports ``kubernetes_asyncio``, and it is imported only if there is a kubeconfig:
the library takes 36 MiB and a third of a second. Nothing else of it is used.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config import kube_config as library

from common.errors import ConfigError
from common.kube.connection import Connection, client_context, one_line

logger = logging.getLogger(__name__)

# Exceptions of the library for malformed files, because it checks no types.
_UNUSABLE = (
    ConfigException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
)

_NO_USER = "(none)"

Load = Callable[[], Awaitable[tuple[Configuration, Any]]]


async def load(kubeconfig: str) -> Connection:
    """Return the connection that the file describes.

    Tokens of exec plugins are renewed when they expire.

    Raises:
        ConfigError: the file is missing or broken.
    """
    read = _reader(Path(kubeconfig))
    source = f"kubeconfig {kubeconfig}"
    try:
        configuration, loader = await read()
        return _connection(configuration, loader, read)
    except FileNotFoundError as error:
        raise ConfigError(f"{source}: no such file{_other(error, kubeconfig)}") from error
    except ssl.SSLError as error:
        raise ConfigError(f"{source}: unusable certificate or key: {error}") from error
    except (AttributeError, KeyError, AssertionError) as error:
        raise ConfigError(f"{source}: malformed: {one_line(error)}") from error
    except _UNUSABLE as error:
        raise ConfigError(f"{source}: {one_line(error)}") from error


def _other(error: FileNotFoundError, kubeconfig: str) -> str:
    """Return the missing file for the message, which already has the name of the kubeconfig."""
    missing = error.filename
    if not missing or Path(missing) == Path(kubeconfig).absolute():
        return ""
    return f": {missing}"


def _content(path: Path) -> dict[str, Any]:
    """Return the content of the file, after checks for mistakes that crash the library."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {one_line(error)}") from error
    if not isinstance(content, dict):
        raise TypeError("empty, or not a mapping")
    for key in ("clusters", "contexts"):
        if not isinstance(content.get(key), list):
            raise TypeError(f"no list of {key}")
    for each in content["contexts"]:
        context = each.get("context")
        if isinstance(context, dict) and not context.get("user"):
            context["user"] = _NO_USER  # a user is optional, but not for the library
    content["users"] = [*(content.get("users") or []), {"name": _NO_USER, "user": {}}]
    return content


def _reader(path: Path) -> Load:
    where = path.expanduser().absolute()

    async def read() -> tuple[Configuration, Any]:
        content = await asyncio.to_thread(_content, where)
        loader = library.KubeConfigLoader(content, config_base_path=str(where.parent))
        configuration = Configuration()
        await loader.load_and_set(configuration)
        return configuration, loader

    return read


def _connection(configuration: Configuration, loader: Any, read: Load) -> Connection:
    url = configuration.host or ""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"the server {url!r} is not of the form https://host:port")
    context: ssl.SSLContext | None = None
    if url.startswith("https://"):
        context = client_context(
            ca_file=configuration.ssl_ca_cert, verify=bool(configuration.verify_ssl)
        )
        _load_key_pair(context, configuration)
    return Connection(
        url,
        ssl_context=context,
        server_hostname=configuration.tls_server_name or "",
        proxy=configuration.proxy or "",
        credentials=_LoadedCredentials(configuration, loader, read, context),
    )


def _load_key_pair(context: ssl.SSLContext, configuration: Configuration) -> None:
    """Load a client certificate, and delete the library's copy of its key.

    The library writes inline data of a kubeconfig to temporary files, because OpenSSL reads only
    files, and keeps them until the process ends.
    """
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    library._cleanup_temp_files()  # noqa: SLF001 - there is no public way


class _LoadedCredentials:
    """The library's credentials, read again when they are due or refused."""

    def __init__(
        self,
        configuration: Configuration,
        loader: Any,
        read: Load,
        context: ssl.SSLContext | None,
    ) -> None:
        self._configuration = configuration
        self._loader = loader
        self._read = read
        self._context = context

    async def authorization(self) -> str:
        """Return the header; run the exec plugin again if its token has expired."""
        if hasattr(self._loader, "exec_plugin_expiry"):
            await self._run_plugin()
        try:
            value = await self._configuration.get_api_key_with_prefix("BearerToken")
        except _UNUSABLE as error:
            logger.warning("token not read, keeping the old one", extra={"error": str(error)})
            value = self._configuration.api_key.get("BearerToken", "")
        return (value or "").strip()

    async def renew(self) -> None:
        """Read everything again; new connections use a changed client certificate."""
        try:
            self._configuration, self._loader = await self._read()
            if self._context is not None:
                _load_key_pair(self._context, self._configuration)
        except _UNUSABLE as error:
            logger.warning("credentials not renewed", extra={"error": one_line(error)})

    async def _run_plugin(self) -> None:
        """Run the exec plugin through the library, which does so if its answer has expired."""
        try:
            await self._loader.load_from_exec_plugin()
        except _UNUSABLE as error:
            logger.warning("exec plugin failed", extra={"error": one_line(error)})
            return
        if token := getattr(self._loader, "token", ""):
            self._configuration.api_key["BearerToken"] = token
