"""The permissions without which a component doesn't work: ours, and the reference's.

A test checks that our roles grant all of them. They are fewer than the roles have, because what a
component needs only for some workloads is left out.
"""

from common.flags import boolean
from common.kube.endpoints import (
    CHECKPOINTS,
    DEPLOYMENTS,
    HPAS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    VPAS,
    Access,
)
from kubectl_vpa.judge.findings import ADMISSION, RECOMMENDER, UPDATER, ComponentPod

_OWNERS = (DEPLOYMENTS.access("list", "watch"), REPLICA_SETS.access("list", "watch"))

NEEDED: dict[str, tuple[Access, ...]] = {
    RECOMMENDER: (
        *_OWNERS,
        PODS.access("list", "watch"),
        POD_METRICS.access("list"),
        VPAS.access("list", "watch"),
        VPAS.access("patch", subresource="status"),
        CHECKPOINTS.access("list", "create", "patch"),
    ),
    UPDATER: (
        *_OWNERS,
        PODS.access("list", "watch"),
        VPAS.access("list", "watch"),
        LIMIT_RANGES.access("list", "watch"),
        PODS.access("create", subresource="eviction"),
        PODS.access("patch", subresource="resize"),
        LEASES.access("get", names=("vpa-admission-controller",)),
    ),
    ADMISSION: (
        *_OWNERS,
        VPAS.access("list", "watch"),
        LIMIT_RANGES.access("list", "watch"),
        LEASES.access("update", names=("vpa-admission-controller",)),
    ),
}

_NAMESPACE_VPAS = (
    NAMESPACES.access("list"),
    HPAS.access("list"),
    VPAS.access("create", "patch", "delete"),
)


def needed_by(pod: ComponentPod) -> tuple[Access, ...]:
    """Return the permissions that a component needs with the flags of this pod."""
    creates_vpas = pod.component == RECOMMENDER and _is_set(pod, "namespace-vpas")
    return NEEDED[pod.component] + (_NAMESPACE_VPAS if creates_vpas else ())


def _is_set(pod: ComponentPod, flag: str) -> bool:
    """Return True if a Boolean flag is set; a flag without a value is."""
    try:
        return boolean(pod.flags.get(flag, "false") or "true")
    except ValueError:
        return False  # the component ends with an error
