"""Where the sandbox differs from a real API server, and why; nothing else may.

The replay fails for a case that is named here and no longer differs.
"""

KNOWN: dict[str, tuple[str, ...]] = {
    "server-side apply is refused by the sandbox (415)": (
        "map-apply",
        "resize-apply-without-manager",
    ),
    "the refusal quotes the sets of fields of managedFields, which the sandbox doesn't keep": (
        "fields-pod-merge-strict",
        "scale-deployments-text",
        "scale-replicasets-text",
        "scale-statefulsets-text",
    ),
    "the refusal quotes the whole template in the form in which Go holds it, fields by the dozen": (
        "change-jobs-template",
    ),
}
