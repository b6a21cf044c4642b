"""Configuration of the connection: from a pod's service account, or from a kubeconfig."""

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

_TOKEN_SECONDS = 60.0  # until the file is read again; the kubelet rotates tokens in time


async def load(kubeconfig: str, environ: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection that the kubeconfig describes; without one, that of our own pod.

    With either source, the client reads the credentials again after a 401.

    Raises:
        ConfigError: a file is missing or broken, or we don't run in a pod.
    """
    if not kubeconfig:
        return await asyncio.to_thread(in_pod, environ)
    # Imported here, because it takes 36 MiB and a third of a second, and a pod doesn't need it.
    from common.kube import kubeconfig as file  # noqa: PLC0415 - see above

    return await file.load(kubeconfig)


def in_pod(environ: Mapping[str, str], folder: Path | None = None) -> Connection:
    """Return the connection of the service account whose files are in ``folder``.

    Raises:
        ConfigError: we don't run in a pod, or a file can't be used.
    """
    folder = folder or SERVICE_ACCOUNT
    host, port = (environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    if not host or not port:
        raise _unusable("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
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
        f"in-cluster configuration: {problem} (outside a pod, name a file with --kubeconfig)"
    )
