"""The rules that workload controllers keep, beside those of the pods in their templates.

Source: k8s.io/kubernetes pkg/apis/apps/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_invalid, field_not_supported, field_required

Json = Mapping[str, Any]

_NOT_NEGATIVE = "must be greater than or equal to 0"
# A ReplicaSet's message is that of a Deployment.
_CALLED = {"DaemonSet": "daemonset", "StatefulSet": "statefulset"}


def selector_causes(kind: str, spec: Json) -> Iterator[Cause]:
    """The number of replicas, the selector, and the labels that it must find."""
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        yield field_invalid("spec.replicas", replicas, _NOT_NEGATIVE)
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    found = labels or {}
    if selector is None:
        if kind != "DaemonSet":
            yield field_required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {_CALLED.get(kind, 'deployment')}"
        yield field_invalid("spec.selector", {}, text)
        return
    elif all(found.get(k) == v for k, v in (selector.get("matchLabels") or {}).items()):
        return
    text = "`selector` does not match template `labels`"
    yield field_invalid("spec.template.metadata.labels", labels, text)


def restart_causes(spec: Json) -> Iterator[Cause]:
    """Pods of a controller are restarted whenever they end; a Job's are not."""
    template = (spec.get("template") or {}).get("spec") or {}
    policy = template.get("restartPolicy")
    if policy in ("Never", "OnFailure"):
        yield field_not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
