"""The webhook configuration: what it says, and how it gets to the API server.

Source: vertical-pod-autoscaler/pkg/admission-controller/config.go; admission.md 9.
"""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from admission.review import VPA_GROUP
from common.errors import ConflictError, DecodeError, KubeError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS

logger = logging.getLogger(__name__)

T = TypeVar("T")

CONFIGURATION_NAME = "vpa-webhook-config"
WEBHOOK_NAME = "vpa.k8s.io"
# A failing webhook must not hold up the pods that would repair it. The namespace itself is
# not exempted, because the updater acts there, too.
OWN_PODS = ("vpa-admission-controller", "vpa-recommender", "vpa-updater")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_SHORTEST_PAUSE = 1.0  # seconds between two attempts
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an operator can choose about the webhook."""

    service: str
    namespace: str  # of the service
    url: str = ""  # instead of the service
    labels: Mapping[str, str]
    refuse_on_failure: bool = False
    timeout_seconds: int = 30
    only_namespace: str = ""
    ignored_namespaces: tuple[str, ...] = ()


def parse_labels(text: str) -> dict[str, str]:
    """Read ``key1:value1,key2:value2``; spaces and quotes around the parts don't count.

    Raises:
        ValueError: a pair has no colon, or an empty key.
    """
    labels: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, colon, value = (part.strip().strip("\"'").strip() for part in pair.partition(":"))
        if not colon or not key:
            raise ValueError(f"not of the form key:value: {pair!r}")
        labels[key] = value
    return labels


def configuration(registration: Registration, ca_bundle: bytes) -> dict[str, Any]:
    """Build the whole MutatingWebhookConfiguration, in the API server's field names."""
    target: dict[str, Any] = (
        {"url": registration.url}
        if registration.url
        else {"service": {"namespace": registration.namespace, "name": registration.service}}
    )
    metadata: dict[str, Any] = {"name": CONFIGURATION_NAME}
    if registration.labels:
        metadata["labels"] = dict(registration.labels)
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": metadata,
        "webhooks": [
            {
                "name": WEBHOOK_NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": target | _bundle(ca_bundle),
                "rules": [
                    _rule(["CREATE"], "", "v1", "pods"),
                    _rule(["CREATE", "UPDATE"], VPA_GROUP, "*", "verticalpodautoscalers"),
                ],
                "failurePolicy": "Fail" if registration.refuse_on_failure else "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": registration.timeout_seconds,
                "namespaceSelector": _namespace_selector(registration),
                "objectSelector": _selector("app", "NotIn", OWN_PODS),
            }
        ],
    }


async def register(client: KubeClient, wanted: dict[str, Any]) -> None:
    """Create the configuration, or bring the one that is there to the wanted state.

    It is never deleted, so there is no moment without a webhook. Where no CA bundle is
    wanted, the one that is there stays: somebody else may look after it.

    Raises:
        KubeError: the API server refused or could not be reached.
    """
    try:
        there = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    except NotFoundError:
        try:
            await client.create(MUTATING_WEBHOOKS, wanted)
        except ConflictError:  # another replica was faster
            there = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
        else:
            return
    # A merge patch replaces the list as a whole; a strategic one would merge old selectors
    # and an old target into the new ones.
    patch = {
        "metadata": {"labels": wanted["metadata"].get("labels", {})},
        "webhooks": _with_bundle_of(there, wanted["webhooks"]),
    }
    await client.patch(MUTATING_WEBHOOKS, CONFIGURATION_NAME, patch, patch_type=PatchType.MERGE)


async def patch_ca(client: KubeClient, ca_bundle: bytes) -> bool:
    """Tell the API server a new authority; whether there was anything to tell.

    Raises:
        KubeError: the API server refused or could not be reached.
    """
    if not ca_bundle:
        return False
    there = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    if _bundle(ca_bundle)["caBundle"] == _bundle_in(there):
        return False
    patch = {"webhooks": [{"name": WEBHOOK_NAME, "clientConfig": _bundle(ca_bundle)}]}
    await client.patch(MUTATING_WEBHOOKS, CONFIGURATION_NAME, patch, patch_type=PatchType.STRATEGIC)
    return True


async def until_accepted(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the API server accepts; what it says is logged once for each change."""
    told = ""
    pause = _SHORTEST_PAUSE
    while True:
        try:
            return await call()
        except (KubeError, DecodeError) as error:
            if str(error) != told:
                told = str(error)
                logger.warning("webhook not registered yet", extra={"error": told})
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _bundle(ca_bundle: bytes) -> dict[str, str]:
    return {"caBundle": base64.b64encode(ca_bundle).decode()} if ca_bundle else {}


def _bundle_in(configuration: Mapping[str, Any]) -> str:
    """The CA bundle of our webhook as it is stored, in base64; empty if there is none."""
    for webhook in configuration.get("webhooks") or ():
        if webhook.get("name") == WEBHOOK_NAME:
            return str(webhook.get("clientConfig", {}).get("caBundle", ""))
    return ""


def _with_bundle_of(
    there: Mapping[str, Any], webhooks: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    kept = {"caBundle": bundle} if (bundle := _bundle_in(there)) else {}
    return [hook | {"clientConfig": kept | hook["clientConfig"]} for hook in webhooks]


def _rule(operations: list[str], group: str, version: str, resource: str) -> dict[str, Any]:
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
    }


def _namespace_selector(registration: Registration) -> dict[str, Any]:
    if registration.ignored_namespaces:
        return _selector(_NAMESPACE_LABEL, "NotIn", registration.ignored_namespaces)
    if registration.only_namespace:
        return _selector(_NAMESPACE_LABEL, "In", (registration.only_namespace,))
    return {}


def _selector(key: str, operator: str, values: tuple[str, ...]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
