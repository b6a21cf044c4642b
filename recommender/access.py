"""What the recommender calls; ``deploy/rbac`` grants this and nothing more."""

from common.kube import targets
from common.kube.endpoints import CHECKPOINTS, EVENTS, LEASES, POD_METRICS, PODS, VPAS, Access

ACCESS = (
    *targets.ACCESS,
    PODS.access("list", "watch"),
    EVENTS.access("list", "watch"),  # evictions by the kubelet count as OOM kills
    POD_METRICS.access("list"),
    VPAS.access("get", "list", "watch"),
    VPAS.access("patch", subresource="status"),
    CHECKPOINTS.access("list", "watch", "create", "patch", "delete"),
    # Leader election; the names that the flag has by default, and in the Helm chart.
    LEASES.access("create"),
    LEASES.access("get", "update", names=("vpa-recommender", "vpa-recommender-lease")),
)

# With --use-external-metrics, which our manifests don't set: resources are called as metrics are.
EXTERNAL_METRICS = (Access("external.metrics.k8s.io", "*", ("list",)),)
