"""The API access of the updater; ``deploy/rbac`` grants exactly this."""

from common.kube import targets
from common.kube.endpoints import (
    DAEMON_SETS,
    EVENTS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    NODES,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    VPAS,
)
from common.read_api import reviews

ACCESS = (
    *targets.ACCESS,
    *reviews.ACCESS,  # for the read API
    PODS.access("list", "watch"),
    LIMIT_RANGES.access("list", "watch"),
    RESOURCE_QUOTAS.access("list", "watch"),
    VPAS.access("list", "watch"),
    NODES.access("list", "watch"),  # optional: the capacity of nodes
    PODS.access("create", subresource="eviction"),
    PODS.access("patch", subresource="resize"),
    PODS.access("patch"),  # a resize can't set its annotation
    POD_METRICS.access("get", "list"),  # optional: usage before a memory limit goes down in place
    EVENTS.access("create", "patch"),
    LEASES.access("get", names=("vpa-admission-controller",)),  # status Lease of admission
    # Leader election: the default names of the flag and of the Helm chart.
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
"""The access for ``--replacement-dry-run``; ``deploy/components/dry-run-preflight`` grants it."""
