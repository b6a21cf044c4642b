"""Whom API servers trust: the CA bundle of the webhook configuration, if there is one."""

import contextlib
import logging
from typing import Protocol

from common.errors import NotFoundError
from common.kube import ca_bundle
from common.kube.client import KubeClient

logger = logging.getLogger(__name__)


class CaBundleStore(Protocol):
    """Where it is written which authorities API servers trust."""

    async def read(self) -> bytes:
        """Return what they trust now, as PEM; empty if nothing."""
        ...

    async def write(self, bundle: bytes) -> None:
        """Make them trust ``bundle``; raises ConflictError if another writer was faster."""
        ...


class NoCaBundle:
    """For files alone, or a webhook that is managed elsewhere."""

    async def read(self) -> bytes:
        return b""

    async def write(self, bundle: bytes) -> None:
        pass


class WebhookCaBundle:
    """The webhook configuration; where there is none, admission makes it with its CA file."""

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
        """Write the CA bundle, unless it is there.

        Raises:
            KubeError: the API server refused or could not be reached.
        """
        with contextlib.suppress(NotFoundError):
            if await ca_bundle.write(self._client, bundle, self._name):
                logger.info("webhook trusts the authority", extra={"webhook": self._name})
