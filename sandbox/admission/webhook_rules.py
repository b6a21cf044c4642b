"""Selection of admission webhooks, and their AdmissionReviews, without I/O.

Source: k8s.io/apiserver pkg/admission/plugin/webhook (predicates/rules, mutating and validating
dispatchers, request/admissionreview.go); kubernetes-resize.md section 6.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox.admission.request import AdmissionRequest
from sandbox.errors import ApiError
from sandbox.objects.label_selectors import selector_of
from sandbox.objects.resources import Resource

REVIEW: Final = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}

_EXEMPT_GROUP: Final = (
    "admissionregistration.k8s.io"  # otherwise a broken webhook couldn't be removed
)
_BODIES: Final = {
    "binding": {"group": "", "version": "v1", "kind": "Binding"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One entry of ``webhooks`` with the defaults of the API filled in."""

    name: str
    client: Mapping[str, Any]  # clientConfig
    rules: tuple[Mapping[str, Any], ...]
    ignores_failures: bool
    namespace_selector: Mapping[str, Any]
    object_selector: Mapping[str, Any]
    no_side_effects: bool
    timeout: int  # seconds

    @classmethod
    def of_configuration(cls, configuration: Mapping[str, Any]) -> Iterator["Webhook"]:
        for raw in configuration.get("webhooks") or ():
            yield cls(
                name=raw["name"],
                client=raw["clientConfig"],
                rules=tuple(raw.get("rules") or ()),
                ignores_failures=raw.get("failurePolicy") == "Ignore",
                namespace_selector=raw.get("namespaceSelector") or {},
                object_selector=raw.get("objectSelector") or {},
                no_side_effects=raw.get("sideEffects") in ("None", "NoneOnDryRun"),
                timeout=raw.get("timeoutSeconds") or 10,
            )

    def wants(self, request: AdmissionRequest, namespace_labels: Mapping[str, str] | None) -> bool:
        """Return True if rules and selectors match.

        ``namespace_labels`` are those of the request's namespace, or of the Namespace itself; None
        for other cluster objects.

        Raises:
            ApiError: 400, a dry run that the webhook doesn't support.
        """
        if not any(_rule_matches(rule, request) for rule in self.rules):
            return False
        if namespace_labels is not None:
            selector = selector_of(self.namespace_selector)
            if not selector.matches(namespace_labels):
                return False
        if not _labels_match(self.object_selector, (request.object, request.old_object)):
            return False
        if request.dry_run and not self.no_side_effects:
            raise ApiError(
                400, "BadRequest", f'admission webhook "{self.name}" does not support dry run'
            )
        return True


def is_exempt(resource: Resource) -> bool:
    """Return True if no webhook is called for this resource."""
    return resource.group == _EXEMPT_GROUP


def review(request: AdmissionRequest, uid: str, *, minor: int) -> dict[str, Any]:
    """Return the AdmissionReview for a webhook; ``minor`` is the Kubernetes version's."""
    resource = request.resource
    kind = _BODIES.get(request.subresource) or {
        "group": resource.group,
        "version": resource.version,
        "kind": resource.kind,
    }
    plural = {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
    }
    body: dict[str, Any] = {"uid": uid, "kind": kind, "resource": plural}
    if request.subresource:
        body["subResource"] = request.subresource
    body |= {"requestKind": kind, "requestResource": plural}
    if request.subresource:
        body["requestSubResource"] = request.subresource
    if request.name:
        body["name"] = request.name
    if request.namespace:
        body["namespace"] = request.namespace
    body |= {
        "operation": request.operation.value,
        "userInfo": request.user.as_json(),
        "object": _sent(request.object, minor),
        "oldObject": _sent(request.old_object, minor),
        "dryRun": request.dry_run,
        "options": request.options,
    }
    return {**REVIEW, "request": body}


def _rule_matches(rule: Mapping[str, Any], request: AdmissionRequest) -> bool:
    resource = request.resource
    return (
        _lists(rule.get("operations"), request.operation.value)
        and _lists(rule.get("apiGroups"), resource.group)
        and _lists(rule.get("apiVersions"), resource.version)
        and any(_resource_matches(text, request) for text in rule.get("resources") or ())
        and rule.get("scope") in (None, "*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _lists(values: Iterable[str] | None, value: str) -> bool:
    return any(one in ("*", value) for one in values or ())


def _resource_matches(text: str, request: AdmissionRequest) -> bool:
    """Return True if a rule's resource matches, such as ``pods``, ``pods/resize`` or ``*/*``."""
    if text == "*/*":
        return True
    resource, _, subresource = text.partition("/")
    if resource not in ("*", request.resource.plural):
        return False
    if subresource == "*":
        return bool(request.subresource)
    return subresource == request.subresource


def _labels_match(raw: Mapping[str, Any], objects: tuple[Mapping[str, Any] | None, ...]) -> bool:
    """Return True if the new or the old object has the labels."""
    selector = selector_of(raw)
    return any(
        selector.matches((obj.get("metadata") or {}).get("labels"))
        for obj in objects
        if obj is not None
    )


def _sent(obj: dict[str, Any] | None, minor: int) -> dict[str, Any] | None:
    """Return the object as the API server sends it. 1.33 sends a null creation time."""
    if obj is None or minor > 33 or "creationTimestamp" in obj["metadata"]:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": None}}
