"""What the updater calls; ``deploy/rbac`` grants this and nothing more."""

from common.kube import targets
from common.kube.endpoints import (
    DAEMON_SETS,
    EVENTS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    VPAS,
)

ACCESS = (
    *targets.ACCESS,
    PODS.access("list", "watch"),
    LIMIT_RANGES.access("list", "watch"),
    RESOURCE_QUOTAS.access("list", "watch"),
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

REPLACEMENT_DRY_RUN = (
    *(
        endpoint.access("get")
        for endpoint in (DAEMON_SETS, JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
    ),
    PODS.access("create"),
)
"""What ``--replacement-dry-run`` adds; ``deploy/components/dry-run-preflight`` grants it."""
