"""All cases, by subject."""

from recorded_requests import (
    access,
    custom,
    definitions,
    hooks,
    objects,
    pods,
    policies,
    reads,
    resize,
    resize_states,
    workloads,
)
from recorded_requests.case import Case, Request

SUBJECTS: dict[str, list[Case]] = {
    "resize": [*resize.CASES, *resize_states.CASES],
    "pods": pods.CASES,
    "workloads": workloads.CASES,
    "policies": policies.CASES,
    "webhooks": hooks.CASES,
    "custom": custom.CASES,
    "definitions": definitions.CASES,
    "reads": reads.CASES,
    "objects": objects.CASES,
    "access": access.CASES,
}

# What every case finds in the cluster.
PREPARATION: tuple[Request, ...] = custom.DEFINITIONS
