"""The service accounts of kube-system that a new cluster trusts, each with one writer."""

from typing import Final

CONTROLLERS: Final = (
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "pvc-protection-controller",
    "replicaset-controller",
    "replication-controller",
    "resourcequota-controller",
    "statefulset-controller",
)
"""Those that keep objects as they are asked for."""

FURNISHERS: Final = ("root-ca-cert-publisher", "service-account-controller")
"""Those that put into each namespace what its pods need."""
