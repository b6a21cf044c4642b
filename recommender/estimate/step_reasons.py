"""The steps between usage and a status, with their meaning."""

from common.codes import Code


class StepReason(Code):
    """A step, with its meaning as ``GET /debug/vpa`` prints it."""

    PERCENTILE = "percentile", "The usage that this part of the samples' weight stays within."
    MARGIN = "margin", "--recommendation-margin-fraction is added."
    CONFIDENCE = "confidence", "The less history there is, the further a bound is moved away."
    MINIMUM = "minimum", "The pod's minimum, divided by its containers."
    NOT_CONTROLLED = "not_controlled", "controlledResources of the policy leaves it out."
    ROUNDING = "rounding", "Up to a multiple."
    HUMANIZED = "humanized", "--humanize-memory: two decimals in the largest unit."
    BEFORE_CAPS = "before_caps", "What the target is before anything caps it."
    UNOBSERVED = "unobserved", "Too little is known: what is published stays, or there is nothing."
    INTEGER_CPU = "integer_cpu", "Up to whole cores, as an annotation of the VPA asks."
    MIN_ALLOWED = "min_allowed", "minAllowed of the policy."
    MAX_ALLOWED = "max_allowed", "maxAllowed of the policy."
    GLOBAL_MAX = "global_max_allowed", "--container-recommendation-max-allowed-cpu or -memory."
    ORDER = "order_bounds", "Moved to the target: lower bound <= target <= upper bound."
    QUOTA = "quota", "Lowered so that the pods of the next rollout fit the ResourceQuotas."
    NODES = "nodes", "Lowered so that a pod fits a node; this is the room for the whole pod."
    TARGET_UNKNOWN = "target_unknown", "The target's pods are unknown now: what is published stays."
    HISTORY_MISSING = "history_missing", "History is being loaded: what is published stays."
    TOO_CLOSE = "too_close", "Nearly what is published: not written yet."
