"""What is filled in of what is reached over the network: Services, endpoints, webhooks.

Each function completes an object in place. Source: as for :mod:`sandbox.objects.defaults`.
"""

from typing import Any

Json = dict[str, Any]

_AFFINITY = 10800  # seconds for which a Service sends a client to the same pod


def service(obj: Json) -> None:
    """A Service inside the cluster; every port leads to the same port of a pod."""
    spec = obj.setdefault("spec", {})
    if spec.setdefault("sessionAffinity", "None") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", _AFFINITY)
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    for name in ("externalName", "selector"):
        if not spec.get(name):
            spec.pop(name, None)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
        if not port.get("name"):
            port.pop("name", None)


def endpoints(obj: Json) -> None:
    """Ports are TCP's."""
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def endpoint_slice(obj: Json) -> None:
    """Ports are TCP's, and every endpoint has conditions, if none is known."""
    for endpoint in obj.get("endpoints") or ():
        endpoint.setdefault("conditions", {})
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def mutating_webhooks(obj: Json) -> None:
    """As for validating ones, and nobody is asked twice."""
    validating_webhooks(obj)
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("reinvocationPolicy", "Never")


def validating_webhooks(obj: Json) -> None:
    """A webhook that says nothing in ten seconds has failed, and then nothing goes."""
    if not obj.get("webhooks"):
        obj.pop("webhooks", None)
    for webhook in obj.get("webhooks") or ():
        _webhook(webhook)


def _webhook(webhook: Json) -> None:
    if not webhook.get("rules"):
        webhook.pop("rules", None)
    webhook.setdefault("failurePolicy", "Fail")
    webhook.setdefault("matchPolicy", "Equivalent")
    webhook.setdefault("namespaceSelector", {})
    webhook.setdefault("objectSelector", {})
    webhook.setdefault("timeoutSeconds", 10)
    for rule in webhook.get("rules") or ():
        rule.setdefault("scope", "*")
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
