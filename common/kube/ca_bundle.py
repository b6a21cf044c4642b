"""Reading and writing the webhook configuration's CA bundle, for admission and certs.

Both write the same bytes, those of the Secret's CA file, so neither reverts the other's change.
"""

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Any

from common.errors import NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS

logger = logging.getLogger(__name__)

CONFIGURATION_NAME = "vpa-webhook-config"
WEBHOOK_NAME = "vpa.k8s.io"


def field(bundle: bytes) -> dict[str, str]:
    """Return the fields of ``clientConfig`` for a bundle; none for an empty one."""
    return {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}


def stored(configuration: Mapping[str, Any]) -> str:
    """Return the stored CA bundle of our webhook, in base64; empty if there is none."""
    for webhook in configuration.get("webhooks") or ():
        if webhook.get("name") == WEBHOOK_NAME:
            return str(webhook.get("clientConfig", {}).get("caBundle", ""))
    return ""


async def read(client: KubeClient, name: str = CONFIGURATION_NAME) -> bytes:
    """Return the CA bundle that API servers trust; empty if it or our webhook is missing.

    Raises:
        KubeError: the API server refused or could not be reached.
    """
    try:
        there = await client.get(MUTATING_WEBHOOKS, name)
        return base64.b64decode(stored(there))
    except (NotFoundError, binascii.Error):
        return b""


async def write(client: KubeClient, bundle: bytes, name: str = CONFIGURATION_NAME) -> bool:
    """Write ``bundle`` to the webhook configuration; return whether it changed.

    The write has the resource version that was read, so a concurrent writer causes a conflict.

    Raises:
        ConflictError: another client changed the configuration meanwhile.
        NotFoundError: there is no configuration of this name.
        KubeError: the API server refused or could not be reached.
    """
    if not bundle:
        return False
    there = await client.get(MUTATING_WEBHOOKS, name)
    if field(bundle)["caBundle"] == stored(there):
        return False
    webhooks = there.get("webhooks") or ()  # none before admission has registered it
    if not any(each.get("name") == WEBHOOK_NAME for each in webhooks):
        if webhooks:
            extra = {"configuration": name, "webhook": WEBHOOK_NAME}
            logger.warning("no such webhook", extra=extra)
        return False
    patch = {
        "metadata": unchanged(there),
        "webhooks": [{"name": WEBHOOK_NAME, "clientConfig": field(bundle)}],
    }
    await client.patch(MUTATING_WEBHOOKS, name, patch, patch_type=PatchType.STRATEGIC)
    return True


def unchanged(there: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata that makes a patch fail with a conflict if ``there`` is outdated."""
    version = there["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}
