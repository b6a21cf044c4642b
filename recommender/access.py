"""The API access that the recommender needs; ``deploy/rbac`` grants no more."""

from common.kube import targets
from common.kube.endpoints import (
    CHECKPOINTS,
    EVENTS,
    HPAS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_METRICS,
    PODS,
    RESOURCE_QUOTAS,
    VPAS,
    Access,
)
from common.kube.node_autoscalers import CONFIG_MAPS, NODE_POOLS, STATUS_NAME
from common.read_api import reviews

ACCESS = (
    *targets.ACCESS,
    *reviews.ACCESS,  # for the read API
    PODS.access("list", "watch"),
    EVENTS.access("list", "watch"),  # evictions by the kubelet count as OOM kills
    POD_METRICS.access("list"),
    RESOURCE_QUOTAS.access("list", "watch"),  # optional: targets are lowered to them
    VPAS.access("get", "list", "watch"),
    VPAS.access("patch", subresource="status"),
    NODES.access("list", "watch"),  # caps to nodes; all three are optional
    NODE_POOLS.access("list"),
    CONFIG_MAPS.access("get", names=(STATUS_NAME,)),
    CHECKPOINTS.access("list", "watch", "create", "patch", "delete"),
    # Leader election: the default name of the Lease, and its name in the Helm chart.
    LEASES.access("create"),
    LEASES.access("get", "update", names=("vpa-recommender", "vpa-recommender-lease")),
)

# Only with --use-external-metrics, which the manifests don't set. Resources are named like metrics.
EXTERNAL_METRICS = (Access("external.metrics.k8s.io", "*", ("list",)),)

# Only with --namespace-vpas, which the manifests don't set.
NAMESPACE_VPAS = (
    NAMESPACES.access("list"),
    HPAS.access("list"),
    VPAS.access("create", "patch", "delete"),
)
