"""Defaults that the API server fills in when it decodes an object of a built-in kind.

They cover pods, workloads and their templates, and the kinds that admission and scheduling read.
Source: k8s.io/kubernetes pkg/apis/*/v1/defaults.go.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from common.quantity import QuantityError
from sandbox.errors import cannot_be_handled
from sandbox.objects.pod_resources import (
    canonical_amounts,
    complete_pod_resources,
    containers_of,
)
from sandbox.objects.resources import Resource

Json = dict[str, Any]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LIMIT_RANGE_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def fill(resource: Resource, obj: Json) -> None:
    """Complete ``obj`` in place. Completing it twice changes nothing.

    Raises:
        ApiError: 400, a quantity is invalid, or the shape differs from the kind's.
    """
    complete = _BY_KIND.get(resource.kind) if not resource.custom else None
    if complete is None:
        return
    try:
        complete(obj)
    except QuantityError as error:
        raise cannot_be_handled(resource, error.problem) from error
    except (AttributeError, TypeError, KeyError) as error:
        raise cannot_be_handled(resource, str(error)) from error


def _pod(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    _pod_spec(pod)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("enableServiceLinks", True)
    complete_pod_resources(pod)


def _pod_spec(holder: Json) -> None:
    """Fill in the defaults that a pod and a template share."""
    spec = holder["spec"]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in containers_of(holder):
        _container(container)


def _container(container: Json) -> None:
    if container.get("resources") is None:
        container["resources"] = {}
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
    latest = tag in ("", "latest") and "@" not in container.get("image", "")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10)):
                probe.setdefault(key, value)
            probe.setdefault("successThreshold", 1)
            probe.setdefault("failureThreshold", 3)


def _template(owner: Json) -> None:
    template = (owner.get("spec") or {}).get("template")
    if template is None:
        return
    template.setdefault("metadata", {})
    spec = template.setdefault("spec", {})
    _pod_spec(template)
    for holder in (spec, *containers_of(template)):
        for part in ("limits", "requests"):
            canonical_amounts((holder.get("resources") or {}).get(part) or {})
    canonical_amounts(spec.get("overhead") or {})


def _chosen(holder: Json, name: str, default: str) -> Any:
    """Fill in a value that is missing or empty."""
    holder[name] = holder.get(name) or default
    return holder[name]


def _deployment(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if _chosen(strategy, "type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _template(obj)


def _replica_set(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("replicas", 1)
    _template(obj)


def _stateful_set(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("serviceName", "")
    _chosen(spec, "podManagementPolicy", "OrderedReady")
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for name in ("whenDeleted", "whenScaled"):
        _chosen(retention, name, "Retain")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        rolling.pop("maxUnavailable", None)  # behind a gate that is off, unlike for the others
        if strategy["type"] == "RollingUpdate":
            rolling.setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    _template(obj)


def _daemon_set(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if _chosen(strategy, "type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    _template(obj)


def _job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("completions", 1)
    spec.setdefault("parallelism", 1)
    _template(obj)


def _namespace(obj: Json) -> None:
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        meta["labels"] = {
            **(meta.get("labels") or {}),
            "kubernetes.io/metadata.name": meta["name"],
        }
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _secret(obj: Json) -> None:
    obj["type"] = obj.get("type") or "Opaque"
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {})
        data.update({key: b64encode(text.encode()).decode() for key, text in texts.items()})
    if not obj.get("data"):
        obj.pop("data", None)


def _with_spec(obj: Json) -> None:
    """Add the empty spec that Go writes."""
    obj.setdefault("spec", {})


def _limit_range(obj: Json) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        for part in _LIMIT_RANGE_PARTS:
            canonical_amounts(item.get(part) or {})
        if item.get("type") != "Container":
            continue
        for source, target in (("max", "default"), ("default", "defaultRequest")):
            _fill_amounts(item, source, target)
        _fill_amounts(item, "min", "defaultRequest")


def _fill_amounts(item: Json, source: str, target: str) -> None:
    for name, value in (item.get(source) or {}).items():
        item.setdefault(target, {}).setdefault(name, value)


def _quota(obj: Json) -> None:
    canonical_amounts(obj.setdefault("spec", {}).get("hard") or {})
    for part in ("hard", "used"):
        canonical_amounts((obj.get("status") or {}).get(part) or {})


def _event(obj: Json) -> None:
    obj.setdefault("eventTime", None)
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")
    obj.setdefault("source", {})
    obj.setdefault("firstTimestamp", None)
    obj.setdefault("lastTimestamp", None)


def _node(obj: Json) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    capacity = status.get("capacity")
    if capacity:
        canonical_amounts(capacity)
        status.setdefault("allocatable", dict(capacity))
    canonical_amounts(status.get("allocatable") or {})


def _webhooks(obj: Json) -> None:
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")


_BY_KIND: Mapping[str, Callable[[Json], None]] = {
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "Event": _event,
    "Job": _job,
    "Lease": _with_spec,
    "LimitRange": _limit_range,
    "MutatingWebhookConfiguration": _webhooks,
    "Namespace": _namespace,
    "Node": _node,
    "Pod": _pod,
    "PodDisruptionBudget": _with_spec,
    "ReplicaSet": _replica_set,
    "ResourceQuota": _quota,
    "Secret": _secret,
    "StatefulSet": _stateful_set,
}
