"""All cases, by subject."""

from recorded_requests import (
    access,
    asking,
    custom,
    definitions,
    events,
    hook_rules,
    hooks,
    object_rules,
    objects,
    pod_rules,
    pod_writes,
    pods,
    policies,
    read_options,
    reads,
    resize,
    resize_states,
    workload_rules,
    workloads,
)
from recorded_requests.case import Case, Request

SUBJECTS: dict[str, list[Case]] = {
    "resize": [*resize.CASES, *resize_states.CASES],
    "pods": pods.CASES,
    "pod_rules": pod_rules.CASES,
    "pod_writes": pod_writes.CASES,
    "workloads": workloads.CASES,
    "workload_rules": workload_rules.CASES,
    "policies": policies.CASES,
    "webhooks": hooks.CASES,
    "hook_rules": hook_rules.CASES,
    "custom": custom.CASES,
    "definitions": definitions.CASES,
    "reads": reads.CASES,
    "read_options": read_options.CASES,
    "objects": objects.CASES,
    "object_rules": object_rules.CASES,
    "events": events.CASES,
    "access": access.CASES,
    "asking": asking.CASES,
}

# What every case finds in the cluster.
PREPARATION: tuple[Request, ...] = custom.DEFINITIONS
