"""The rules that workload controllers keep, beside those of the pods in their templates.

Source: k8s.io/kubernetes pkg/apis/apps/validation/validation.go, for ReplicationControllers
pkg/apis/core/validation/validation.go.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import (
    field_forbidden,
    field_immutable,
    field_invalid,
    field_not_supported,
    field_required,
    fields_invalid,
)
from sandbox.objects.label_selectors import read_selector
from sandbox.objects.rules.claims import claim_causes
from sandbox.objects.rules.dns_names import label_problems
from sandbox.objects.rules.metadata import annotation_causes, label_causes
from sandbox.objects.rules.numbers import (
    negative_causes,
    share_causes,
    share_limit_causes,
    share_value,
)
from sandbox.objects.rules.selectors import in_go_order, is_empty, selector_causes

Json = Mapping[str, Any]
Rules = Callable[[Json, Sequence[Cause]], Iterator[Cause]]

_OTHER_LABELS: Final = "`selector` does not match template `labels`"
_RESTART: Final = "spec.template.spec.restartPolicy"
# What a StatefulSet may change; everything else says who its pods and claims are.
_MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_RETENTION: Final = ("Retain", "Delete")


def workload_causes(kind: str, obj: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    """Every rule that a new workload breaks; ``template`` is what is wrong with its pods."""
    spec = obj.get("spec") or {}
    yield from _RULES[kind](spec, template)
    if kind == "StatefulSet":
        yield from _stateful_creation(spec)


def _stateful_creation(spec: Json) -> Iterator[Cause]:
    """What can't change later, and so is looked at once."""
    name = spec.get("serviceName")
    if name:
        yield from fields_invalid("spec.serviceName", name, label_problems(name))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        for one in claim_causes(claim):
            where = f"spec.volumeClaimTemplates[{index}].{one.field}"
            yield Cause(reason=one.reason, message=one.message, field=where)


def workload_change_causes(
    kind: str, old: Json, new: Json, template: Sequence[Cause]
) -> Iterator[Cause]:
    """Every rule that a change breaks."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    fixed = _fixed_causes(kind, before, after)
    if kind == "DaemonSet":
        yield from fixed
    yield from _RULES[kind](after, template)
    if kind != "DaemonSet":
        yield from fixed


def _fixed_causes(kind: str, before: Json, after: Json) -> Iterator[Cause]:
    """What may not change."""
    if kind == "StatefulSet":
        if _identity(before) != _identity(after):
            *first, last = (f"'{name}'" for name in _MUTABLE)
            text = (
                "updates to statefulset spec for fields other than "
                f"{', '.join(first)} and {last} are forbidden"
            )
            yield field_forbidden("spec", text)
    elif kind != "ReplicationController" and before.get("selector") != after.get("selector"):
        shown = in_go_order(after.get("selector"))
        yield field_immutable("spec.selector", shown)


def _identity(spec: Json) -> dict[str, Any]:
    return {
        name: value
        for name, value in spec.items()
        if name not in _MUTABLE and value not in (None, "", [], {})
    }


def _deployment(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    yield from negative_causes(spec, "spec", "replicas")
    yield from _replica_template(spec, template)
    yield from _deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
    yield from negative_causes(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    deadline = spec.get("progressDeadlineSeconds")
    if isinstance(deadline, int):
        yield from negative_causes(spec, "spec", "progressDeadlineSeconds")
        if deadline <= (spec.get("minReadySeconds") or 0):
            text = "must be greater than minReadySeconds"
            yield field_invalid("spec.progressDeadlineSeconds", deadline, text)


def _replica_set(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    yield from negative_causes(spec, "spec", "replicas", "minReadySeconds")
    yield from _replica_template(spec, template)


def _replica_template(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    yield from _needed_selector(spec, "deployment")  # a ReplicaSet's message says so, too
    if read_selector(spec.get("selector")) is None:
        shown = in_go_order(spec.get("selector"))
        yield field_invalid("spec.selector", shown, "invalid label selector")
        return
    yield from _label_causes(spec)
    yield from template
    yield from _restart_causes(spec)
    yield from _deadline_causes(spec, "ReplicaSet")


def _stateful_set(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        yield field_invalid("spec.podManagementPolicy", policy, text)
    yield from _stateful_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if retention.get(name) not in _RETENTION:
            where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            yield field_not_supported(where, retention.get(name), _RETENTION)
    yield from negative_causes(spec, "spec", "replicas", "minReadySeconds")
    yield from negative_causes(spec.get("ordinals") or {}, "spec.ordinals", "start")
    yield from _needed_selector(spec, "statefulset")
    if read_selector(spec.get("selector")) is None:
        shown = in_go_order(spec.get("selector"))
        yield field_invalid("spec.selector", shown, "")
    else:
        yield from _label_causes(spec)
        yield from template
        meta = (spec.get("template") or {}).get("metadata") or {}  # told once more, as it is
        yield from label_causes(meta.get("labels"), "spec.template.labels")
        yield from annotation_causes(meta.get("annotations"), "spec.template.annotations")
    yield from _restart_causes(spec)
    yield from _deadline_causes(spec, "StatefulSet")


def _daemon_set(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    selector = spec.get("selector")
    yield from selector_causes(selector, "spec.selector")
    yield from _label_causes(spec)
    if selector is not None and is_empty(selector):
        yield field_invalid("spec.selector", {}, "empty selector is invalid for daemonset")
    yield from template
    yield from _restart_causes(spec)
    yield from _deadline_causes(spec, "DaemonSet")
    yield from negative_causes(spec, "spec", "minReadySeconds")
    yield from _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from negative_causes(spec, "spec", "revisionHistoryLimit")


def _replication_controller(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    yield from negative_causes(spec, "spec", "minReadySeconds")
    if not spec.get("selector"):
        yield field_required("spec.selector")
    yield from negative_causes(spec, "spec", "replicas")
    if spec.get("template") is None:
        yield field_required("spec.template")
        return
    labels = _labels(spec)
    if any((labels or {}).get(key) != value for key, value in (spec.get("selector") or {}).items()):
        yield field_invalid("spec.template.metadata.labels", labels, _OTHER_LABELS)
    yield from template
    yield from _restart_causes(spec)
    yield from _deadline_causes(spec, "ReplicationController")


_RULES: Final[Mapping[str, Rules]] = {
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replication_controller,
    "StatefulSet": _stateful_set,
}


def _needed_selector(spec: Json, called: str) -> Iterator[Cause]:
    selector = spec.get("selector")
    if selector is None:
        yield field_required("spec.selector")
        return
    yield from selector_causes(selector, "spec.selector")
    if is_empty(selector):
        yield field_invalid("spec.selector", {}, f"empty selector is invalid for {called}")


def _label_causes(spec: Json) -> Iterator[Cause]:
    """The pods to be must be among those that are selected."""
    selector, labels = read_selector(spec.get("selector")), _labels(spec)
    if selector is not None and not selector.matches(labels or {}):
        yield field_invalid("spec.template.metadata.labels", labels, _OTHER_LABELS)


def _labels(spec: Json) -> dict[str, str] | None:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return dict(sorted(labels.items())) if labels else None


def _restart_causes(spec: Json) -> Iterator[Cause]:
    """Pods of a controller are restarted whenever they end."""
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "Always")
    if policy != "Always":
        yield field_not_supported(_RESTART, policy, ("Always",))


def _deadline_causes(spec: Json, kind: str) -> Iterator[Cause]:
    if ((spec.get("template") or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        yield field_forbidden("spec.template.spec.activeDeadlineSeconds", text)


def _deployment_strategy(strategy: Json, path: str) -> Iterator[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield field_forbidden(f"{path}.rollingUpdate", text)
    elif kind == "RollingUpdate":
        yield from _deployment_rolling(rolling or {}, f"{path}.rollingUpdate")
    else:
        shown = _shown_strategy(strategy, {"MaxUnavailable": 0, "MaxSurge": 0})
        yield field_not_supported(path, shown, ("Recreate", "RollingUpdate"))


def _deployment_rolling(rolling: Json, path: str) -> Iterator[Cause]:
    missing, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    yield from share_causes(f"{path}.maxUnavailable", missing)
    yield from share_causes(f"{path}.maxSurge", surge)
    if share_value(missing) == 0 and share_value(surge) == 0:
        text = "may not be 0 when `maxSurge` is 0"
        yield field_invalid(f"{path}.maxUnavailable", missing, text)
    yield from share_limit_causes(f"{path}.maxUnavailable", missing)


def _stateful_strategy(strategy: Json, path: str) -> Iterator[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            shown = _shown_strategy(strategy, _STATEFUL_ROLLING)["RollingUpdate"]
            text = "only allowed for updateStrategy 'RollingUpdate'"
            yield field_invalid(f"{path}.rollingUpdate", shown, text)
    elif kind == "RollingUpdate":
        yield from negative_causes(rolling or {}, f"{path}.rollingUpdate", "partition")
    else:
        shown = _shown_strategy(strategy, _STATEFUL_ROLLING)
        yield field_invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


_STATEFUL_ROLLING: Final = {"Partition": 0, "MaxUnavailable": None}


def _daemon_strategy(strategy: Json, path: str) -> Iterator[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate") or {}
    if kind == "RollingUpdate":
        yield from _daemon_rolling(rolling, f"{path}.rollingUpdate")
    elif kind != "OnDelete":
        shown = _shown_strategy(strategy, {"MaxUnavailable": 0, "MaxSurge": 0})
        yield field_not_supported(path, shown, ("RollingUpdate", "OnDelete"))


def _daemon_rolling(rolling: Json, path: str) -> Iterator[Cause]:
    shares = {name: rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    for name, value in shares.items():
        yield from share_causes(f"{path}.{name}", value)
    for name, value in shares.items():
        yield from share_limit_causes(f"{path}.{name}", value)
    missing, surge = (share_value(value) != 0 for value in shares.values())
    if missing and surge:
        text = "may not be set when maxUnavailable is non-zero"
        yield field_invalid(f"{path}.maxSurge", shares["maxSurge"], text)
    elif not missing and not surge:
        yield field_required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _shown_strategy(strategy: Json, rolling: Mapping[str, Any]) -> dict[str, Any]:
    """A strategy as a real API server quotes it: in the form in which Go holds it."""
    given = strategy.get("rollingUpdate")
    held = None
    if given is not None:
        held = {
            name: given.get(f"{name[0].lower()}{name[1:]}", absent)
            for name, absent in rolling.items()
        }
    return {"Type": strategy.get("type", ""), "RollingUpdate": held}
