"""What the updater calls; ``deploy/rbac`` grants this and nothing more."""

from common.kube import targets
from common.kube.endpoints import EVENTS, LEASES, LIMIT_RANGES, NODES, PODS, VPAS

ACCESS = (
    *targets.ACCESS,
    PODS.access("list", "watch"),
    LIMIT_RANGES.access("list", "watch"),
    VPAS.access("list", "watch"),
    NODES.access("list", "watch"),  # what a node can hold; the updater runs without it, too
    PODS.access("create", subresource="eviction"),
    PODS.access("patch", subresource="resize"),
    PODS.access("patch"),  # the annotation of a resize can't travel with it
    EVENTS.access("create", "patch"),
    LEASES.access("get", names=("vpa-admission-controller",)),  # its sign of life
    # Leader election; the names that the flag has by default, and in the Helm chart.
    LEASES.access("create"),
    LEASES.access("get", "update", names=("vpa-updater", "vpa-updater-lease")),
)
