"""API access of the admission controller; ``deploy/rbac`` grants exactly these permissions."""

from certs.settings import DEFAULT_SECRET
from common.kube import targets
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.endpoints import LEASES, LIMIT_RANGES, MUTATING_WEBHOOKS, SECRETS, VPAS
from common.read_api import reviews

ACCESS = (
    *targets.ACCESS,
    *reviews.ACCESS,  # for the read API
    VPAS.access("list", "watch"),
    LIMIT_RANGES.access("list", "watch"),
    # Only our configuration: a client that can write every webhook can change every object.
    MUTATING_WEBHOOKS.access("create"),
    MUTATING_WEBHOOKS.access("get", "patch", names=(CONFIGURATION_NAME,)),
    SECRETS.access("get", "patch", names=(DEFAULT_SECRET,)),  # with --manage-certificates
    LEASES.access("create"),
    LEASES.access("get", "update", names=("vpa-admission-controller",)),  # the status Lease
)
