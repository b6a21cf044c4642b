"""What the admission controller calls; ``deploy/rbac`` grants this and nothing more."""

from common.kube import targets
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.endpoints import LEASES, LIMIT_RANGES, MUTATING_WEBHOOKS, VPAS

ACCESS = (
    *targets.ACCESS,
    VPAS.access("list", "watch"),
    LIMIT_RANGES.access("list", "watch"),
    # Rights on every webhook would be rights on every object: only ours.
    MUTATING_WEBHOOKS.access("create"),
    MUTATING_WEBHOOKS.access("get", "patch", names=(CONFIGURATION_NAME,)),
    LEASES.access("create"),
    LEASES.access("get", "update", names=("vpa-admission-controller",)),  # our sign of life
)
