"""API access of ``vpa-certs``; ``deploy/rbac`` grants exactly these permissions."""

from certs.settings import DEFAULT_SECRET
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.endpoints import MUTATING_WEBHOOKS, SECRETS

ACCESS = (
    SECRETS.access("get", "patch", names=(DEFAULT_SECRET,)),
    MUTATING_WEBHOOKS.access("get", "patch", names=(CONFIGURATION_NAME,)),
)
