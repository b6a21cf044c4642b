"""The webhook configuration, and its registration at the API server.

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

# Values of the label ``app`` of exempt pods. A failing webhook must not block the pods that would
# repair it. The namespace is not exempt, because the updater acts there, too.
OWN_PODS = ("vpa-admission-controller", "vpa-recommender", "vpa-updater")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_SHORTEST_PAUSE = 1.0  # seconds between two attempts
_LONGEST_PAUSE = 30.0
_CHECK_SECONDS = 10.0  # timeout of one check: the renewal of the Lease waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The operator's settings for the webhook configuration."""

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
    """Return the registration that the flags describe; ``namespace`` is that of the Service.

    If a label can't be parsed, log an error and use no labels.
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
    """Parse ``key1:value1,key2:value2``; spaces and quotes around keys and values are dropped.

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
    """Return the complete MutatingWebhookConfiguration as JSON data."""
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
    """Create or patch the configuration, and return the stored one.

    It is never deleted, so there is no moment without a webhook. The webhooks become the wanted
    ones; other labels and annotations stay. If ``wanted`` has no CA bundle, the stored one stays,
    because another program may manage it.

    Raises:
        KubeError: the API server refused or could not be reached.
    """
    try:
        stored = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    except NotFoundError:
        try:
            return await client.create(MUTATING_WEBHOOKS, wanted)
        except ConflictError:  # another replica created it
            stored = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
    # A merge patch replaces the list of webhooks. A strategic one would merge old selectors and an
    # old target into the new ones.
    patch = {
        "metadata": ca_bundle.unchanged(stored) | {"labels": wanted["metadata"].get("labels", {})},
        "webhooks": _with_bundle_of(stored, wanted["webhooks"]),
    }
    return await client.patch(
        MUTATING_WEBHOOKS, CONFIGURATION_NAME, patch, patch_type=PatchType.MERGE
    )


class Registrar:
    """Keeps the configuration up to date with the flags and with the CA file.

    Each attempt reads the file again, so that a partial file is sent at most once. Checks compare
    with the content that was sent last, not with the file: without ``--reload-cert`` the process
    uses the certificates of its start.
    """

    def __init__(
        self, client: KubeClient, chosen: Registration, read_bundle: Callable[[], bytes]
    ) -> None:
        self._client = client
        self._chosen = chosen
        self._read_bundle = read_bundle
        self._bundle = b""  # sent last
        self._registered = False
        self._right = False  # the configuration was right at the last check
        self._was_changed = False  # the last check found it changed
        self._backoff = RestoreBackoff()
        self._warned: tuple[str, dict[str, object]] = ("", {})
        self.differences: tuple[str, ...] = ()  # of the stored configuration at the last check
        self.exemptions: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Return whether the configuration was right at the last check."""
        return self._registered and self._right

    async def register(self) -> None:
        """Create or update the configuration; retry until the API server accepts it."""

        async def attempt() -> None:
            self._bundle = self._read_bundle()
            self._compare(await register(self._client, self.configuration()))

        await until_accepted(attempt)
        self._registered = True
        logger.info("webhook registered")

    async def renew_bundle(self) -> None:
        """Write the CA file to the configuration; retry until the API server accepts it.

        Before the registration do nothing, because it reads the file itself.
        """
        if not self._registered:
            return

        async def attempt() -> bool:
            self._bundle = self._read_bundle()
            return await ca_bundle.write(self._client, self._bundle)

        if await until_accepted(attempt):
            logger.info("Successfully patched webhook with new client CA")

    async def in_place(self) -> bool:
        """Check the configuration, restore it if needed, and return whether it is right.

        Create a missing configuration at once. Restore a changed one with ``RestoreBackoff`` if two
        checks in a row find it changed: a process that is being replaced ends before the second
        one, and leaves what its successor has registered. If the API server doesn't answer, return
        the result of the last check. Return False before the first registration.
        """
        if not self._registered:
            return False
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await self._check()
        except ConflictError:
            pass  # another client, perhaps another replica, changed it: check again later
        except (KubeError, DecodeError, TimeoutError) as error:
            text = str(error) or "no answer in time"
            self._warn_once("webhook configuration not read or not restored", error=text)
        return self.right

    async def _check(self) -> None:
        try:
            stored = await self._client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME, retry=False)
        except NotFoundError:
            self._right = False
            self._compare(await register(self._client, self.configuration()))
            logger.warning("webhook configuration was missing, created it again")
            return
        different = self._compare(stored)
        was_changed, self._was_changed = self._was_changed, bool(different)
        if not different:
            self._warned = ("", {})
            return
        if not was_changed:
            return
        fields = ", ".join(different)
        now = asyncio.get_running_loop().time()
        if not self._backoff.allows(now):
            self._warn_once("webhook configuration left as another writer wants it", fields=fields)
            return
        self._backoff = self._backoff.after(now)
        self._compare(await register(self._client, self.configuration()))
        logger.warning("webhook configuration was changed, restored it", extra={"fields": fields})

    def configuration(self) -> dict[str, Any]:
        """Return the wanted configuration."""
        return configuration(self._chosen, self._bundle)

    def _compare(self, stored: Mapping[str, Any]) -> tuple[str, ...]:
        """Record whether the configuration is right, and return the fields that differ."""
        wanted = self.configuration()
        different = self.differences = registration_drift.differences(stored, wanted)
        self._right = not different
        if (
            self._right
            and (fields := registration_drift.exemptions(stored, wanted)) != self.exemptions
        ):
            self.exemptions = fields
            if fields:
                extra = {"fields": ", ".join(fields)}
                logger.warning("registered webhook rules are narrower than configured", extra=extra)
        return different

    def _warn_once(self, message: str, **details: object) -> None:
        """Log a warning, unless it equals the last one."""
        if (message, details) != self._warned:
            self._warned = (message, details)
            logger.warning(message, extra=details)


async def until_accepted(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the API server accepts. An error is logged when it differs from the last one."""
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
    stored: Mapping[str, Any], webhooks: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    kept = {"caBundle": bundle} if (bundle := ca_bundle.stored(stored)) else {}
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
