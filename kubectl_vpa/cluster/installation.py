"""The facts of ``kubectl vpa doctor``: the API, the components, the webhook, its certificates."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from cryptography import x509

from common.api.coordination import Lease
from common.api.core import ResourceQuota
from common.certificates import is_issued_by
from common.errors import DecodeError, ForbiddenError, KubeError, NotFoundError
from common.kube import discovery
from common.kube.ca_bundle import CONFIGURATION_NAME, WEBHOOK_NAME
from common.kube.endpoints import (
    CHECKPOINTS,
    LEASES,
    MUTATING_WEBHOOKS,
    POD_METRICS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    Endpoint,
)
from common.read_api.reviews import ACCESS_REVIEWS, ENDPOINT_SLICES
from kubectl_vpa.cluster.needed_permissions import needed_by
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.component_pods import component_pod
from kubectl_vpa.judge.findings import (
    COMPONENTS,
    Certificate,
    ComponentPod,
    Webhook,
)

Object = dict[str, Any]

SERVICES: Endpoint[Object] = Endpoint("", "v1", "services", "Service", dict[str, Any])
_CERTIFICATE_KEYS = ("serverCert.pem", "tls.crt")
_SECRETS = ("vpa-tls-certs",)
_CONCURRENT_REVIEWS = 8


async def cluster_minor(reader: Reader) -> int | None:
    """Return the minor version of Kubernetes 1.x."""
    try:
        found = msgspec.json.decode(await reader.client.request("GET", "/version"))
        return int(str(found["minor"]).rstrip("+"))
    except (KubeError, msgspec.DecodeError, KeyError, ValueError):
        return None


async def served_resources(reader: Reader, group: str, version: str) -> Sequence[str] | None:
    """Return the resources of a version of a group; none if it isn't served; None if unknown."""
    try:
        return await discovery.served_resources(reader.client, group, version)
    except ForbiddenError:
        return None


async def usage_times(reader: Reader) -> tuple[Sequence[datetime] | None, str]:
    """Return the times of the usage of pods, and what is wrong with the metrics API."""
    try:
        listing = await reader.client.list(POD_METRICS, namespace=reader.namespace)
    except ForbiddenError:
        return None, ""
    except NotFoundError:
        return None, "the metrics API isn't served"
    except (KubeError, DecodeError) as error:
        return None, f"the metrics API fails: {error}"
    times = [each.timestamp for each in listing.items if each.timestamp is not None]
    return times, ""


async def component_pods(reader: Reader) -> Sequence[ComponentPod] | None:
    """Return the pods of the components in all namespaces."""
    every = reader.elsewhere("")
    selector = f"app in ({','.join(COMPONENTS)})"
    pods = await every.list(PODS.as_dicts(), label_selector=selector)
    return None if pods is None else tuple(map(component_pod, pods))


async def component_leases(
    reader: Reader, pods: Sequence[ComponentPod]
) -> Mapping[tuple[str, str], Lease] | None:
    """Return the Leases in the namespaces of the components."""
    found: dict[tuple[str, str], Lease] = {}
    for namespace in sorted({pod.namespace for pod in pods}):
        leases = await reader.elsewhere(namespace).list(LEASES)
        if leases is None:
            return None
        found |= {(namespace, each.metadata.name): each for each in leases}
    return found


async def denied_permissions(
    reader: Reader, pods: Sequence[ComponentPod]
) -> Mapping[str, Sequence[str]] | None:
    """Return the permissions that accounts of components lack: ``list pods.metrics.k8s.io``."""
    limit = asyncio.Semaphore(_CONCURRENT_REVIEWS)
    denied: dict[str, list[str]] = {pod.account: [] for pod in pods}
    needed = {
        (pod.account, pod.namespace, *permission)
        for pod in pods
        for access in needed_by(pod)
        for permission in access.permissions()
    }

    async def review(account: str, namespace: str, attributes: Mapping[str, str]) -> None:
        # Leases are in the namespace of the component, everything else in all namespaces.
        scope = {"namespace": namespace} if attributes["resource"] == "leases" else {}
        spec: Object = {"user": account, "groups": _groups(namespace)}
        spec["resourceAttributes"] = {**attributes, **scope}
        async with limit:
            answer = await reader.client.create(ACCESS_REVIEWS.as_dicts(), {"spec": spec})
        if not (answer.get("status") or {}).get("allowed"):
            kind = ".".join(filter(None, (attributes["resource"], attributes["group"])))
            target = "/".join(filter(None, (kind, attributes["subresource"])))
            denied[account].append(f"{attributes['verb']} {target}")

    try:
        async with asyncio.TaskGroup() as group:
            for account, namespace, api_group, resource, verb, name in needed:
                plain, _, subresource = resource.partition("/")
                attributes = {
                    "group": api_group,
                    "resource": plain,
                    "subresource": subresource,
                    "verb": verb,
                    "name": name,
                }
                group.create_task(review(account, namespace, attributes))
    except* KubeError:
        denied.clear()
    return {name: sorted(each) for name, each in denied.items()} or None


def _groups(namespace: str) -> list[str]:
    return [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]


async def registered_webhooks(reader: Reader) -> Sequence[Webhook] | None:
    """Return the webhooks of VPAs, ours or the reference's, with the state of their Services."""
    configurations = await reader.list(MUTATING_WEBHOOKS)
    if configurations is None:
        return None
    return [
        await _webhook(reader, each["metadata"]["name"], hook)
        for each in configurations
        for hook in each.get("webhooks") or ()
        if each["metadata"]["name"] == CONFIGURATION_NAME or hook.get("name") == WEBHOOK_NAME
    ]


async def _webhook(reader: Reader, configuration: str, hook: Mapping[str, Any]) -> Webhook:
    client = hook.get("clientConfig") or {}
    service = client.get("service") or {}
    bundle = _decoded(client.get("caBundle"))
    namespace, name = str(service.get("namespace", "")), str(service.get("name", ""))
    exists, ready = await _service(reader, namespace, name) if name else (None, None)
    return Webhook(
        configuration=configuration,
        url=str(client.get("url", "")),
        namespace=namespace,
        service=name,
        ca_bundle=bundle,
        expires=last_end(bundle),
        service_exists=exists,
        ready_endpoints=ready,
    )


async def _service(reader: Reader, namespace: str, name: str) -> tuple[bool | None, int | None]:
    """Return whether a Service exists, and the number of its ready endpoints."""
    try:
        service = await reader.client.get(SERVICES, name, namespace=namespace)
    except NotFoundError:
        return False, None
    except KubeError:
        return None, None
    if (service.get("spec") or {}).get("type") == "ExternalName":
        return True, None
    selector = f"kubernetes.io/service-name={name}"
    slices = await reader.elsewhere(namespace).list(
        ENDPOINT_SLICES.as_dicts(), label_selector=selector
    )
    if slices is None:
        return True, None
    ready = [
        each
        for slice_ in slices
        for each in slice_.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
    ]
    return True, len(ready)


async def serving_certificates(
    reader: Reader, webhooks: Sequence[Webhook]
) -> Sequence[Certificate]:
    """Return the end of the serving certificates in the Secrets beside the webhooks' Services."""
    found = []
    for namespace in sorted({each.namespace for each in webhooks if each.namespace}):
        for name in _SECRETS:
            try:
                secret = await reader.client.get(SECRETS, name, namespace=namespace)
            except (KubeError, DecodeError):
                continue  # the check says that no certificate could be read
            data = secret.get("data") or {}
            text = next((data[key] for key in _CERTIFICATE_KEYS if key in data), "")
            if served := _parsed(_decoded(text)):
                authorities = {
                    each.configuration: _parsed(each.ca_bundle)
                    for each in webhooks
                    if each.namespace == namespace
                }
                found.append(
                    Certificate(
                        secret=f"{namespace}/{name}",
                        expires=served[0].not_valid_after_utc,
                        untrusted_by=_untrusting(served, authorities),
                    )
                )
    return found


def _untrusting(
    served: Sequence[x509.Certificate], authorities: Mapping[str, Sequence[x509.Certificate]]
) -> str:
    """Return a configuration with a CA that signed nothing of a chain; empty if there is none."""
    for configuration, trusted in authorities.items():
        if trusted and not any(
            each == one or is_issued_by(each, one) for each in served for one in trusted
        ):
            return configuration
    return ""


def last_end(pem: bytes) -> datetime | None:
    """Return when the last of the certificates ends; None if there is none."""
    return max((each.not_valid_after_utc for each in _parsed(pem)), default=None)


def _parsed(pem: bytes) -> Sequence[x509.Certificate]:
    """Return certificates; none if they are unreadable."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text or ""), validate=True)
    except binascii.Error:
        return b"unreadable"


async def read_quotas(reader: Reader) -> Sequence[ResourceQuota] | None:
    """Return the quotas of the scope."""
    return await reader.list(RESOURCE_QUOTAS)


async def read_checkpoints(reader: Reader) -> Sequence[tuple[str, str, str]] | None:
    """Return namespace, name and VPA of the checkpoints of the scope."""
    found = await reader.list(CHECKPOINTS)
    if found is None:
        return None
    return [
        (each.metadata.namespace, each.metadata.name, each.spec.vpa_object_name) for each in found
    ]
