"""All cases, by subject."""

from recorded_requests import custom, events, hooks, pods, policies, reads, resize, resize_states
from recorded_requests.case import Case, Request

SUBJECTS: dict[str, list[Case]] = {
    "resize": [*resize.CASES, *resize_states.CASES],
    "pods": pods.CASES,
    "policies": policies.CASES,
    "webhooks": hooks.CASES,
    "custom": custom.CASES,
    "reads": reads.CASES,
    "events": events.CASES,
}

# Objects that exist in the cluster before all cases.
PREPARATION: tuple[Request, ...] = custom.DEFINITIONS
