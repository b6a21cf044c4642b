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
    POD_TEMPLATES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    VPAS,
    Access,
)
from common.kube.node_autoscalers import CONFIG_MAPS, NODE_POOLS, STATUS_NAME
from common.read_api import reviews
from updater.capacity.provisioning_plan import RequestKind
from updater.capacity.request_apis import REQUESTING_WORKLOADS, RESOURCES
from updater.capacity.request_objects import GROUP

ACCESS = (
    *targets.ACCESS,
    *reviews.ACCESS,  # for the read API
    PODS.access("list", "watch"),
    LIMIT_RANGES.access("list", "watch"),
    RESOURCE_QUOTAS.access("list", "watch"),
    VPAS.access("list", "watch"),
    NODES.access("list", "watch"),  # optional: the capacity of nodes
    # Optional: whether an autoscaler adds nodes for Pending pods.
    NODE_POOLS.access("list"),
    CONFIG_MAPS.access("get", names=(STATUS_NAME,)),
    # Optional: requests for capacity, with the pod templates of workloads.
    Access(GROUP, RESOURCES[RequestKind.BUFFER], ("list", "create", "patch", "delete")),
    Access(GROUP, RESOURCES[RequestKind.REQUEST], ("list", "create", "delete")),
    POD_TEMPLATES.access("list", "create", "delete"),
    *(each.access("get") for each in REQUESTING_WORKLOADS),
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
