"""Kubeconfigs, merged as kubectl merges them, and read by a library.

The library supports their forms, exec plugins and providers. Only this module imports
``kubernetes_asyncio``, and it is imported only if there is a kubeconfig: the library takes 36 MiB
and a third of a second. Nothing else of it is used.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
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
_KINDS = ("clusters", "contexts", "users")
# Fields of a cluster or a user that name a file.
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

# In memory, and writable in a container with a read-only root file system.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - files in it are created with mkstemp
_NO_FOLDER = (
    "inline certificates and keys need a writable folder for temporary files: make "
    f"{_SHARED_MEMORY} or /tmp writable, or name another folder in the environment variable TMPDIR"
)

Load = Callable[[], Awaitable[tuple[Configuration, Any]]]


async def load(files: Sequence[str], *, context: str = "") -> Connection:
    """Return the connection that a context of the merged files describes.

    Without ``context`` it is the current context. Of several files those that don't exist are
    skipped. Tokens of exec plugins are renewed when they expire.

    Raises:
        ConfigError: a file is broken, or none exists.
    """
    read = _reader(files, context)
    source = _source(files)
    try:
        configuration, loader = await read()
        return _connection(configuration, loader, read)
    except FileNotFoundError as error:
        raise ConfigError(f"{source}: {_missing(error, files)}") from error
    except ssl.SSLError as error:
        raise ConfigError(f"{source}: unusable certificate or key: {error}") from error
    except (AttributeError, KeyError, AssertionError) as error:
        raise ConfigError(f"{source}: malformed: {one_line(error)}") from error
    except _UNUSABLE as error:
        raise ConfigError(f"{source}: {one_line(error)}") from error


def _missing(error: FileNotFoundError, files: Sequence[str]) -> str:
    """Return what is missing, for a message that already has the names of the kubeconfigs."""
    if not error.filename:  # from tempfile, the only one without a name
        return _NO_FOLDER
    if Path(error.filename) in (Path(file).absolute() for file in files):
        return "no such file"
    return f"no such file: {error.filename}"


def contexts(files: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the names of all contexts of the merged files, and that of the current one or "".

    Raises:
        ConfigError: a file is broken, or none exists.
    """
    try:
        merged = _joined(_paths(files))
        return tuple(str(each["name"]) for each in merged["contexts"]), merged["current-context"]
    except FileNotFoundError as error:
        raise ConfigError(f"{_source(files)}: {_missing(error, files)}") from error
    except _UNUSABLE as error:
        raise ConfigError(f"{_source(files)}: {one_line(error)}") from error


def _source(files: Sequence[str]) -> str:
    return f"kubeconfig {os.pathsep.join(files)}"


def _paths(files: Sequence[str]) -> list[Path]:
    return [Path(file).expanduser().absolute() for file in files]


def _merged(files: Sequence[Path], context: str) -> dict[str, Any]:
    """Return the joined content of the files with a context: the given one, else the current one.

    Raises:
        FileNotFoundError: no file exists.
    """
    merged = _joined(files)
    context = context or merged["current-context"]
    if not context:
        raise ValueError("no current-context, and no --context")
    merged["current-context"] = context
    merged["users"].append({"name": _NO_USER, "user": {}})
    return merged


def _joined(files: Sequence[Path]) -> dict[str, Any]:
    """Return the content of the files that exist, joined as kubectl does.

    A name of a cluster, context or user belongs to the first file that has it, and the first file
    that sets ``current-context`` wins. Paths are relative to their file.

    Source: ``ClientConfigLoadingRules.Load`` and ``ResolveLocalPaths``,
    k8s.io/client-go/tools/clientcmd/loader.go.

    Raises:
        FileNotFoundError: no file exists.
    """
    joined: dict[str, Any] = {kind: [] for kind in _KINDS}
    joined["current-context"] = ""
    existing = [file for file in files if file.exists()] or files[:1]
    for file in existing:
        content = _content(file)
        for kind in _KINDS:
            taken = {entry["name"] for entry in joined[kind]}
            joined[kind] += [entry for entry in content[kind] if entry["name"] not in taken]
        joined["current-context"] = (
            joined["current-context"] or content.get("current-context") or ""
        )
    return joined


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a file, after checks for mistakes that crash the library."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {one_line(error)}") from error
    content = {} if content is None else content  # an empty file
    if not isinstance(content, dict):
        raise TypeError("not a mapping")
    for kind in _KINDS:
        content[kind] = content.get(kind) or []
        if not isinstance(content[kind], list):
            raise TypeError(f"{kind} is not a list")
    for entry in content["contexts"]:
        context = entry.get("context")
        if isinstance(context, dict) and not context.get("user"):
            context["user"] = _NO_USER  # a user is optional, but not for the library
    for kind, key in (("clusters", "cluster"), ("users", "user")):
        for entry in content[kind]:
            if isinstance(entry.get(key), dict):
                _resolve_paths(entry[key], path.parent)
    return content


def _resolve_paths(settings: dict[str, Any], folder: Path) -> None:
    """Make the paths in the settings of a cluster or a user absolute."""
    for key in _PATHS:
        if settings.get(key):
            settings[key] = str(folder / settings[key])
    plugin = settings.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command")):
        plugin["command"] = str(folder / plugin["command"])  # else it is searched in PATH


def _reader(files: Sequence[str], context: str) -> Load:
    paths = _paths(files)
    chosen = context

    async def read() -> tuple[Configuration, Any]:
        nonlocal chosen
        content = await asyncio.to_thread(_merged, paths, chosen)
        # A current context that changes later has credentials for another server.
        chosen = content["current-context"]
        memory = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        loader = library.KubeConfigLoader(content, temp_file_path=memory)
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
        namespace=str(loader.current_context["context"].get("namespace") or ""),
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
