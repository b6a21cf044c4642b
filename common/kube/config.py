"""Configuration of the connection: from a pod's service account, or from kubeconfigs."""

import asyncio
import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from common.errors import ConfigError
from common.kube.connection import Connection, client_context, one_line

logger = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod with its token and the CA of the API server."""

KUBECONFIG = "KUBECONFIG"
"""The environment variable with the names of kubeconfigs, separated by colons."""

_ADDRESS = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_TOKEN_SECONDS = 60.0  # until the file is read again; the kubelet rotates tokens in time


async def load(
    kubeconfig: str,
    context: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
    default: str = "",
) -> Connection:
    """Return the connection to the API server.

    Its source is the first of these: the file ``kubeconfig``, the service account of our own pod,
    the files of the environment variable KUBECONFIG, the file ``default``. A ``context`` means a
    kubeconfig, also in a pod. With every source, the client reads the credentials again after a
    401.

    Raises:
        ConfigError: a file is missing or broken, or there is no source.
    """
    pod = runs_in_pod(environ)
    files = kubeconfig_files(kubeconfig, context, environ=environ, pod=pod, default=default)
    if not files and context:
        raise ConfigError("--context needs a file: name it with --kubeconfig or KUBECONFIG")
    if not files:
        return await asyncio.to_thread(in_pod, environ)
    # Imported here, because it takes 36 MiB and a third of a second, and a pod doesn't need it.
    from common.kube import kubeconfig as file  # noqa: PLC0415 - see above

    return await file.load(files, context=context)


async def contexts(
    kubeconfig: str, *, environ: Mapping[str, str] = os.environ, default: str = ""
) -> tuple[tuple[str, ...], str]:
    """Return the names of all contexts, and that of the current one; none in a pod.

    Raises:
        ConfigError: a file is missing or broken.
    """
    pod = runs_in_pod(environ)
    files = kubeconfig_files(kubeconfig, "", environ=environ, pod=pod, default=default)
    if not files:
        return (), ""
    from common.kube import kubeconfig as file  # noqa: PLC0415 - as in ``load``

    return await asyncio.to_thread(file.contexts, files)


def kubeconfig_files(
    kubeconfig: str, context: str, *, environ: Mapping[str, str], pod: bool, default: str
) -> tuple[str, ...]:
    """Return the kubeconfigs to merge; none means the service account of our own pod.

    In a pod, kubeconfigs are used only if a flag asks for them. A variable that a pod inherits
    therefore doesn't replace its account.
    """
    if kubeconfig:
        return (kubeconfig,)
    if pod and not context:
        return ()
    listed = dict.fromkeys(filter(None, environ.get(KUBECONFIG, "").split(os.pathsep)))
    return tuple(listed) or ((default,) if default else ())


def runs_in_pod(environ: Mapping[str, str], folder: Path | None = None) -> bool:
    """Return True if we run in a pod with a service account.

    Source: ``inClusterClientConfig.Possible``, k8s.io/client-go/tools/clientcmd/client_config.go.
    """
    token = (folder or SERVICE_ACCOUNT) / "token"
    return all(map(environ.get, _ADDRESS)) and token.is_file()


def in_pod(environ: Mapping[str, str], folder: Path | None = None) -> Connection:
    """Return the connection of the service account whose files are in ``folder``.

    Raises:
        ConfigError: we don't run in a pod, or a file can't be used.
    """
    folder = folder or SERVICE_ACCOUNT
    host, port = map(environ.get, _ADDRESS)
    if not host or not port:
        raise _unusable(f"{' or '.join(_ADDRESS)} is not set")
    token = TokenFile(folder / "token")
    try:
        token.read()
        context = client_context(ca_file=str(folder / "ca.crt"))
    except ssl.SSLError as error:
        raise _unusable(f"unusable certificate {folder / 'ca.crt'}: {error}") from error
    except (OSError, ValueError) as error:
        raise _unusable(one_line(error)) from error
    authority = f"[{host}]" if ":" in host else host
    return Connection(f"https://{authority}:{port}", ssl_context=context, credentials=token)


class TokenFile:
    """The token of a service account; it is read again after a minute, or when refused.

    While the file can't be read, the last token stays in use.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._token = ""
        self._due: float | None = None  # the event loop's time; None before the first request

    def read(self) -> None:
        """Read the file.

        Raises:
            OSError: it can't be read.
            ValueError: it is empty, or no text.
        """
        token = self._file.read_text(encoding="ascii").strip()
        if not token:
            raise ValueError(f"{self._file} is empty")
        self._token = token

    async def authorization(self) -> str:
        """Return the header's value."""
        now = asyncio.get_running_loop().time()
        if self._due is None:
            self._due = now + _TOKEN_SECONDS
        elif now >= self._due:
            await self.renew()
        return f"Bearer {self._token}"

    async def renew(self) -> None:
        """Read the file again; log a failure."""
        self._due = asyncio.get_running_loop().time() + _TOKEN_SECONDS
        try:
            await asyncio.to_thread(self.read)
        except (OSError, ValueError) as error:
            logger.warning("token not read, keeping the old one", extra={"error": one_line(error)})


def _unusable(problem: str) -> ConfigError:
    return ConfigError(
        f"in-cluster configuration: {problem} "
        "(outside a pod, name a file with --kubeconfig or KUBECONFIG)"
    )
