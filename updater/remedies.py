"""What would unblock a pod that waits, for each reason; docs/reasons.md lists the texts."""

from collections.abc import Mapping

from updater.decision import Reason

_TRIED_AGAIN = "Nothing: the next pass tries again."

REMEDIES: Mapping[Reason, str] = {
    Reason.RESIZE_INFEASIBLE: "A larger node, or a lower maxAllowed in the VPA; mode "
    "InPlaceOrRecreate evicts the pod instead.",
    Reason.RESIZE_REFUSED: "Change what refuses the resize, as the detail says: a policy, a "
    "LimitRange, or the recommendation by minAllowed and maxAllowed.",
    Reason.RESIZE_NOT_SERVED: "Kubernetes 1.33 or newer, or a mode that evicts.",
    Reason.QOS_WOULD_CHANGE: "A mode that evicts, or limits that keep the QoS class.",
    Reason.NO_RECOMMENDATION: "Usage of the pod: the recommender needs metrics of its containers.",
    Reason.INFEASIBLE_CACHED: "A smaller recommendation (lower maxAllowed), or a node with more "
    "room.",
    Reason.UNREADABLE: "Correct the quantity or the annotation.",
    Reason.NO_CONTROLLER: "A controller for the pod, such as a Deployment, or mode InPlace.",
    Reason.CONTROLLER_UNKNOWN: "A controller that exists and asks for replicas.",
    Reason.BELOW_MIN_REPLICAS: "More replicas, or a lower minReplicas in the VPA's updatePolicy "
    "(or --min-replicas).",
    Reason.BUDGET_EXHAUSTED: "Replicas that are down have to come back, or more replicas.",
    Reason.ROLLOUT_IN_PROGRESS: "The end of the rollout.",
    Reason.POD_PENDING: "A node for the pod, and its start.",
    Reason.STARTUP_BOOSTED: "The end of the start-up boost.",
    Reason.REQUIREMENTS_NOT_MET: "Other evictionRequirements in the VPA, or a recommendation that "
    "meets them.",
    Reason.ADMISSION_NOT_READY: "A running admission controller that renews its status Lease.",
    Reason.OOM_NOT_LEARNT_YET: "A recommendation above the memory at the kill, which the "
    "recommender publishes within minutes; maxAllowed may prevent it.",
    Reason.OOM_AFTER_DECREASE: "A day without another such kill, a higher recommendation, or a new "
    "pod, which gets the lower limit; a restart of the updater forgets the kill.",
    Reason.MEMORY_IN_USE: "Lower usage for 15 minutes, a higher recommendation, or a new "
    "pod, which gets the lower limit.",
    Reason.MEMORY_USAGE_UNKNOWN: "Usage of the pod in metrics.k8s.io, and the updater's permission "
    "to read it; the next pass tries again.",
    Reason.MEMORY_DECREASE_PAUSED: "Nothing: the step follows after the pause, if usage allows it.",
    Reason.REPLACEMENT_WOULD_BE_REFUSED: "Change what would refuse the replacement, as the detail "
    "says, such as a quota or a policy.",
    Reason.REPLACEMENT_LACKS_RECOMMENDATION: "A webhook that patches new pods: check admission, "
    "and other webhooks that change requests.",
    Reason.POD_LEVEL_RESOURCES_EXHAUSTED: "Higher spec.resources in the pod template, or "
    "--pod-level-resources=follow.",
    Reason.REPLACEMENT_UNVERIFIED: "Replacements of the last evictions that run with the "
    "recommendation.",
    Reason.ACTUATION_SUSPENDED: "One new pod that has the recommendation: check admission, quotas "
    "and the scheduler.",
    Reason.NO_CAPACITY: "A node with more free room that the pod may run on, or a lower maxAllowed "
    "in the VPA. If an autoscaler adds nodes for Pending pods, --capacity-check=off evicts the pod "
    "without room.",
    Reason.CAPACITY_REQUESTED: "A node that the autoscaler adds: see the conditions of the object "
    "that the detail names.",
    Reason.CAPACITY_REFUSED: "Change what the detail says, such as the limits of the autoscaler or "
    "its rights; the request is made again.",
    Reason.VPA_CHANGED: _TRIED_AGAIN,
    Reason.RESIZE_DEFERRED: "Room on the node, or the end of the time-out, after which modes with "
    "evictions evict the pod.",
    Reason.RESIZE_IN_PROGRESS: "Nothing: the kubelet finishes the resize.",
    Reason.RESIZE_ERROR: "Read the error in the pod's condition PodResizeInProgress.",
    Reason.RESIZE_UNKNOWN: "Read the conditions PodResizePending and PodResizeInProgress of the "
    "pod.",
    Reason.QUOTA_EXCEEDED: "A larger ResourceQuota, or a lower maxAllowed in the VPA.",
    Reason.RESIZE_RETRY: _TRIED_AGAIN,
    Reason.UNBOOST_FAILED: _TRIED_AGAIN,
    Reason.EVICTION_REFUSED: "A PodDisruptionBudget that allows a disruption.",
    Reason.EVICTION_FAILED: _TRIED_AGAIN,
    Reason.RATE_LIMITED: "A higher --eviction-rate-limit; the next pass tries again.",
    Reason.NO_TURN: _TRIED_AGAIN,
    Reason.RESIZE_SENT: _TRIED_AGAIN.replace("tries again", "sees the result"),
}
"""Reasons without an entry need nothing, or are actions."""
