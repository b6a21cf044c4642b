"""The CA bundle that API servers trust, in the webhook configuration if there is one."""

import contextlib
import logging
from typing import Protocol

from common.errors import NotFoundError
from common.kube import ca_bundle
from common.kube.client import KubeClient

logger = logging.getLogger(__name__)


class CaBundleStore(Protocol):
    """A store of the CA bundle that API servers trust."""

    async def read(self) -> bytes:
        """Return the current bundle as PEM; empty if there is none."""
        ...

    async def write(self, bundle: bytes) -> None:
        """Store ``bundle``; raise ConflictError if another client changed it meanwhile."""
        ...


class NoCaBundle:
    """No CA bundle: only files are written, or another program manages the webhook."""

    async def read(self) -> bytes:
        return b""

    async def write(self, bundle: bytes) -> None:
        pass


class WebhookCaBundle:
    """The CA bundle of the webhook configuration.

    If there is no configuration, admission creates it with its CA file.
    """

    def __init__(self, client: KubeClient, name: str) -> None:
        self._client = client
        self._name = name

    async def read(self) -> bytes:
        """Read the CA bundle.

        Raises:
            KubeError: the API server refused or could not be reached.
        """
        return await ca_bundle.read(self._client, self._name)

    async def write(self, bundle: bytes) -> None:
        """Write the CA bundle if it differs.

        Raises:
            KubeError: the API server refused or could not be reached.
        """
        with contextlib.suppress(NotFoundError):
            if await ca_bundle.write(self._client, bundle, self._name):
                logger.info("webhook trusts the authority", extra={"webhook": self._name})
