"""The webhook configuration: what it says, and how it gets to the API server.

Source: vertical-pod-autoscaler/pkg/admission-controller/config.go; admission.md 9.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from admission import registration_drift
from admission.registration_drift import RestoreBackoff
from admission.review import VPA_GROUP
from admission.settings import AdmissionSettings
from common.errors import ConflictError, DecodeError, KubeError, NotFoundError
from common.kube import ca_bundle
from common.kube.ca_bundle import CONFIGURATION_NAME, WEBHOOK_NAME
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A failing webhook must not hold up the pods that would repair it, nor those that would renew its
# certificates. The namespace itself is not exempted, because the updater acts there, too.
OWN_PODS = ("vpa-admission-controller", "vpa-certs", "vpa-recommender", "vpa-updater")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_SHORTEST_PAUSE = 1.0  # seconds between two attempts
_LONGEST_PAUSE = 30.0
_LOOK_SECONDS = 10.0  # most that a look may take: the Lease waits for it


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

    @property
    def host(self) -> str:
        """Return the name that the webhook's certificate needs."""
        if self.url:
            return urlsplit(self.url).hostname or ""
        return f"{self.service}.{self.namespace}.svc"


def of_settings(settings: AdmissionSettings, *, namespace: str) -> Registration:
    """Return what the flags say; ``namespace`` is the one that we live in.

    Labels that can't be read are left out, all of them, and logged.
    """
    labels: Mapping[str, str] = {}
    try:
        labels = parse_labels(settings.webhook_labels)
    except ValueError as error:
        logger.error("--webhook-labels are left out", extra={"error": str(error)})  # noqa: TRY400 - no bug
    by_url = f"{settings.webhook_address}:{settings.webhook_port}"
    return Registration(
        service=settings.webhook_service,
        namespace=namespace,
        url=by_url if settings.register_by_url else "",
        labels=labels,
        refuse_on_failure=settings.webhook_failure_policy_fail,
        timeout_seconds=settings.webhook_timeout_seconds,
        only_namespace=settings.vpa_object_namespace,
        ignored_namespaces=settings.ignored_vpa_object_namespaces,
    )


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


def configuration(registration: Registration, authorities: bytes) -> dict[str, Any]:
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
                "clientConfig": target | ca_bundle.field(authorities),
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


async def register(client: KubeClient, wanted: dict[str, Any]) -> dict[str, Any]:
    """Create the configuration, or bring the one that is there to the wanted state.

    It is never deleted, so there is no moment without a webhook. What is there becomes what
    would have been created, down to the labels; annotations stay. Where no CA bundle is
    wanted, the one that is there stays, too: another program may manage it. Returns what is
    stored now.

    Raises:
        KubeError: the API server refused or could not be reached.
    """
    try:
        there = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    except NotFoundError:
        try:
            return await client.create(MUTATING_WEBHOOKS, wanted)
        except ConflictError:  # another replica was faster
            there = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    # A merge patch replaces the list as a whole; a strategic one would merge old selectors
    # and an old target into the new ones.
    labels = dict.fromkeys(there["metadata"].get("labels") or ())  # null removes
    labels |= wanted["metadata"].get("labels", {})
    patch = {
        "metadata": ca_bundle.unchanged(there) | {"labels": labels},
        "webhooks": _with_bundle_of(there, wanted["webhooks"]),
    }
    return await client.patch(
        MUTATING_WEBHOOKS, CONFIGURATION_NAME, patch, patch_type=PatchType.MERGE
    )


class Registrar:
    """Keeps the configuration in step with the flags and with the CA file.

    The file is read again for each attempt: what was half written is sent once at most, and
    of two attempts at once the API server takes the one that has seen the other's. In between
    the configuration is what was sent last, whatever is in the file now: without
    ``--reload-cert`` the file is not watched, and certificates are those of our start.
    """

    def __init__(
        self, client: KubeClient, chosen: Registration, read_bundle: Callable[[], bytes]
    ) -> None:
        self._client = client
        self._chosen = chosen
        self._read_bundle = read_bundle
        self._bundle = b""  # sent last
        self._registered = False
        self._right = False  # when the configuration was seen last
        self._insistence = RestoreBackoff()
        self._warned: tuple[str, dict[str, object]] = ("", {})
        self._exempting: tuple[str, ...] = ()

    async def register(self) -> None:
        """Create the configuration, or renew it; tried until the API server accepts."""

        async def attempt() -> None:
            self._bundle = self._read_bundle()
            self._compare(await register(self._client, self._wanted()))

        await until_accepted(attempt)
        self._registered = True
        logger.info("webhook registered")

    async def renew_bundle(self, _content: bytes) -> None:
        """Send the content of the CA file to the API server, until it accepts."""

        async def attempt() -> bool:
            self._bundle = self._read_bundle()
            return await ca_bundle.write(self._client, self._bundle)

        if await until_accepted(attempt):
            logger.info("Successfully patched webhook with new client CA")

    async def in_place(self) -> bool:
        """Look once, and restore what is missing or different; return whether all is right now.

        A configuration that is gone is created at once; about one that is different we insist
        less and less (``RestoreBackoff``). Where the API server doesn't answer, what was seen last
        counts. False before the first registration.
        """
        if not self._registered:
            return False
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._look()
        except ConflictError:
            pass  # another writer, perhaps a sibling that restores it, was faster: look again later
        except (KubeError, DecodeError, TimeoutError) as error:
            text = str(error) or "no answer in time"
            self._warn_once("webhook configuration not read or not restored", error=text)
        return self._right

    async def _look(self) -> None:
        try:
            there = await self._client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME, retry=False)
        except NotFoundError:
            self._right = False
            self._compare(await register(self._client, self._wanted()))
            logger.warning("webhook configuration was missing, created it again")
            return
        different = self._compare(there)
        if not different:
            self._warned = ("", {})
            return
        fields = ", ".join(different)
        now = asyncio.get_running_loop().time()
        if not self._insistence.allows(now):
            self._warn_once("webhook configuration left as another writer wants it", fields=fields)
            return
        self._insistence = self._insistence.after(now)
        self._compare(await register(self._client, self._wanted()))
        logger.warning("webhook configuration was changed, restored it", extra={"fields": fields})

    def _wanted(self) -> dict[str, Any]:
        return configuration(self._chosen, self._bundle)

    def _compare(self, there: Mapping[str, Any]) -> tuple[str, ...]:
        """Record whether the configuration is right; return what is different."""
        wanted = self._wanted()
        different = registration_drift.differences(there, wanted)
        self._right = not different
        if (
            self._right
            and (fields := registration_drift.exemptions(there, wanted)) != self._exempting
        ):
            self._exempting = fields
            if fields:
                extra = {"fields": ", ".join(fields)}
                logger.warning("registered webhook rules are narrower than configured", extra=extra)
        return different

    def _warn_once(self, message: str, **details: object) -> None:
        """Log a warning, unless it is the one that was logged last."""
        if (message, details) != self._warned:
            self._warned = (message, details)
            logger.warning(message, extra=details)


async def until_accepted(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the API server accepts; its error is logged once for each change."""
    logged = ""
    pause = _SHORTEST_PAUSE
    while True:
        try:
            return await call()
        except (KubeError, DecodeError) as error:
            if str(error) != logged:
                logged = str(error)
                logger.warning("webhook configuration not accepted yet", extra={"error": logged})
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _with_bundle_of(
    there: Mapping[str, Any], webhooks: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    kept = {"caBundle": bundle} if (bundle := ca_bundle.stored(there)) else {}
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
