"""The choice of the VPA that controls a pod.

Source: recommender.md 6.3, admission.md section 4; ``GetControllingVPAForPod``,
vertical-pod-autoscaler/pkg/utils/vpa/api.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.meta import ObjectMeta
from common.labels import Selector
from common.target.owners import Controller, TargetKey

_ZERO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SelectedVpa:
    """A VPA together with the selector of its target's pods."""

    vpa: VerticalPodAutoscaler
    selector: Selector


def target_key(vpa: VerticalPodAutoscaler) -> TargetKey | None:
    """Return the key of the VPA's target, as ``Controller.key``; None without a target."""
    target = vpa.spec.target_ref
    return None if target is None else (vpa.metadata.namespace, target.kind, target.name)


def controlling(
    pod_meta: ObjectMeta, topmost: Controller | None, candidates: Iterable[SelectedVpa]
) -> SelectedVpa | None:
    """Return the VPA of a pod whose topmost controller is ``topmost``.

    It must target that controller, by kind and name in the pod's namespace, and select the
    pod's labels. Of several VPAs the oldest wins; of equally old ones the one that sorts first.
    """
    if topmost is None:
        return None
    matching = (
        candidate
        for candidate in candidates
        if target_key(candidate.vpa) == topmost.key
        and candidate.vpa.metadata.namespace == pod_meta.namespace
        and candidate.selector.matches(pod_meta.labels)
    )
    return min(matching, key=lambda candidate: precedence(candidate.vpa), default=None)


def precedence(vpa: VerticalPodAutoscaler) -> tuple[datetime, str]:
    """Return the sort key by which the first of several VPAs of one target controls its pods."""
    meta = vpa.metadata
    return (meta.creation_timestamp or _ZERO_TIME, meta.name)


def mode_of(vpa: VerticalPodAutoscaler) -> str:
    """Return the update mode as written; Recreate if there is none, or it is empty."""
    policy = vpa.spec.update_policy
    mode = policy.update_mode if policy is not None else None
    return mode or UpdateMode.RECREATE


def can_control_pods(vpa: VerticalPodAutoscaler) -> bool:
    """Return False for a VPA that never controls a pod: one of mode Off without a start-up boost.

    A missing update mode means Recreate. A VPA with an unknown mode can control pods.
    """
    policy = vpa.spec.update_policy
    return policy is None or policy.update_mode != UpdateMode.OFF or has_startup_boost(vpa)


def has_startup_boost(vpa: VerticalPodAutoscaler) -> bool:
    """Return True if the VPA or one of its container policies has a start-up boost.

    Ignore the feature gate.
    """
    if vpa.spec.startup_boost is not None:
        return True
    policy = vpa.spec.resource_policy
    policies = policy.container_policies if policy is not None else None
    return any(entry.startup_boost is not None for entry in policies or ())
