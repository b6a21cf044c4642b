"""The decision whether a ResourceQuota counts a pod, by its scopes.

Source: ``podMatchesScopeFunc`` and ``podMatchesSelector``,
k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.api.core import PodSpec, ResourceQuotaSpec
from common.recommendation.qos import QosClass, qos_class

_BEST_EFFORT = "BestEffort"
_NOT_BEST_EFFORT = "NotBestEffort"
_TERMINATING = "Terminating"
_NOT_TERMINATING = "NotTerminating"
_PRIORITY_CLASS = "PriorityClass"
_OF_CLAIMS = "VolumeAttributesClass"  # a scope of PersistentVolumeClaims: no pod is in it
_EXISTS = "Exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFacts:
    """The facts about a pod that decide which quotas count it; None: unknown."""

    is_best_effort: bool | None = None
    is_terminating: bool | None = None  # it has activeDeadlineSeconds
    priority_class: str | None = None  # empty: the pod has none


def scope_facts(spec: PodSpec, *, priority_class: str, deadline: int | None) -> ScopeFacts:
    """Return the facts about a pod with this spec.

    Raises:
        QuantityError: a request or a limit is no quantity.
    """
    return ScopeFacts(
        is_best_effort=qos_class(spec) is QosClass.BEST_EFFORT,
        is_terminating=deadline is not None and deadline >= 0,
        priority_class=priority_class,
    )


def is_counted(quota: ResourceQuotaSpec, pod: ScopeFacts) -> bool | None:
    """Return whether a quota counts a pod; None if the known facts don't decide it.

    A pod must be in all scopes. An affinity to pods of other namespaces, a scope or an operator of
    a newer Kubernetes, and a malformed selector decide nothing.
    """
    answers = [_is_in(scope, _EXISTS, (), pod) for scope in quota.scopes or ()]
    answers += _answers(quota.scope_selector, pod)
    if False in answers:
        return False
    return None if None in answers else True


def _answers(selector: Mapping[str, Any] | None, pod: ScopeFacts) -> Iterator[bool | None]:
    expressions = () if selector is None else selector.get("matchExpressions")
    if not isinstance(expressions, Sequence):
        yield None if expressions is not None else True
        return
    for each in expressions:
        if not isinstance(each, Mapping):
            yield None
            continue
        values = each.get("values") or ()
        is_list = isinstance(values, Sequence) and not isinstance(values, str)
        scope, operator = each.get("scopeName"), each.get("operator")
        yield _is_in(scope, operator, values, pod) if is_list else None


def _is_in(
    scope: object, operator: object, values: Sequence[object], pod: ScopeFacts
) -> bool | None:
    if scope == _PRIORITY_CLASS:
        return _has_class(operator, values, pod.priority_class)
    if scope == _OF_CLAIMS:
        return False
    facts = {
        _BEST_EFFORT: pod.is_best_effort,
        _TERMINATING: pod.is_terminating,
    }
    opposite = {_NOT_BEST_EFFORT: pod.is_best_effort, _NOT_TERMINATING: pod.is_terminating}
    if operator != _EXISTS or not isinstance(scope, str):
        return None
    denied = opposite.get(scope)
    return facts.get(scope) if denied is None else not denied


def _has_class(operator: object, values: Sequence[object], name: str | None) -> bool | None:
    """Return whether a priority class satisfies an operator; a missing one is NotIn every list."""
    if name is None:
        return None
    match operator:
        case "In":
            return bool(name) and name in values
        case "NotIn":
            return not name or name not in values
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
    return None
